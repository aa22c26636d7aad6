"""Ends of episodes for views in which an agent's row ends with its world."""

from typing import Any

import torch

from gpu_envs.runtime.core import Core


class WorldEnds:
    """Ends of agents, reported at the end of their world.

    After its agent has left, a row of such a view continues with observation and reward 0. When the last agent of a
    world leaves, all rows of the world end: truncated if the agent's own end was a truncation, else terminated.

    Call this object once per step. A view that reports the ends of agents at once calls :meth:`note` instead, and reads
    :attr:`cut`.

    Args:
        core: Core of the view.
        arrays: Take and return NumPy arrays in the place of tensors; the core is on the CPU then.
    """

    @torch.inference_mode(False)  # cut is written to in place
    def __init__(self, core: Core, arrays: bool = False) -> None:
        self._arrays = arrays
        cut = torch.zeros_like(core.truncated)
        self.cut: Any = cut.numpy() if arrays else cut
        """Agents whose current episode was truncated, (E, A) bool; a live buffer, clone it to keep it."""

    def restart(self, worlds: Any = None) -> None:
        """Clear the worlds of a mask (E,) bool, or all worlds, after a reset."""
        if worlds is None:
            self.cut[:] = False
        else:
            self.cut &= ~worlds[:, None]

    def note(self, truncated: Any) -> None:
        """Record the truncations (E, A) bool of this step until the world is reset."""
        self.cut |= truncated

    def __call__(self, terminated: Any, truncated: Any, valid: Any) -> tuple[Any, Any, Any]:
        """Return the ends of rows in this step.

        Args:
            terminated: (E, A) bool, as :meth:`gpu_envs.runtime.core.Core.step` returned them.
            truncated: (E, A) bool.
            valid: (E, A) bool, from its info.

        Returns:
            Worlds whose episode ended (E,), rows that terminated (E, A), rows that were truncated (E, A).
        """
        left = terminated | truncated
        if self._arrays and not left.any():  # most steps; on a GPU the question would wait for the device
            return left[:, 0], left, left.copy()
        over = (valid <= left).all(1) & valid.any(1)  # every agent that was alive has left
        self.note(truncated)
        ends = over[:, None]
        cut = ends & self.cut
        self.cut ^= cut  # clear the reported truncations
        return over, ends ^ cut, cut
