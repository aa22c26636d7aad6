"""A policy for tests that always takes the same action."""

from __future__ import annotations

import torch
from torch import Tensor


class Always:
    """Take one action for every observation."""

    def __init__(self, action: int) -> None:
        self.action = action

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        return torch.full(obs.shape[:-1], self.action)

    def initial_hidden_state(self, *shape: int) -> None:
        return None

    def seed(self, seed: int) -> None:
        pass


PURE = [Always(0), Always(1), Always(2)]
"""Rock, paper, scissors."""
