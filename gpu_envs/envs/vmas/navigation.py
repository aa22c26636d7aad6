"""VMASNavigation-v0 (4 agents): Agents reach goals and see by LIDAR."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, require_room, way
from gpu_envs.envs.vmas.scene import distinct_colors, scene
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import GRAY, Scene, rings
from gpu_envs.utils.settings import setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import navigation

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASNavigation-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(4, ge=1)
    """Number of agents."""
    collisions: bool = setting(True)
    """Agents collide, and see each other by LIDAR."""
    world_spawning_x: float = setting(1.0, gt=0.0)
    """Agents and goals start with x in [-world_spawning_x, world_spawning_x) [m]."""
    world_spawning_y: float = setting(1.0, gt=0.0)
    """Agents and goals start with y in [-world_spawning_y, world_spawning_y) [m]."""
    enforce_bounds: bool = setting(False)
    """Agents stay in that area."""
    agents_with_same_goal: int = setting(1, ge=1)
    """So many of the first agents have the same goal; only without collisions."""
    split_goals: bool = setting(False)
    """Two halves of the agents have a goal each; agents_with_same_goal is half their number."""
    observe_all_goals: bool = setting(False)
    """Agents observe the goals of all."""
    lidar_range: float = setting(0.35, gt=0.0)
    """Length of the rays [m]."""
    agent_radius: float = setting(0.1, gt=0.0)
    """Radius of an agent [m]."""
    n_lidar_rays: int = setting(12, ge=1)
    """Number of rays."""
    shared_rew: bool = setting(True)
    """Agents are rewarded for the progress of all."""
    pos_shaping_factor: float = setting(1.0)
    """Reward per meter that an agent comes nearer to its goal [1/m]."""
    final_reward: float = setting(0.01)
    """Reward of a step at whose end all agents are on their goals."""
    agent_collision_penalty: float = setting(-1.0)
    """Reward of an agent for each other one that is nearer than 0.005 m."""


def build(config: Config) -> EnvDefinition:
    _check(config)
    count, sizes = config.n_agents, sizes_of(config)
    return scenario.define(
        config,
        physics_of(config),
        width=sizes.width,
        state={"force": (count,), "gap": (count,), "progress": (count,)},
        rules=navigation.rules(sizes, config.continuous_actions),
        params=params_of(config, navigation.Params, min_collision_distance=0.005),
        draw=draw,
    )


def sizes_of(config: Config) -> navigation.Sizes:
    """Return what the kernels capture."""
    return navigation.Sizes(
        num_agents=config.n_agents,
        collisions=config.collisions,
        rays=config.n_lidar_rays if config.collisions else 0,
        shared_goal=config.agents_with_same_goal,
        split_goals=config.split_goals,
        all_goals=config.observe_all_goals,
        is_bounded=config.enforce_bounds,
    )


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return navigation.physics(sizes_of(config))


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents and their goals in the same colors, and the range of the LIDAR."""
    pos, color = core.world_state["pos"][envs], distinct_colors(core.num_agents).to(core.device)
    ranges = rings(pos[:, : core.num_agents], core.get_params(envs)["lidar_range"][:, None], GRAY, 0.006)
    shapes = (ranges,) if core.config.collisions else ()
    return scene(core, envs, physics_of(core.config), {"agent": color, "goal": color}, ("goal",), under=shapes)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    goals = [f"the goal of agent {agent}" for agent in range(config.n_agents)]
    blocks = [*own_motion(), *(way(f"the agent relative to {goal}") for goal in goals)]
    if not config.observe_all_goals:
        blocks = [*own_motion(), way("the agent relative to its goal")]
    count = config.n_lidar_rays if config.collisions else 0
    meaning = (
        "range of the LIDAR minus the distance of the next agent along each ray; 0: none, counterclockwise from +x"
    )
    return [*blocks, ObservationBlock(meaning, "m", 0.0, config.lidar_range + config.agent_radius, count)]


def _check(config: Config) -> None:
    """Raise a ConfigError unless goals and agents fit together and into the area."""
    count, same = config.n_agents, config.agents_with_same_goal
    if same > count or (same > 1 and config.collisions):
        limit = 1 if config.collisions else count
        raise ConfigError(f"agents_with_same_goal: expected at most {limit} with these settings, got {same}")
    if config.split_goals and 2 * same != count:
        raise ConfigError(f"split_goals: expected agents_with_same_goal of half the {count} agents, got {same}")
    apart = 2.0 * config.agent_radius + navigation.SPACE
    require_room(2 * count, apart, 2.0 * config.world_spawning_x, 2.0 * config.world_spawning_y)
