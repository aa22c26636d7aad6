"""Gradient steps and minibatches of several processes that train one policy."""

from __future__ import annotations

import torch
from torch import Tensor

from trainers.base.gradients import LOCAL_REDUCER, GradientReducer, MinibatchSampler
from trainers.base.shard import Shard, all_reduce_sum


class AllReduceReducer(GradientReducer):
    """Take gradient steps on the mean of all ranks' gradients."""

    def __init__(self, ranks: int) -> None:
        """Store the number of ranks."""
        self.ranks = ranks
        self.can_capture: bool = ranks == 1

    def _all_reduce(self, gradients: list[Tensor]) -> None:
        """Average all gradients in one message."""
        if self.ranks > 1:
            flat = self.mean(torch.cat([gradient.flatten() for gradient in gradients]))
            for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(mean.view_as(gradient))

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over ranks, of the shape of `values`."""
        return all_reduce_sum(values) if self.ranks > 1 else values

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over ranks, of the shape of `values`."""
        return self.sum(values) / self.ranks if self.ranks > 1 else values


class ShardedReducer(AllReduceReducer):
    """Take the gradient steps that one process would take on the rows of all shards."""

    def __init__(self, shard: Shard) -> None:
        """Store the shard of this rank."""
        super().__init__(shard.ranks)
        self.shard = shard

    def divisor(self, valid: Tensor) -> Tensor:
        """Return the divisor (a scalar) with which the mean over ranks of sums equals the mean over all rows."""
        return self.sum(valid.sum()).clamp(min=1) / self.ranks

    def minibatch_sampler(
        self, batch: dict[str, Tensor], length: int, rows_per_step: int, fixed_shapes: bool = False
    ) -> MinibatchSampler:
        """Return the sampler of this rank's share of the minibatches of all ranks; arguments as in the base class."""
        return ShardedMinibatchSampler(batch, length, rows_per_step, self.shard)

    def gather_in_step_order(self, places: Tensor, values: Tensor) -> Tensor:
        """Return the values (N, ...) of all ranks, ordered by step and world."""
        shard = self.shard
        step, world = places // shard.num_envs, places % shard.num_envs
        order = torch.cat(shard.all_gather(step * shard.num_envs_total + shard.offset + world)).argsort()
        return torch.cat(shard.all_gather(values))[order]

    def _moments(self, values: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, variance and standard deviation of all ranks' valid values (N,), computed in two passes."""
        if valid is not None:
            values = values[valid]
        count, total = self.sum(torch.stack([torch.full_like(values.sum(), values.numel()), values.sum()]))
        mean = total / count
        variance = self.sum((values - mean).square().sum()) / count
        return mean, variance, variance.sqrt()


class ShardedMinibatchSampler(MinibatchSampler):
    """Split the rows of all ranks into minibatches, in the row order of a single process: by step, then by world."""

    def __init__(self, batch: dict[str, Tensor], length: int, rows_per_step: int, shard: Shard) -> None:
        """Exchange the number of rows per step with the other ranks; arguments as in `minibatch_sampler`."""
        rows, valid = batch["rows"], batch.get("valid")
        self.shard: Shard = shard
        self.device: torch.device = rows.device
        step = rows // rows_per_step
        local_counts = torch.bincount(step, minlength=length)
        counts = torch.stack(shard.all_gather(local_counts)).view(shard.ranks, -1)
        at_step = counts.sum(0)
        # index, among the rows of all ranks, of this rank's first row of each step
        first = at_step.cumsum(0) - at_step + counts[: shard.rank].sum(0)
        positions = torch.arange(len(rows), device=self.device) + (first + local_counts - local_counts.cumsum(0))[step]
        self.size: int
        self.max_minibatches: int
        self.size = self.max_minibatches = int(at_step.sum())
        self.local_rows: Tensor = torch.full((self.size,), -1, device=self.device).index_copy_(
            0, positions, torch.arange(len(rows), device=self.device)
        )
        self.weight: Tensor | None = None
        self.num_decisions: int = self.size
        if valid is not None:  # rows are sequences: count the decisions in them
            weight = torch.zeros(self.size, dtype=torch.int64, device=self.device)
            self.weight = shard.sum(weight.index_copy_(0, positions, valid.sum(1)))
            self.num_decisions = int(self.weight.sum())
        # with this divisor the mean over ranks of sums equals the mean over all rows
        self.divisor: Tensor | float | None = self.num_decisions / shard.ranks

    def minibatches(self, number: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor | float | None]]:
        """Return this rank's rows of `number` random minibatches, and the divisors of losses on them.

        The host synchronizes with the device to count the rows of this rank.
        """
        order = torch.randperm(self.size, generator=generator, device=self.device)
        rows = self.local_rows[order]
        is_local = rows >= 0
        minibatches = rows[is_local].split(torch.stack([part.sum() for part in is_local.tensor_split(number)]).tolist())
        divisors: list[Tensor | float | None] = []
        for chunk in order.tensor_split(number):
            weight = len(chunk) if self.weight is None else self.weight[chunk].sum().clamp(min=1)
            divisors.append(weight / self.shard.ranks)
        return list(zip(minibatches, divisors, strict=True))


def reducer_for(shard: Shard) -> GradientReducer:
    """Return the gradient reducer of a shard's learners."""
    return ShardedReducer(shard) if shard.ranks > 1 else LOCAL_REDUCER
