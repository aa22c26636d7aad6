"""Wrapper that maps observations to other bounds."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError, shown
from gpu_envs.wrappers.base import TensorWrapper, expand_rows, observed_rows

__all__ = ["RescaleObservation"]


class RescaleObservation(TensorWrapper):
    """Map observations linearly from the bounds of their space to [min_obs, max_obs].

    A component with one finite bound is shifted, and an unbounded component is unchanged; their new bounds must be
    infinite on the same sides. Observations of agents that have left stay 0. With SAME_STEP, ``info["final_obs"]`` is
    rescaled too.

    Args:
        env: Rows of tensors with a Box observation space.
        min_obs: Lowest observation, one number or one per component.
        max_obs: Highest observation.

    Raises:
        ConfigError: The condition min_obs <= max_obs does not hold in the shape of the space, or only one of a new
            bound and the bound of the space is infinite.
    """

    def __init__(self, env: VectorEnv, min_obs: float | int | np.ndarray, max_obs: float | int | np.ndarray) -> None:
        super().__init__(env)
        box = self._box(env.single_observation_space, "observation")
        low, high = self._bounds(box.shape, min_obs=min_obs, max_obs=max_obs)
        for name, new, old in (("min_obs", low, box.low), ("max_obs", high, box.high)):
            if not np.where(np.isfinite(old), np.isfinite(new), new == old).all():
                raise ConfigError(
                    f"RescaleObservation: {name}: expected infinite exactly where {box} is, got {new.tolist()}"
                )
        if not (low <= high).all():
            raise ConfigError(
                f"RescaleObservation: min_obs: expected a value <= max_obs, got {shown(min_obs)} and {shown(max_obs)}"
            )
        self.single_observation_space = spaces.Box(low.copy(), high.copy(), dtype=np.float32)
        below, above = np.isfinite(low), np.isfinite(high)
        first, last, new_first, new_last = (np.where(np.isfinite(x), x, 0.0) for x in (box.low, box.high, low, high))
        stretched = below & above & (last > first)  # a constant component is shifted
        factor = np.divide(new_last - new_first, last - first, out=np.ones(box.shape), where=stretched)
        self._factor = self._tensor(factor)
        self._offset = self._tensor(np.where(below, new_first - factor * first, new_last - factor * last))

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[torch.Tensor, dict[str, Any]]:
        """Start new episodes and return the observations (num_envs, ...)."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._rescaled(obs, observed_rows(info)), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step."""
        obs, rewards, terminated, truncated, info = self.env.step(actions)
        if "final_obs" in info:
            info = {**info, "final_obs": self._rescaled(info["final_obs"], info["_final_obs"])}
        return self._rescaled(obs, observed_rows(info)), rewards, terminated, truncated, info

    def _rescaled(self, obs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return torch.where(expand_rows(rows, obs), torch.addcmul(self._offset, obs, self._factor), 0.0)
