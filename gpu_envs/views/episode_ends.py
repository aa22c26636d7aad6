"""Ends of episodes for views in which an agent's row lives as long as its world."""

import torch

from gpu_envs.core import Core


class WorldEnds:
    """Agents' own ends, told at the end of their world.

    A row of such a view goes on, with observation and reward 0, after its agent has left. When the last agent of the
    world leaves, all its rows end at once: truncated where the agent's own end was a truncation, else terminated.

    Call this object once per step. A view that tells agents' own ends as long as their world goes on calls
    :meth:`note` instead, and reads :attr:`cut`.

    Args:
        core: The worlds.
    """

    @torch.inference_mode(False)  # cut is written to in place
    def __init__(self, core: Core) -> None:
        self.cut = torch.zeros_like(core.truncated)
        """(E, A) bool, live: who has left its present episode by a truncation; clone it to keep it."""

    def restart(self, worlds: torch.Tensor | None = None) -> None:
        """Forget the episodes of the worlds of a mask (E,) bool, or of all: they were reset."""
        if worlds is None:
            self.cut.zero_()
        else:
            self.cut &= ~worlds[:, None]

    def note(self, truncated: torch.Tensor) -> None:
        """Remember who was cut in this step, (E, A) bool; until its world is reset."""
        self.cut |= truncated

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
        over = (valid <= (terminated | truncated)).all(1) & valid.any(1)  # who was there has left
        self.note(truncated)
        ends = over[:, None]
        cut = ends & self.cut
        self.cut ^= cut  # forgets these, since they are part of it
        return over, ends ^ cut, cut
