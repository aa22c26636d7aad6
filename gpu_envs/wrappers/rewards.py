"""Stateless wrapper of rewards."""

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError, shown
from gpu_envs.wrappers.base import TensorWrapper

__all__ = ["ClipReward"]


class ClipReward(TensorWrapper):
    """Clip rewards to [min_reward, max_reward]; returns in ``info`` are not clipped.

    Args:
        env: Rows of tensors.
        min_reward: Lower bound, one number or one per row; None for no bound.
        max_reward: Upper bound, likewise.

    Raises:
        ConfigError: Both bounds are None, or the lower bound exceeds the upper one.
    """

    def __init__(
        self,
        env: VectorEnv,
        min_reward: float | np.ndarray | None = None,
        max_reward: float | np.ndarray | None = None,
    ) -> None:
        super().__init__(env)
        if min_reward is None and max_reward is None:
            raise ConfigError("ClipReward needs min_reward, max_reward or both")
        ends = {
            "min_reward": -np.inf if min_reward is None else min_reward,
            "max_reward": np.inf if max_reward is None else max_reward,
        }
        low, high = self._bounds((self.num_envs,), **ends)
        if not (low <= high).all():
            actual = f"{shown(min_reward)} and {shown(max_reward)}"
            raise ConfigError(f"ClipReward: min_reward: expected a value <= max_reward, got {actual}")
        self._low, self._high = self._tensor(low), self._tensor(high)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step; the rewards (num_envs,) are clipped."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        return obs, torch.clamp(rewards, self._low, self._high), terminated, truncated, info
