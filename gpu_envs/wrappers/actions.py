"""Wrappers of continuous actions."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from gpu_envs.errors import ConfigError, shown
from gpu_envs.wrappers.base import TensorWrapper

__all__ = ["ClipAction", "RescaleAction"]


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
