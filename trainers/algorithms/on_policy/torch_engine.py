"""Gradient steps of actor-critic learners by PyTorch's autograd; `kernel_engine.KernelEngine` has the same methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from trainers.base.gradients import GradientReducer

Divisor = Tensor | float | None
"""Divisor of the loss of a minibatch, see `MinibatchSampler`."""
Loss = Callable[[dict[str, Tensor], Tensor | None, Divisor], tuple[Tensor, dict[str, Tensor]]]
"""Function of a batch, rows (B,) or None for all, and a divisor; returns a scalar loss and scalar metrics."""


class TorchEngine:
    """Values a rollout and takes gradient steps on it by PyTorch's autograd."""

    def __init__(
        self,
        make_batch: Callable[[GradientReducer, bool], dict[str, Tensor]],
        optimizer: torch.optim.Optimizer,
        max_grad_norm: float,
    ) -> None:
        """Set the function that values the rollout, see `ActorCriticLearner.batch`, and what takes the steps."""
        self.optimizer: torch.optim.Optimizer = optimizer
        self._make_batch, self._max_grad_norm = make_batch, max_grad_norm
        self._batch: dict[str, Tensor] = {}
        self._totals: dict[str, Tensor] = {}

    def batch(self, reducer: GradientReducer, fixed_shapes: bool) -> dict[str, Tensor]:
        """Return the decisions of the rollout, see `row_batch`, and clear the totals."""
        self._batch, self._totals = self._make_batch(reducer, fixed_shapes), {}
        return self._batch

    def step(
        self,
        reducer: GradientReducer,
        loss: Loss,
        minibatches: Sequence[tuple[Tensor | None, Divisor]],
        active: Tensor | None,
        settings: Mapping[str, float | Tensor | None],
    ) -> float | Tensor:
        """Take a gradient step on each minibatch, and add its metrics to the totals.

        Args:
            reducer: Reducer of the gradients.
            loss: Loss in PyTorch.
            minibatches: Rows (B,) of the batch, or None for all, and the divisor of their loss.
            active: Flag on the device, a scalar bool: take the steps only if it is set. None: take them.
            settings: Settings of the loss by name, which kernels read; the loss knows them.

        Returns:
            Number of gradient steps taken.
        """
        count: float | Tensor = 0.0
        for rows, divisor in minibatches:
            # with fixed shapes, a minibatch of invalid rows is no step
            enabled = None if active is None else active & self._valid(rows).any()
            value, measured = loss(self._batch, rows, divisor)
            measured["grad_norm"] = reducer.step(self.optimizer, value, self._max_grad_norm, enabled)
            count = count + (1.0 if enabled is None else enabled)
            for name, metric in measured.items():
                counted = metric if enabled is None else torch.where(enabled, metric, 0.0)
                self._totals[name] = self._totals[name] + counted if name in self._totals else counted
        return count

    def _valid(self, rows: Tensor | None) -> Tensor:
        return self._batch["valid"] if rows is None else self._batch["valid"][rows]

    def totals(self) -> dict[str, Tensor]:
        """Return the sums of the metrics over the gradient steps on this batch, scalars; {} before the first one."""
        return self._totals

    def finish(self) -> None:
        """Free the batch."""
        self._batch = {}
