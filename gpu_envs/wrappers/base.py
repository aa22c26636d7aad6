"""Base of the wrappers: the device, and the rows in which an episode starts."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from gpu_envs.errors import ActionError, ConfigError, describe_tensor, shown
from gpu_envs.utils.tensor_checks import numbers, plain
from gpu_envs.views.rows import RowsEnv


class TensorWrapper(VectorWrapper):
    """Wrapper of rows of tensors, without host synchronization; it never modifies its inputs.

    Args:
        env: Rows of tensors, or a wrapper of them.

    Raises:
        ConfigError: The environment is of another kind, or returns NumPy arrays.
    """

    def __init__(self, env: VectorEnv) -> None:
        rows, name = getattr(env, "unwrapped", None), type(self).__name__
        if not isinstance(rows, RowsEnv):
            raise ConfigError(
                f"{name} wraps gymnasium.make_vec('gpu_envs/...'), got {type(rows).__name__}; "
                "use gymnasium.wrappers.vector for other environments"
            )
        if rows.to_numpy:
            raise ConfigError(
                f"{name} wraps rows of tensors; for to_numpy=True use {name} of gymnasium.wrappers.vector"
            )
        super().__init__(env)
        self.device: torch.device = rows.core.device
        self.autoreset_mode: AutoresetMode | None = rows.autoreset_mode
        self._same_step = rows.autoreset_mode is AutoresetMode.SAME_STEP
        self._over = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)  # done in the previous step

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Observation space of all rows, created at first use because its bounds are as large as a batch."""
        single = self._single_observation_space
        return self.env.observation_space if single is None else batch_space(single, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Action space of all rows."""
        single = self._single_action_space
        return self.env.action_space if single is None else batch_space(single, self.num_envs)

    def _restarted(self, done: torch.Tensor) -> torch.Tensor:
        """Return the rows (num_envs,) whose observation is the first one of an episode; call it once per step."""
        previous, self._over = self._over, done
        if self._same_step:
            return done
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            return previous
        return torch.zeros_like(done)  # only reset starts an episode

    def _reset_rows(self, options: dict[str, Any] | None) -> torch.Tensor:
        """Return the rows (num_envs,) in which a reset with these options started an episode."""
        mask = None if options is None else options.get("reset_mask")
        rows = torch.ones_like(self._over) if mask is None else torch.as_tensor(mask, device=self.device)
        self._over = self._over & ~rows
        return rows

    def _actions(self, actions: Any) -> torch.Tensor:
        """Return continuous actions as a float32 tensor on the device."""
        name, space = type(self).__name__, self.single_action_space
        if not isinstance(actions, torch.Tensor):
            array = numbers(name, actions, "fiu", space)
            actions = torch.as_tensor(array, dtype=torch.float32, device=self.device)
        shape = (self.num_envs, *(space.shape or ()))
        if (
            not plain(actions)
            or actions.shape[1:] != shape[1:]
            or actions.device != self.device
            or actions.is_complex()
        ):
            expected = f"torch.float32 {shape} on {self.device}"
            raise ActionError(f"{name}: actions: expected {expected}, got {describe_tensor(actions)}")
        return actions

    def _box(self, space: spaces.Space[Any], kind: str) -> spaces.Box:
        """Return the space; raise a ConfigError if it is not a Box."""
        if not isinstance(space, spaces.Box):
            raise ConfigError(f"{type(self).__name__} needs a Box {kind} space, got {space}")
        return space

    def _bounds(self, shape: tuple[int, ...], **ends: Any) -> tuple[np.ndarray, ...]:
        """Return both bounds of a range as float32 arrays of this shape; the keywords name them in messages."""
        try:
            arrays = [np.asarray(end) for end in ends.values()]
            if any(array.dtype.kind not in "fiu" for array in arrays):
                raise TypeError
            return tuple(np.broadcast_to(array.astype(np.float32), shape) for array in arrays)
        except (TypeError, ValueError, RuntimeError):  # also values that NumPy cannot read
            names, actual = " and ".join(ends), " and ".join(map(_shape, ends.values()))
            raise ConfigError(
                f"{type(self).__name__}: {names}: expected numbers or of shape {shape}, got {actual}"
            ) from None

    def _tensor(self, value: Any) -> torch.Tensor:
        """Return a bound as a float32 tensor on the device."""
        return torch.tensor(np.asarray(value, np.float32), device=self.device)


def _shape(end: Any) -> str:
    """Return the shape of a numeric bound, or the repr of another value, for a message."""
    return str(np.shape(end)) if isinstance(end, int | float | np.number | np.ndarray) else shown(end)


def observed_rows(info: dict[str, Any]) -> torch.Tensor:
    """Return the rows (num_envs,) with an observation: the agent acted in this step, or its episode just started."""
    return info["valid"] | info["alive"]


def expand_rows(rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return a mask of rows (num_envs,) reshaped to broadcast with values (num_envs, ...)."""
    return rows.view(-1, *([1] * (values.ndim - 1)))
