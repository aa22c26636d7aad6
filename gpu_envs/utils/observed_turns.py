"""When agents that take turns take in an observation."""

from __future__ import annotations

import torch
from torch import Tensor


def takes_in(obs: Tensor, earlier: Tensor, to_move: Tensor, begins: Tensor) -> Tensor:
    """Return which agents advance the hidden state of a recurrent policy in a step, (..., E, n) bool.

    An agent does so once for each of its decisions, and once for each change of its observation between them. So a step
    that it cannot observe, such as a hidden try of another player, does not show in its hidden state.

    Args:
        obs: (..., E, n, D) observations of the step.
        earlier: (..., E, n, D) observations of the step before.
        to_move: (..., E, n) bool, agents that decide in the step.
        begins: (..., E) bool, an episode starts with the step; all its agents take in their first observation.
    """
    return to_move | begins.unsqueeze(-1) | (obs != earlier).any(-1)


class ObservedTurns:
    """`takes_in` for consecutive steps, with the observations of the step before."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        """Start without an observation; `shape` is (..., E, n, D)."""
        self.earlier: Tensor = torch.zeros(shape, device=device)

    def step(self, obs: Tensor, to_move: Tensor, begins: Tensor) -> Tensor:
        """Return the agents that advance their hidden state in this step, see `takes_in`."""
        advances = takes_in(obs, self.earlier, to_move, begins)
        self.earlier.copy_(obs)
        return advances
