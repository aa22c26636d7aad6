"""VMASFlocking-v0 (4 agents): Agents stay close to a moving target."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, require_room, way
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, GREEN, RED, Scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import flocking

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASFlocking-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(4, ge=1)
    """Number of agents."""
    n_obstacles: int = setting(5, ge=0)
    """Number of obstacles."""
    min_dist_between_entities: float = setting(0.15, ge=0.0)
    """Smallest distance between the centers of agents, obstacles and the target at the start [m]."""
    n_lidar_rays: int = setting(12, ge=1)
    """Number of rays."""
    collision_reward: float = setting(-0.1)
    """Reward of an agent for each other one, or the target, that is nearer than 0.005 m."""
    dist_shaping_factor: float = setting(1.0)
    """Reward per square meter by which the mean square deviation of distances from 0.1 m gets less [1/m²]."""


def sizes_of(config: Config) -> flocking.Sizes:
    """Return what the kernels capture."""
    return flocking.Sizes(config.n_agents, config.n_obstacles, config.n_lidar_rays)


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return flocking.physics(sizes_of(config))


def build(config: Config) -> EnvDefinition:
    require_room(config.n_agents + 1 + config.n_obstacles, config.min_dist_between_entities)
    return scenario.define(
        config,
        physics_of(config),
        width=6 + config.n_lidar_rays,
        state={"time": integers((), 0, MAX_INT), "deviation": (config.n_agents,)},
        rules=flocking.rules(sizes_of(config), config.continuous_actions),
        params=params_of(config, flocking.Params),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, the target green, obstacles red."""
    return scene(core, envs, physics_of(core.config), {"agent": BLUE, "target": GREEN, "obstacle": RED})


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    meaning = "distance of the next obstacle along each ray, counterclockwise from +x; 0.2: none"
    rays = ObservationBlock(meaning, "m", -0.1, flocking.LIDAR_RANGE, config.n_lidar_rays)
    return [*own_motion(), way("the agent relative to the target"), rays]
