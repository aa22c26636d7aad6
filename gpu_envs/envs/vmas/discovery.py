"""VMASDiscovery-v0 (5 agents): Agents cover targets, several at once."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.vmas import scenario
from gpu_envs.envs.vmas.scenario import ScenarioConfig, own_motion, require_room
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.rendering.scene import BLUE, GREEN, Scene, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas import discovery

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASDiscovery-v0, with the names and defaults of VMAS."""

    n_agents: int = setting(5, ge=1)
    """Number of agents."""
    n_targets: int = setting(7, ge=1)
    """Number of targets."""
    x_semidim: float = setting(1.0, gt=0.0)
    """Agents stay at x in [-x_semidim, x_semidim] [m]."""
    y_semidim: float = setting(1.0, gt=0.0)
    """Agents stay at y in [-y_semidim, y_semidim] [m]."""
    min_dist_between_entities: float = setting(0.2, ge=0.0)
    """Smallest distance between the centers of agents and targets at random places [m]."""
    lidar_range: float = setting(0.35, gt=0.0)
    """Length of the rays [m]."""
    covering_range: float = setting(0.25, gt=0.0)
    """An agent nearer to the center of a target covers it [m]."""
    use_agent_lidar: bool = setting(False)
    """Agents see each other by a second LIDAR."""
    n_lidar_rays_entities: int = setting(15, ge=1)
    """Number of rays that see targets."""
    n_lidar_rays_agents: int = setting(12, ge=1, requires={"use_agent_lidar": True})
    """Number of rays that see agents."""
    agents_per_target: int = setting(2, ge=1, le=MAX_INT)
    """So many agents cover a target together."""
    targets_respawn: bool = setting(True)
    """A target that was covered moves to a random place; otherwise it is gone."""
    shared_reward: bool = setting(False)
    """Every agent gets half of covering_rew_coeff for each agent on each covered target, as in VMAS."""
    agent_collision_penalty: float = setting(0.0)
    """Reward of an agent for each other one that is nearer than 0.005 m."""
    covering_rew_coeff: float = setting(1.0)
    """Reward of an agent per target that it covers."""
    time_penalty: float = setting(0.0)
    """Reward of every step."""


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return discovery.physics(config.n_agents, config.n_targets)


def build(config: Config) -> EnvDefinition:
    agents, targets, apart = config.n_agents, config.n_targets, config.min_dist_between_entities
    require_room(agents + targets, apart, 2.0 * config.x_semidim, 2.0 * config.y_semidim)
    rays = config.n_lidar_rays_agents if config.use_agent_lidar else 0
    sizes = discovery.Sizes(agents, targets, config.n_lidar_rays_entities, rays, config.targets_respawn)
    return scenario.define(
        config,
        physics_of(config),
        width=4 + sizes.target_rays + sizes.agent_rays,
        state={"coverers": integers((targets,), 0, agents), "covered": integers((targets,), 0, 1)},
        rules=discovery.rules(sizes, config.continuous_actions),
        params=params_of(config, discovery.Params, min_collision_distance=0.005),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, targets green, in rings of the distance that covers them."""
    targets = core.world_state["pos"][envs][:, core.num_agents :]
    ranges = rings(targets, core.get_params(envs)["covering_range"][:, None], GREEN, 0.006)
    return scene(core, envs, physics_of(core.config), {"agent": BLUE, "target": GREEN}, under=(ranges,))


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    def rays(target: str, start: str, count: int) -> ObservationBlock:
        meaning = f"distance of the next {target} along each ray, counterclockwise from {start}; its range: none"
        return ObservationBlock(meaning, "m", -discovery.RADIUS, config.lidar_range, count)

    count = config.n_lidar_rays_agents if config.use_agent_lidar else 0
    agents = [rays("agent", f"{discovery.AGENT_ANGLE} rad", count)] if count else []
    return [*own_motion(), rays("target", "+x", config.n_lidar_rays_entities), *agents]
