"""VMASBalance-v0 (3 agents): Agents lift a ball on a line to a goal."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, velocity, way
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, ORANGE, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import balance

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASBalance-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(3, ge=2)
    """Number of agents."""
    package_mass: float = setting(5.0, gt=0.0)
    """Mass of the ball [kg]."""
    random_package_pos_on_line: bool = setting(True)
    """The ball starts at a random place on the line instead of its middle."""


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return balance.physics(config.n_agents)


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        physics_of(config),
        width=16,
        state={"gap": ()},
        rules=balance.rules(config.n_agents, config.continuous_actions),
        params=params_of(config, balance.Params, shaping_factor=100.0, fall_reward=-10.0),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, the ball orange on the dark line, the goal green."""
    colors = {"agent": BLUE, "package": ORANGE, "line": DARK, "goal": GREEN, "floor": GRAY}
    return scene(core, envs, physics_of(core.config), colors, targets=("goal",))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [
        *own_motion(),
        way("the agent relative to the ball"),
        way("the agent relative to the middle of the line"),
        way("the ball relative to the goal"),
        velocity("the ball"),
        velocity("the line"),
        ObservationBlock("angular velocity of the line", "rad/s", -float("inf"), float("inf")),
        ObservationBlock("angle of the line, modulo half a turn", "rad", 0.0, 3.1416),
    ]
