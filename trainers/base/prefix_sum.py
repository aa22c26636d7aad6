"""Cumulative sums that are reproducible on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor


def prefix_sum(values: Tensor) -> Tensor:
    """Return the cumulative sums of `values` (N,).

    `Tensor.cumsum` adds floats on a GPU in an order that varies, and raises an error if deterministic algorithms are
    required. Then the sums are added in a fixed order, by doubling (Hillis and Steele 1986, "Data parallel
    algorithms"): log2(N) additions of the whole tensor, without host synchronization.
    """
    return _doubling_sum(values) if _needs_fixed_order(values) else values.cumsum(0)


def cumulative_weights(weights: Tensor) -> Tensor:
    """Return the cumulative sums of `weights` (N,) >= 0, for sampling by `searchsorted`.

    They do not decrease, and increase only where a weight is above 0, also after rounding.
    """
    if not _needs_fixed_order(weights):
        return weights.cumsum(0)
    return torch.where(weights > 0, _doubling_sum(weights), 0.0).cummax(0).values


def _needs_fixed_order(values: Tensor) -> bool:
    """Return whether the order of the additions matters and `cumsum` does not fix it."""
    return values.is_cuda and torch.are_deterministic_algorithms_enabled()


def _doubling_sum(values: Tensor) -> Tensor:
    """Return the cumulative sums of `values` (N,), added in an order that depends on N only."""
    total, shift = values, 1
    while shift < len(values):
        total = torch.cat([total[:shift], total[shift:] + total[:-shift]])
        shift *= 2
    return total
