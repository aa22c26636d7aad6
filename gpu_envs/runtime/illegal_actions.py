"""Illegal actions that kernels report, and the errors that they become."""

import contextlib
from collections.abc import Iterator
from typing import NoReturn

import torch

import warp_kernels
from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.errors import ActionError
from warp_kernels import episode

_REASONS = {
    episode.OUT_OF_RANGE: "is out of range",
    episode.NOT_FINITE: "is not finite",
    episode.ILLEGAL: "is illegal here (see info['action_mask'])",
}


class IllegalActions:
    """Host side of the error slots in which kernels report illegal actions.

    On a GPU the host reads a pinned copy, so that reading never waits for the device.

    Attributes:
        slots: Values of the error slots as the host sees them; ``episode.NO_ERROR`` where no action was illegal.
    """

    def __init__(
        self, env_id: str, definition: EnvDefinition, env_offset: int, error: torch.Tensor, action: torch.Tensor
    ) -> None:
        self._env_id, self._definition, self._env_offset = env_id, definition, env_offset
        self._error, self._action = error, action
        self._on_gpu = error.is_cuda
        self._defers = False
        self._host_copy = error.cpu().pin_memory() if self._on_gpu else error
        self.slots: memoryview[int] = memoryview(self._host_copy.numpy())  # type: ignore[arg-type]  # faster to read than an array

    def copy_to_host(self, wait: bool) -> None:
        """Copy the slots of a GPU to the host; without ``wait`` the copy is only queued."""
        if wait or not self._defers:
            self._host_copy.copy_(self._error, non_blocking=not wait)

    @contextlib.contextmanager
    def defer_copies(self) -> Iterator[None]:
        """Queue one copy at the end of a function that is captured, in place of one per step, a node of the graph."""
        self._defers = True
        try:
            yield
        finally:
            self._defers = False
        self.copy_to_host(wait=False)

    def raise_error(self, action: torch.Tensor | None) -> NoReturn:
        """Clear the slots and raise the ActionError of the first illegal action.

        Args:
            action: Actions (E, A) or (E, A, K) of the step, whose value the message shows; None if unknown.
        """
        if self._on_gpu:  # a copy that is queued in any stream must not restore the old value
            with warp_kernels.building:  # while another thread captures, this would break its capture
                torch.cuda.synchronize(self._error.device)
        key = min(self.slots)
        self._error.fill_(episode.NO_ERROR)
        self._host_copy.fill_(episode.NO_ERROR)
        if self._on_gpu:  # a replay in another stream must not copy the old value
            torch.cuda.current_stream(self._error.device).synchronize()
        env, row, reason = key >> 32, (key >> 8) & 0xFFFFFF, key & 0xFF
        agent = self._definition.agents[row]
        value = ""  # kernels replace an illegal action in their own buffer by the no-op
        if action is not None and action.data_ptr() != self._action.data_ptr():
            value = f" {action[env, row].tolist()}"
        raise ActionError(
            f"{self._env_id}: action{value} of {agent} in world {env + self._env_offset} {_REASONS[reason]}; "
            f"expected {self._definition.action_spaces[agent]}"
        )
