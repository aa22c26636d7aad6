"""Ends of episodes for views in which an agent's row lives as long as its world."""

import torch

from gpu_envs.core import Core


class WorldEnds:
    """Agents' own ends, told at the end of their world.

    A row of such a view goes on, with observation and reward 0, after its agent has left. When the last agent of the
    world leaves, all its rows end at once: truncated where the agent's own end was a truncation, else terminated.

    Args:
        core: The worlds; call this object once per step of it.
    """

    def __init__(self, core: Core) -> None:
        self._cut = torch.zeros_like(core.truncated)  # (E, A) this agent's present episode ended as a truncation

    def restart(self, worlds: torch.Tensor | None = None) -> None:
        """Forget the episodes of the worlds of a mask (E,) bool, or of all: they were reset."""
        if worlds is None:
            self._cut.zero_()
        else:
            self._cut &= ~worlds[:, None]

    def __call__(
        self, terminated: torch.Tensor, truncated: torch.Tensor, valid: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The ends of rows in this step.

        Args:
            terminated: (E, A) bool, as :meth:`gpu_envs.core.Core.step` returned them.
            truncated: (E, A) bool.
            valid: (E, A) bool, from its info.

        Returns:
            Which worlds' episodes ended (E,), which rows terminated (E, A), which were truncated (E, A).
        """
        over = (~valid | terminated | truncated).all(1) & valid.any(1)
        self._cut |= truncated
        cut, ended = over[:, None] & self._cut, over[:, None] & ~self._cut
        self._cut &= ~over[:, None]
        return over, ended, cut
