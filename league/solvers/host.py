"""Payoffs for solvers that take many small steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from league.solvers.arrays import MetaStrategy, normalised


class Host:
    """Payoffs, seat by seat, where their tensor is.

    On the host they are numpy arrays, whose calls on a few numbers cost a fifth of torch's; on a device tensors.
    Solvers write what both can do.
    """

    def __init__(self, payoffs: Tensor):
        self.device = payoffs.device
        on_host = payoffs.device.type == "cpu"
        # Each seat's own axis comes first, the others' last to first are summed out in turn.
        tables = [own.movedim(seat, 0).contiguous() for seat, own in enumerate(payoffs)]
        self.tables: list[Any] = [table.numpy() for table in tables] if on_host else tables
        self.others = [[t for t in reversed(range(len(tables))) if t != seat] for seat in range(len(tables))]

    def zeros(self) -> list[Any]:
        """One vector of zeros per seat."""
        if isinstance(self.tables[0], np.ndarray):
            return [np.zeros(len(table)) for table in self.tables]
        return [torch.zeros(len(table), dtype=torch.float64, device=self.device) for table in self.tables]

    def uniform(self) -> list[Any]:
        """One uniform distribution per seat."""
        return [zero + 1 / len(zero) for zero in self.zeros()]

    def deviations(self, strategies: list[Any]) -> list[Any]:
        """What each policy earns on its seat against the others' strategies."""
        values = []
        for table, others in zip(self.tables, self.others, strict=True):
            for other in others:
                table = table @ strategies[other]
            values.append(table)
        return values

    def strategy(self, weights: list[Any]) -> MetaStrategy:
        """Weights as a meta-strategy, on the payoffs' device."""
        return MetaStrategy(tuple(normalised(torch.as_tensor(each, device=self.device)) for each in weights))
