"""VMASTransport-v0 (4 agents): Agents push a heavy package to a goal."""

import math
from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, require_room, velocity, way
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, GREEN, ORANGE, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import transport

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASTransport-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(4, ge=1)
    """Number of agents."""
    n_packages: int = setting(1, ge=1)
    """Number of packages."""
    package_width: float = setting(0.15, gt=0.0, le=2.0)
    """Side of a package along y [m]."""
    package_length: float = setting(0.15, gt=0.0, le=2.0)
    """Side of a package along x [m]."""
    package_mass: float = setting(50.0, gt=0.0)
    """Mass of a package [kg]."""


def build(config: Config) -> EnvDefinition:
    agents, packages = config.n_agents, config.n_packages
    apart = 0.5 * math.hypot(config.package_length, config.package_width) + transport.GOAL_RADIUS + transport.MARGIN
    require_room(packages + 1, apart)
    require_room(agents, 2.0 * transport.AGENT_RADIUS)
    half_side = 1.0 + 2.0 * transport.AGENT_RADIUS + max(config.package_length, config.package_width)
    return scenario.define(
        config,
        physics_of(config),
        width=4 + 7 * packages,
        state={"gap": (packages,), "on_goal": integers((packages,), 0, 1)},
        rules=transport.rules(agents, packages, config.continuous_actions),
        params=params_of(config, transport.Params, shaping_factor=100.0, half_side=half_side),
        draw=draw,
    )


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return transport.physics(config.n_agents, config.n_packages)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, packages orange, the goal green."""
    physics = physics_of(core.config)
    return scene(core, envs, physics, {"agent": BLUE, "package": ORANGE, "goal": GREEN}, targets=("goal",))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    blocks = own_motion()
    for index in range(config.n_packages):
        package = f"package {index}"
        blocks += [way(f"{package} relative to the goal"), way(f"{package} relative to the agent"), velocity(package)]
        blocks.append(ObservationBlock(f"{package} is on the goal"))
    return blocks
