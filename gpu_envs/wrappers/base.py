"""What the wrappers have in common: the device, and which rows an episode begins in."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from gpu_envs.checks import numbers, plain
from gpu_envs.errors import ActionError, ConfigError, described, shown
from gpu_envs.views.rows import RowsEnv


class TensorWrapper(VectorWrapper):
    """A wrapper of rows of tensors. It waits for the device nowhere, and never writes into what it is given.

    Args:
        env: Rows of tensors, or a wrapper of them.

    Raises:
        ConfigError: Another kind of environment, or rows of NumPy arrays.
    """

    def __init__(self, env: VectorEnv) -> None:
        rows, name = getattr(env, "unwrapped", None), type(self).__name__
        if not isinstance(rows, RowsEnv):
            raise ConfigError(
                f"{name} wraps gymnasium.make_vec('gpu_envs/...'), got {type(rows).__name__}; "
                "for others take gymnasium.wrappers.vector"
            )
        if rows.to_numpy:
            raise ConfigError(
                f"{name} wraps rows of tensors; for to_numpy=True take it from gymnasium.wrappers.vector, "
                "or leave to_numpy out"
            )
        super().__init__(env)
        self.device = rows.core.device
        self.autoreset_mode = rows.autoreset_mode
        self._same_step = rows.autoreset_mode is AutoresetMode.SAME_STEP
        self._over = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)  # done in the step before

    @cached_property
    def observation_space(self) -> spaces.Space:  # type: ignore[override]
        """All rows' observations; made at first use, since its bounds are as large as a batch."""
        single = self._single_observation_space
        return self.env.observation_space if single is None else batch_space(single, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space:  # type: ignore[override]
        """All rows' actions."""
        single = self._single_action_space
        return self.env.action_space if single is None else batch_space(single, self.num_envs)

    def _restarted(self, done: torch.Tensor) -> torch.Tensor:
        """Rows (num_envs,) whose observation of this step is the first one of an episode; call it once a step."""
        before, self._over = self._over, done
        if self._same_step:
            return done
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            return before
        return torch.zeros_like(done)  # only reset begins an episode

    def _reset_rows(self, options: dict[str, Any] | None) -> torch.Tensor:
        """Rows (num_envs,) that a reset with these options has begun an episode in."""
        mask = None if options is None else options.get("reset_mask")
        rows = torch.ones_like(self._over) if mask is None else torch.as_tensor(mask, device=self.device)
        self._over = self._over & ~rows
        return rows

    def _actions(self, actions: Any) -> torch.Tensor:
        """Continuous actions as a float32 tensor on the device."""
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
            wanted = f"torch.float32 {shape} on {self.device}"
            raise ActionError(f"{name}: actions must be {wanted}, got {described(actions)}")
        return actions

    def _box(self, space: spaces.Space, what: str) -> spaces.Box:
        """The space, if it is a Box."""
        if not isinstance(space, spaces.Box):
            raise ConfigError(f"{type(self).__name__} needs a Box {what} space, got {space}")
        return space

    def _bounds(self, shape: tuple[int, ...], **ends: Any) -> tuple[np.ndarray, ...]:
        """Both ends of a range, by their names, as float32 arrays of a shape."""
        try:
            arrays = [np.asarray(end) for end in ends.values()]
            if any(array.dtype.kind not in "fiu" for array in arrays):
                raise TypeError
            return tuple(np.broadcast_to(array.astype(np.float32), shape) for array in arrays)
        except (TypeError, ValueError, RuntimeError):  # also what NumPy cannot read
            names, got = " and ".join(ends), " and ".join(map(_shape, ends.values()))
            raise ConfigError(
                f"{type(self).__name__}: {names} must be numbers or of shape {shape}, got {got}"
            ) from None

    def _tensor(self, value: Any) -> torch.Tensor:
        """A bound as a float32 tensor on the device."""
        return torch.tensor(np.asarray(value, np.float32), device=self.device)


def _shape(end: Any) -> str:
    """A bound for a message: its shape, where it is numbers."""
    return str(np.shape(end)) if isinstance(end, int | float | np.number | np.ndarray) else shown(end)


def here(told: dict[str, Any]) -> torch.Tensor:
    """Rows (num_envs,) with a true observation: the agent acted in this step, or its episode has just begun."""
    return told["valid"] | told["alive"]


def wide(rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A mask of rows (num_envs,) with an axis of 1 for each further one of some values (num_envs, ...)."""
    return rows.view(-1, *([1] * (values.ndim - 1)))
