"""SimplePush-v0 (2 agents): An adversary keeps an agent from its goal."""

from dataclasses import dataclass

import torch

from gpu_envs.definition.environment import EnvDefinition, WorldView, index
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.mpe import scenario
from gpu_envs.envs.mpe.scenario import ParticleConfig, color_block, goal_offset, offsets, own_velocity
from gpu_envs.envs.mpe.scene import Discs, scene
from gpu_envs.rendering.scene import BLUE, GREEN, RED, Scene
from warp_kernels.mpe import simple_push

action_names = scenario.action_names


@dataclass(frozen=True)
class Config(ParticleConfig):
    """Settings of SimplePush-v0, with the names and defaults of mpe2."""


def build(config: Config) -> EnvDefinition:
    return scenario.define(
        config,
        counts={"adversary": 1, "agent": 1},
        widths=simple_push.OBSERVATIONS,
        rules=simple_push.rules(config.continuous_actions),
        params={"agent_size": 0.05, "accel": 5.0},
        state={
            "pos": (4,),
            "vel": (2,),
            "force": (2,),
            "goal": index((), 2),
            "away": (2,),
            "benchmark": (2, 0),
        },
        roles={"adversary": ("adversary",), "agent": ("agent",)},
        draw=draw,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Landmarks green and blue, the good agent as its goal, the adversary red, as in MPE.
    """
    colors = torch.tensor([GREEN, BLUE], device=core.device)
    goal = core.world_state["goal"][envs].long()
    return scene(
        core,
        envs,
        Discs(slice(2, 4), 0.05, colors, target=True),
        Discs(slice(1, 2), "agent_size", colors[goal][:, None]),
        Discs(slice(0, 1), "agent_size", RED),
    )


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    landmarks, other = offsets("landmarks", 2), offsets("the other agent", 1)
    if row == 0:
        return [own_velocity(), landmarks, other]
    color = color_block("own color (r, g, b): 0.75 in the goal's channel (green or blue), else 0.25", 0.25, 0.75)
    colors = color_block("colors of the landmarks (r, g, b of each): green, blue", 0.1, 0.9, 2)
    return [own_velocity(), goal_offset(), color, landmarks, colors, other]
