"""A tiny environment with images as observations: entry k at step t is (k + t) % 2, in several spaces."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.utils.settings import setting
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase

SHAPE = (3, 2, 4)  # of an image
WIDTH = 24
NAMED = spaces.Dict(
    [
        ("vector", spaces.Box(-1, 1, (5,), np.float32)),
        ("image", spaces.Box(0, 9, (2, 3, 2), np.uint8)),
        ("flags", spaces.Box(0, 1, (3,), np.bool_)),
        ("map", spaces.Box(0, 1, (1, 2, 2), np.float32)),
    ]
)
"""Space of named blocks of 24 numbers."""
SPACES = {kind: spaces.Box(0, 1, SHAPE, np.dtype(kind)) for kind in ("float32", "uint8", "bool")} | {"named": NAMED}
"""Observation space by the setting `kind`."""


@wp.struct
class Params:
    reward: float  # reward of every step


@wp.struct
class State:
    score: wp.array2d(dtype=float)  # (E, A)


@dataclass(frozen=True)
class Config:
    """Settings of the pictures."""

    num_agents: int = setting(2, ge=1)
    max_steps: int = setting(4, ge=1, le=100)
    kind: str = setting("float32", choices=tuple(SPACES))
    """Dtype of the image, or named blocks."""
    channels_first: bool = setting(False)


@cache
def rules(num_agents: int) -> Rules:
    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        io.reward[env, agent] = params.reward

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        for k in range(wp.static(WIDTH)):
            io.obs[env, agent, k] = float((k + io.step[env]) % 2)

    return Rules(
        key=f"pictures {num_agents}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(agent_phase(score),),
        observe=observe,
    )


def build(config: Config) -> EnvDefinition:
    agents = tuple(f"viewer_{index}" for index in range(config.num_agents))
    return EnvDefinition(
        rules=rules(config.num_agents),
        params={"reward": 1.0},
        state={"score": (len(agents),)},
        agents=agents,
        groups={"viewer": tuple(range(len(agents)))},
        observation_spaces=dict.fromkeys(agents, SPACES[config.kind]),
        action_spaces={agent: spaces.Discrete(2) for agent in agents},
        max_episode_steps=config.max_steps,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
        channels_first=config.channels_first,
    )


def picture(step: int, kind: str) -> np.ndarray | dict[str, np.ndarray]:
    """Return the observation after a number of steps."""
    row = (np.arange(WIDTH) + step) % 2
    if kind != "named":
        return row.reshape(SHAPE).astype(kind)
    return {
        "vector": row[:5].astype(np.float32),
        "image": row[5:17].reshape(2, 3, 2).astype(np.uint8),
        "flags": row[17:20].astype(np.bool_),
        "map": row[20:].reshape(1, 2, 2).astype(np.float32),
    }


def equal(observation, step, kind, leading=()):
    """Assert that observations equal a step's, in all rows."""
    expected = picture(step, kind)
    blocks = expected if kind == "named" else {"": expected}
    observation = observation if kind == "named" else {"": observation}
    assert set(observation.keys()) == set(blocks)
    for name, block in blocks.items():
        values = observation[name].numpy() if isinstance(observation[name], torch.Tensor) else observation[name]
        assert values.dtype == block.dtype
        assert values.shape == (*leading, *block.shape)
        assert (values == block).all()
