"""Wrappers that clip or rescale actions, rewards and observations."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError, shown
from gpu_envs.wrappers.base import TensorWrapper, expand_rows, observed_rows


class ClipAction(TensorWrapper):
    """Clip continuous actions to the bounds of the action space; the wrapper's own space has no bounds.

    Args:
        env: Rows of tensors with a Box action space.

    Raises:
        ConfigError: The action space is not a Box.
    """

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        box = self._box(env.single_action_space, "action")
        self.single_action_space = spaces.Box(-np.inf, np.inf, box.shape, np.float32)
        self._low, self._high = self._tensor(box.low), self._tensor(box.high)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step with actions (num_envs, K), clipped."""
        return self.env.step(self.actions(actions))

    def actions(self, actions: Any) -> torch.Tensor:
        """Return the actions (num_envs, K) clipped to the bounds."""
        return torch.clamp(self._actions(actions), self._low, self._high)


class RescaleAction(TensorWrapper):
    """Map continuous actions linearly from [min_action, max_action] to the bounds of the action space.

    Both ends are mapped exactly. Actions outside of [min_action, max_action] map to values outside of the bounds.

    Args:
        env: Rows of tensors with a bounded Box action space.
        min_action: Lowest action, one number or one per component.
        max_action: Highest action.

    Raises:
        ConfigError: The action space is not a bounded Box, or min_action < max_action does not hold in its shape.
    """

    def __init__(
        self, env: VectorEnv, min_action: float | int | np.ndarray, max_action: float | int | np.ndarray
    ) -> None:
        super().__init__(env)
        box = self._box(env.single_action_space, "action")
        if not box.is_bounded():
            raise ConfigError(f"RescaleAction needs bounds on both sides, got {box}")
        low, high = self._bounds(box.shape, min_action=min_action, max_action=max_action)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            actual = f"{shown(min_action)} and {shown(max_action)}"
            raise ConfigError(f"RescaleAction: min_action: expected finite and below max_action, got {actual}")
        self.single_action_space = spaces.Box(low.copy(), high.copy(), dtype=np.float32)
        self._min, self._max = self._tensor(low), self._tensor(high)
        self._low, self._high = self._tensor(box.low), self._tensor(box.high)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Play one step with actions (num_envs, K), rescaled."""
        return self.env.step(self.actions(actions))

    def actions(self, actions: Any) -> torch.Tensor:
        """Return the actions (num_envs, K) mapped to the bounds of the environment."""
        share = (self._actions(actions) - self._min) / (self._max - self._min)
        return torch.lerp(self._low.expand_as(share), self._high.expand_as(share), share)  # exact at both ends


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
