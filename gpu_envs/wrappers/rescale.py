"""Observations within other bounds."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError, shown
from gpu_envs.wrappers.base import TensorWrapper, here, wide


class RescaleObservation(TensorWrapper):
    """Stretch observations from the bounds of their space to [min_obs, max_obs].

    Where a component has a bound on one side only it is shifted, and where it has none it stays as it is; the new
    bounds are infinite there, too. Observations of agents that have left stay 0. With SAME_STEP
    ``info["final_obs"]`` is rescaled as well.

    Args:
        env: Rows of tensors with a Box observation space.
        min_obs: The lowest observation, for all components or one by one.
        max_obs: The highest observation.

    Raises:
        ConfigError: No min_obs <= max_obs of the space's shape, or one that is infinite where the space's bound is not,
            or the other way round.
    """

    def __init__(self, env: VectorEnv, min_obs: float | int | np.ndarray, max_obs: float | int | np.ndarray) -> None:
        super().__init__(env)
        box = self._box(env.single_observation_space, "observation")
        low, high = self._bounds(box.shape, min_obs=min_obs, max_obs=max_obs)
        for name, new, old in (("min_obs", low, box.low), ("max_obs", high, box.high)):
            if not np.where(np.isfinite(old), np.isfinite(new), new == old).all():
                raise ConfigError(
                    f"RescaleObservation: {name} must be infinite just where {box} is, got {new.tolist()}"
                )
        if not (low <= high).all():
            raise ConfigError(
                f"RescaleObservation: min_obs must be <= max_obs, got {shown(min_obs)} and {shown(max_obs)}"
            )
        self.single_observation_space = spaces.Box(low.copy(), high.copy(), dtype=np.float32)
        below, above = np.isfinite(low), np.isfinite(high)
        first, last, new_first, new_last = (np.where(np.isfinite(x), x, 0.0) for x in (box.low, box.high, low, high))
        stretched = below & above & (last > first)  # a component that never changes is shifted
        factor = np.divide(new_last - new_first, last - first, out=np.ones(box.shape), where=stretched)
        self._factor = self._tensor(factor)
        self._offset = self._tensor(np.where(below, new_first - factor * first, new_last - factor * last))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Start new episodes: observations (rows, ...)."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._rescaled(obs, here(info)), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            info = {**info, "final_obs": self._rescaled(info["final_obs"], info["_final_obs"])}
        return self._rescaled(obs, here(info)), rewards, terminated, truncated, info

    def _rescaled(self, obs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.where(wide(rows, obs), torch.addcmul(self._offset, obs, self._factor), 0.0)
