"""Observation normalization, and means over valid rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gpu_envs.utils.running_mean_std import merge_rows
from trainers.models.blocks import entities_of

OBS_CLIP = 10.0
"""Bound of normalized entries, in standard deviations, as in kernels (`warp_kernels.networks.rows`)."""


class ObservationNormalizer(nn.Module):
    """Normalize observations by the running mean and variance of each entry, over valid rows; no host sync.

    For a network that attends to entities, the entities of a block share means and variances, so that their order has
    no meaning, and those whose numbers are all 0 stay 0, which marks them as absent.
    """

    count: Tensor
    """Number of valid rows so far, scalar float64."""
    mean: Tensor
    """(D,) running mean."""
    var: Tensor
    """(D,) running variance."""

    def __init__(self, width: int, spec: Mapping[str, Any] | None = None, clip: float = OBS_CLIP) -> None:
        """Set the observation width D, the network's specification, and the bound of entries in standard deviations."""
        super().__init__()
        self.spec: Mapping[str, Any] = spec or {}
        self.clip = clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, obs: Tensor) -> Tensor:
        """Return normalized observations (..., D); before the first update they are only clipped."""
        normalized = ((obs - self.mean) * torch.rsqrt(self.var + 1e-8)).clamp_(-self.clip, self.clip)
        for raw, entities in zip(entities_of(obs, self.spec), entities_of(normalized, self.spec), strict=True):
            entities.masked_fill_((raw == 0.0).all(-1, keepdim=True), 0.0)
        return normalized

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
        for means, variances in zip(entities_of(mean, self.spec), entities_of(var, self.spec), strict=True):
            shared = means.mean(0)
            variances.copy_((variances + (means - shared).square()).mean(0).expand_as(variances))
            means.copy_(shared.expand_as(means))
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
