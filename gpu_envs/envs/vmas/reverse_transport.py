"""VMASReverseTransport-v0 (4 agents): Agents push a package from inside."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, velocity, way
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, DARK, GREEN, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import reverse_transport

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASReverseTransport-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(4, ge=1)
    """Number of agents."""
    package_width: float = setting(0.6, gt=0.06)
    """Side of the package along y [m]."""
    package_length: float = setting(0.6, gt=0.06)
    """Side of the package along x [m]."""
    package_mass: float = setting(50.0, gt=0.0)
    """Mass of the package [kg]."""


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return reverse_transport.physics(config.n_agents)


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        physics_of(config),
        width=10,
        state={"gap": ()},
        rules=reverse_transport.rules(config.n_agents, config.continuous_actions),
        params=params_of(config, reverse_transport.Params, shaping_factor=100.0),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, the outline of the package dark, the goal green."""
    colors = {"agent": BLUE, "package": DARK, "goal": GREEN}
    return scene(core, envs, physics_of(core.config), colors, targets=("goal",))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    return [
        *own_motion(),
        velocity("the package"),
        way("the package relative to the agent"),
        way("the package relative to the goal"),
    ]
