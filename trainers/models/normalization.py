"""Parts of networks: MLPs and the observation normaliser. Action heads are in `trainers.heads`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}  # by the names of settings


def mlp(
    sizes: Sequence[int], activation: str, out_gain: float, generator: torch.Generator | None = None
) -> nn.Sequential:
    """Multi-layer perceptron with orthogonal weights and zero biases, built on the CPU.

    Source: the initialisation of Engstrom et al. 2020, "Implementation Matters in Deep Policy Gradients".

    Args:
        sizes: Widths from input to output.
        activation: "tanh" or "relu", between layers.
        out_gain: Gain of the last layer: 0.01 for a policy (starts near uniform), 1 for a critic.
        generator: CPU generator that draws the weights.
    """
    layers: list[nn.Module] = []
    last = len(sizes) - 2
    for i, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
        linear = nn.Linear(width_in, width_out)
        nn.init.orthogonal_(linear.weight, out_gain if i == last else math.sqrt(2.0), generator=generator)
        nn.init.zeros_(linear.bias)
        layers += [linear] if i == last else [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


class ObservationNormalizer(nn.Module):
    """Running mean and variance per observation entry, over valid rows, kept and applied on the device."""

    count: Tensor
    """Valid rows so far, scalar float64."""
    mean: Tensor
    """(D,) of them."""
    var: Tensor
    """(D,) of them."""

    def __init__(self, width: int, clip: float = 10.0) -> None:
        """Args are the observation width D and the bound, in standard deviations, of normalised entries."""
        super().__init__()
        self.clip = clip
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def forward(self, obs: Tensor) -> Tensor:
        """Normalised observations, same shape (..., D); the identity, clipped, before the first update."""
        return ((obs - self.mean) * torch.rsqrt(self.var + 1e-8)).clamp_(-self.clip, self.clip)

    @torch.no_grad()
    def update(
        self, obs: Tensor, valid: Tensor | None = None, total: Callable[[Tensor], Tensor] = lambda values: values
    ) -> None:
        """Merges a batch by the parallel update of Chan, Golub and LeVeque 1979; no host sync.

        Args:
            obs: (..., D) observations.
            valid: (...) bool rows to count, all if None. Other rows may hold anything.
            total: Sums over all processes that learn together, `Descent.sum`.
        """
        rows = obs.reshape(-1, obs.shape[-1])
        weight = torch.ones_like(rows[:, :1]) if valid is None else valid.reshape(-1, 1).to(rows.dtype)
        rows = rows if valid is None else rows.masked_fill(~valid.reshape(-1, 1), 0.0)
        batch_count = total(weight.sum(dtype=torch.float64))
        size = batch_count.clamp(min=1.0).to(rows.dtype)
        batch_mean = total(rows.sum(0)) / size
        batch_var = total((weight * (rows - batch_mean).square()).sum(0)) / size
        merged = (self.count + batch_count).clamp(min=1.0)
        share = (batch_count / merged).to(rows.dtype)  # of the batch in the merged statistics; 0 for an empty batch
        kept = (self.count / merged).to(rows.dtype)
        shift = batch_mean - self.mean
        var = kept * self.var + share * batch_var + kept * share * shift.square()
        empty = batch_count == 0
        self.var.copy_(torch.where(empty, self.var, var))
        self.mean.add_(share * shift)
        self.count.add_(batch_count)


def masked_mean(values: Tensor, where: Tensor | None, count: Tensor | float | None = None) -> Tensor:
    """Mean over the elements that count, all if None; 0 if none does. The others, NaN included, are not read.

    With a `count` it is their sum divided by that, as where others have more of them, see `trainers.learner.Deck`.
    """
    if where is None:
        return values.mean() if count is None else values.sum() / count
    return values.masked_fill(~where, 0.0).sum() / (where.sum().clamp(min=1) if count is None else count)


@torch.no_grad()
def follow(target: nn.Module, net: nn.Module, tau: float) -> None:
    """Moves a target network a share `tau` of the way towards its network."""
    for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
        slow.lerp_(fast, tau)
