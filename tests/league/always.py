"""Policies for tests: one that always takes the same action, and tables of the seats of a tree."""

from __future__ import annotations

import torch
from torch import Tensor

from league.policies.tabular import TablePolicy


class Stateless:
    """Base class of policies without hidden state and random stream."""

    def initial_hidden_state(self, *shape: int) -> None:
        return None

    def seed(self, seed: int) -> None:
        pass


class Always(Stateless):
    """Take one action for every observation."""

    def __init__(self, action: int) -> None:
        self.action = action

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        return torch.full(obs.shape[:-1], self.action)


PURE = [Always(0), Always(1), Always(2)]
"""Rock, paper, scissors."""


def table_policy(tree, table: Tensor, seat: int, seed: int = 0, device: str = "cpu") -> TablePolicy:
    """Return the policy that plays a table (I, C) of one seat of a tree."""
    return TablePolicy(tree.observations[seat].to(device), table, seed)
