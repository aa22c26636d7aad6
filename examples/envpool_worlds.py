"""Train on EnvPool, whose worlds step at once: gpu-envs train envpool_worlds:make_worlds --env-arg task=CartPole-v1.

Needs `pip install envpool`, and this folder as the current one. EnvPool takes one seed per world when it makes them:
a world plays the same in batches of any size, and seeds of later episodes and resets change nothing.
"""

from functools import partial
from typing import Any

import envpool
import numpy as np
from gymnasium import spaces
from torch import Tensor

AGENT = "agent_0"


class EnvpoolWorlds:
    """Worlds of a task of EnvPool with one agent, discrete or continuous actions and a Box of observations."""

    agents = (AGENT,)

    def __init__(self, num_envs: int, task: str, **settings: Any) -> None:
        self.num_envs = num_envs
        self._make = partial(envpool.make, task, env_type="gymnasium", **settings)
        env = self._make(num_envs=1)
        obs, action = env.observation_space, env.action_space
        dtype = np.float32 if obs.dtype == np.float64 else obs.dtype
        self.observation_spaces = {AGENT: spaces.Box(obs.low.astype(dtype), obs.high.astype(dtype), dtype=dtype)}
        self.action_spaces = {
            AGENT: spaces.Discrete(int(action.n))
            if isinstance(action, spaces.Discrete)
            else spaces.Box(action.low.astype(np.float32), action.high.astype(np.float32))
        }
        self._action_dtype = action.dtype
        self._pool: Any = None

    def reset(self, seed: Tensor, mask: Tensor) -> np.ndarray:
        """Start episodes where the mask (E,) is True; return observations (E, 1, ...)."""
        if self._pool is None:
            self._pool = self._make(num_envs=self.num_envs, seed=seed.tolist())
            self._obs = self._pool.reset()[0].copy()
        else:  # before the next step, in which EnvPool would reset worlds by itself
            worlds = mask.nonzero().flatten().int().numpy()
            self._obs[worlds] = self._pool.reset(worlds)[0]
        return self._obs[:, None]

    def step(self, action: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Play a step; return observations (E, 1, ...), rewards, and who has terminated and was truncated, (E, 1)."""
        obs, reward, terminated, truncated, _ = self._pool.step(action[:, 0].numpy().astype(self._action_dtype))
        self._obs = obs.copy()
        return self._obs[:, None], reward[:, None], terminated[:, None], truncated[:, None]


def make_worlds(num_envs: int, task: str = "CartPole-v1", **settings: Any) -> EnvpoolWorlds:
    """Return the worlds; the settings are those of ``envpool.make``, such as ``max_episode_steps``."""
    return EnvpoolWorlds(num_envs, task, **settings)
