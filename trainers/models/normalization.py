"""Observation normalization, and means over valid rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gpu_envs.utils.running_mean_std import merge_rows

__all__ = ["OBS_CLIP", "ObservationNormalizer", "masked_mean"]

OBS_CLIP = 10.0
"""Bound of normalized entries, in standard deviations, as in kernels (`warp_kernels.networks.rows`)."""


class ObservationNormalizer(nn.Module):
    """Normalize observations by the running mean and variance of each entry, over valid rows; no host sync."""

    count: Tensor
    """Number of valid rows so far, scalar float64."""
    mean: Tensor
    """(D,) running mean."""
    var: Tensor
    """(D,) running variance."""

    def __init__(self, width: int, clip: float = OBS_CLIP) -> None:
        """Set the observation width D and the bound of normalized entries, in standard deviations."""
        super().__init__()
        self.clip = clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, obs: Tensor) -> Tensor:
        """Return normalized observations (..., D); before the first update they are only clipped."""
        return ((obs - self.mean) * torch.rsqrt(self.var + 1e-8)).clamp_(-self.clip, self.clip)

    @torch.no_grad()
    def update(
        self, obs: Tensor, valid: Tensor | None = None, total: Callable[[Tensor], Tensor] = lambda values: values
    ) -> None:
        """Add a batch to the statistics by the parallel update of Chan, Golub and LeVeque 1979; no host sync.

        Args:
            obs: (..., D) observations.
            valid: (...) bool, rows to count; None: all. Other rows may hold any values.
            total: Sum over all ranks, `GradientReducer.sum`.
        """
        rows = obs.reshape(-1, obs.shape[-1])
        valid = None if valid is None else valid.reshape(-1)
        mean, var, count = merge_rows((self.mean, self.var, self.count), rows, valid, total)
        self.mean.copy_(mean)
        self.var.copy_(var)
        self.count.copy_(count)


def masked_mean(values: Tensor, valid: Tensor | None, divisor: Tensor | float | None = None) -> Tensor:
    """Return the mean over valid elements (None: all), or 0 if there are none. Other elements, even NaN, are ignored.

    With a `divisor`, return their sum divided by it, for minibatches that several ranks share. See
    `trainers.base.gradients.MinibatchSampler`.
    """
    if valid is None:
        return values.mean() if divisor is None else values.sum() / divisor
    return values.masked_fill(~valid, 0.0).sum() / (valid.sum().clamp(min=1) if divisor is None else divisor)
