"""VMASWheel-v0 (4 agents): Agents turn a heavy line at a desired speed."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ANY, ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, way
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, DARK, Scene, circles
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import wheel

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASWheel-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(4, ge=1)
    """Number of agents."""
    line_length: float = setting(2.0, gt=0.0)
    """Length of the line [m]."""
    line_mass: float = setting(30.0, gt=0.0)
    """Mass of the line [kg]."""
    desired_velocity: float = setting(0.05, ge=0.0)
    """Angular speed that the line shall have [rad/s]."""


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return wheel.physics(config.n_agents)


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        physics_of(config),
        width=13,
        state={},
        rules=wheel.rules(config.n_agents, config.continuous_actions),
        params=params_of(config, wheel.Params),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, the line dark with its hub."""
    hub = circles(core.world_state["pos"][envs][:, core.num_agents :], 0.02, DARK)
    return scene(core, envs, physics_of(core.config), {"agent": BLUE, "line": DARK}, over=(hub,))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [
        *own_motion(),
        way("the middle of the line relative to the agent"),
        way("one end of the line relative to the agent"),
        way("the other end of the line relative to the agent"),
        ObservationBlock("angle of the line, modulo half a turn", "rad", 0.0, 3.1416),
        ObservationBlock("angular speed of the line", "rad/s", 0.0, ANY),
        ObservationBlock("its difference from the desired one", "rad/s", 0.0, ANY),
    ]
