"""A tiny environment with an image as observation: entry k at step t is (k + t) % 2, in any shape and dtype."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import warp as wp
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.utils.settings import setting
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase

SHAPE = (3, 2, 4)
WIDTH = 24


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
    dtype: str = setting("float32", choices=("float32", "uint8", "bool"))
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
        observation_spaces={agent: spaces.Box(0, 1, SHAPE, np.dtype(config.dtype)) for agent in agents},
        action_spaces={agent: spaces.Discrete(2) for agent in agents},
        max_episode_steps=config.max_steps,
        time_limit_terminates=False,
        draw=lambda core, envs: None,
        channels_first=config.channels_first,
    )


def picture(step: int, dtype: str) -> np.ndarray:
    """Return the observation after a number of steps."""
    return ((np.arange(WIDTH) + step) % 2).reshape(SHAPE).astype(dtype)
