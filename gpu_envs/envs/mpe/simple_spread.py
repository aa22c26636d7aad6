"""SimpleSpread-v0 (3 agents): Agents cover landmarks without collisions."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, offsets, own_position, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import BLUE, DARK, Scene
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.mpe import simple_spread

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleSpread-v0, with the names and defaults of mpe2."""

    N: int = setting(3, ge=1)
    """Number of agents and of landmarks."""
    local_ratio: float = setting(0.5, ge=0.0, le=1.0)
    """Weight of an agent's own collision penalty; the shared reward has the weight 1 - local_ratio."""
    curriculum: bool = setting(False)
    """Start in stage 0 without collision penalty; `core.set_params(curriculum_stage=1)` enables the penalty."""
    terminate_on_success: bool = setting(False)
    """Terminate the episode when every landmark is covered."""
    num_agent_neighbors: int | None = setting(None, ge=1)
    """Number of nearest other agents in the observation, nearest first; None observes all."""
    num_landmark_neighbors: int | None = setting(None, ge=1)
    """Number of nearest landmarks in the observation, nearest first; None observes all."""


def build(config: Config) -> EnvDefinition:
    n, neighbors = config.N, (config.num_agent_neighbors, config.num_landmark_neighbors)
    return scenario.define(
        config,
        counts={"agent": n},
        widths={"agent": simple_spread.observation_width(n, *neighbors)},
        rules=simple_spread.rules(n, config.continuous_actions, *neighbors, config.benchmark_data),
        params=params_of(
            config,
            simple_spread.Params,
            agent_size=0.15,
            accel=5.0,
            collision_penalty=1.0,
            capture_radius=0.1,
            curriculum_stage=0,
        ),
        state={
            "pos": (2 * n,),
            "vel": (n,),
            "force": (n,),
            "nearest": (n,),
            "collisions": integers((n,), 0, MAX_INT),
            "benchmark": (n, simple_spread.BENCHMARK if config.benchmark_data else 0),
        },
        results=("collisions",),
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: agents blue, landmarks dark, with the colors of MPE."""
    agents, landmarks = slice(0, core.num_agents), slice(core.num_agents, None)
    parts = Discs(agents, "agent_size", BLUE), Discs(landmarks, 0.05, DARK, target=True)
    return scene(core, envs, *parts)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    peers = config.N - 1 if config.num_agent_neighbors is None else config.num_agent_neighbors
    return [
        own_velocity(),
        own_position(),
        offsets("landmarks", config.N, config.num_landmark_neighbors, is_set=True),
        offsets("other agents", config.N - 1, config.num_agent_neighbors, is_set=True),
        ObservationBlock("messages of those agents: always 0", "", 0, 0, 2 * peers),
    ]
