"""SimpleAdversary-v0 (3 agents): Agents hide their goal from an adversary."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, goal_offset, offsets
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import BLUE, DARK, GREEN, RED, Scene
from gpu_envs.utils.settings import setting
from warp_kernels.mpe import simple_adversary

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimpleAdversary-v0, with the names and defaults of mpe2."""

    N: int = setting(2, ge=1)
    """Number of good agents and of landmarks."""
    num_agent_neighbors: int | None = setting(None, ge=1)
    """Number of nearest other agents in the observation, nearest first; None observes all."""
    num_landmark_neighbors: int | None = setting(None, ge=1)
    """Number of nearest landmarks in the observation; None observes all. Good agents always observe the goal."""


def build(config: Config) -> EnvDefinition:
    n, neighbors = config.N, (config.num_agent_neighbors, config.num_landmark_neighbors)
    return scenario.define(
        config,
        counts={"adversary": 1, "agent": n},
        widths={
            group: simple_adversary.observation_width(n, *neighbors, group == "adversary")
            for group in ("adversary", "agent")
        },
        rules=simple_adversary.rules(n, config.continuous_actions, *neighbors, config.benchmark_data),
        params={"accel": 5.0},
        state={
            "pos": (1 + 2 * n,),
            "vel": (1 + n,),
            "goal": index((), n),
            "away": (1 + n,),
            "benchmark": (1 + n, n + 1 if config.benchmark_data else 0),
        },
        roles={"adversary": ("adversary",), "agent": ("agent",)},
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The adversary red, good agents blue, the goal green, other landmarks dark, as in MPE.
    """
    count, goal = core.num_agents, core.world_state["goal"][envs].long()
    is_goal = torch.nn.functional.one_hot(goal, core.config.N).to(torch.float32)[..., None]
    dark, green = (torch.tensor(color, device=core.device) for color in (DARK, GREEN))
    landmarks = is_goal * green + (1.0 - is_goal) * dark
    return scene(
        core,
        envs,
        Discs(slice(1, count), 0.15, BLUE),
        Discs(slice(0, 1), 0.15, RED),
        Discs(slice(count, None), 0.08, landmarks, target=True),
    )


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    shared = [
        offsets("landmarks", config.N, config.num_landmark_neighbors),
        offsets("other agents", config.N, config.num_agent_neighbors),
    ]
    return [goal_offset(), *shared] if row else shared
