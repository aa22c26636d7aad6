"""Parts of networks: MLPs, action heads and the observation normaliser.

Heads hold the mathematics of `torch.distributions` (Categorical, Normal) without its argument checks, which cost more
than the policies used here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import ConfigError

ILLEGAL = -1e9  # logit of a masked action: exp() of it is 0, while 0 * ILLEGAL stays finite in the entropy
ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


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


def legal(values: Tensor, mask: Tensor | None) -> Tensor:
    """Values or logits (..., n), ILLEGAL for what the mask (..., n) forbids (False)."""
    return values if mask is None else values.masked_fill(~mask, ILLEGAL)


class CategoricalHead(nn.Module):
    """One or several independent categoricals that share one vector of logits.

    Actions are (...) int64 with one categorical (`Discrete`), (..., K) int64 with K of them (`MultiDiscrete`).
    """

    def __init__(self, sizes: Sequence[int], multi: bool) -> None:
        """Args are the number of choices of each categorical, and whether actions carry a last axis K."""
        super().__init__()
        self.sizes, self.multi, self.num_params = list(sizes), multi, sum(sizes)
        self.action_shape = (len(self.sizes),) if multi else ()
        self.action_dtype = torch.int64

    def log_probs(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """Log-probabilities (..., K, n), ILLEGAL beyond a categorical's own n; mask (..., sum of n) True = legal."""
        logits = legal(logits, mask)
        widest = max(self.sizes)
        if len(set(self.sizes)) == 1:
            table = logits.unflatten(-1, (len(self.sizes), widest))
        else:
            parts = logits.split(self.sizes, dim=-1)
            table = torch.stack([nn.functional.pad(p, (0, widest - p.shape[-1]), value=ILLEGAL) for p in parts], dim=-2)
        return table.log_softmax(-1)

    def sample(self, logits: Tensor, generator: torch.Generator | None, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Draws by an exponential race, as `torch.multinomial` without its sync; returns (action, log_prob (...))."""
        log_probs = self.log_probs(logits, mask)
        race = torch.empty_like(log_probs).exponential_(generator=generator).clamp_(min=1e-20).log_()
        index = (log_probs - race).argmax(-1, keepdim=True)
        return self._shape(index), log_probs.gather(-1, index).sum((-1, -2))

    def mode(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """The most probable actions."""
        return self._shape(self.log_probs(logits, mask).argmax(-1, keepdim=True))

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy (nats, summed over the K categoricals), both (...), of stored actions."""
        log_probs = self.log_probs(logits, mask)
        index = action.unsqueeze(-1) if self.multi else action[..., None, None]
        entropy = -(log_probs.exp() * log_probs).sum((-1, -2))
        return log_probs.gather(-1, index).sum((-1, -2)), entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Categories are the environment's actions."""
        return action

    def _shape(self, index: Tensor) -> Tensor:
        return index.squeeze(-1) if self.multi else index[..., 0, 0]


class GreedyHead(CategoricalHead):
    """The best of n actions by their values; both sample and mode are that action.

    With `dueling` the last layer gives a value and n advantages, of which the mean is taken off (Wang et al. 2016,
    "Dueling Network Architectures for Deep Reinforcement Learning", eq. 9).
    """

    def __init__(self, choices: int, dueling: bool) -> None:
        """Args are n, and whether value and advantages come apart."""
        super().__init__([choices], multi=False)
        self.dueling = dueling
        self.num_params = choices + dueling

    def values(self, params: Tensor) -> Tensor:
        """Action values (..., n) from the network's outputs (..., `num_params`)."""
        if not self.dueling:
            return params
        value, advantage = params[..., :1], params[..., 1:]
        return value + advantage - advantage.mean(-1, keepdim=True)

    def log_probs(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """0 for the best legal action, ILLEGAL for all others, (..., 1, n)."""
        values = legal(self.values(logits), mask)
        table = torch.full_like(values, ILLEGAL).scatter_(-1, values.argmax(-1, keepdim=True), 0.0)
        return table.unsqueeze(-2)


class GaussianHead(nn.Module):
    """Diagonal Gaussian whose log standard deviation is a parameter, the same in every state.

    It acts in [-1, 1] per dimension, mapped to the box where the box is finite; samples outside are clipped on the way
    to the environment only, so that log-probabilities stay those of the Gaussian.
    """

    low: Tensor
    high: Tensor

    def __init__(self, low: Sequence[float], high: Sequence[float], init_log_std: float) -> None:
        """Args are the bounds of each dimension and the log standard deviation to start from."""
        super().__init__()
        self.num_params = len(low)
        self.action_shape = (len(low),)
        self.action_dtype = torch.float32
        self.bounded = bool(np.isfinite([*low, *high]).all())
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)
        self.log_std = nn.Parameter(torch.full((len(low),), init_log_std))

    def sample(self, mean: Tensor, generator: torch.Generator | None, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Draws actions (..., K); returns (action, log_prob (...)). `mask` has no meaning here."""
        noise = torch.empty_like(mean).normal_(generator=generator)
        action = mean + self.log_std.exp() * noise
        return action, self.evaluate(mean, action, mask)[0]

    def mode(self, mean: Tensor, mask: Tensor | None) -> Tensor:
        """The mean."""
        return mean

    def evaluate(self, mean: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-density and entropy (nats, summed over dimensions), both (...), of stored actions."""
        z = (action - mean) * torch.exp(-self.log_std)
        log_prob = (-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        entropy = (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum().expand_as(log_prob)
        return log_prob, entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Maps [-1, 1] to the box and clips to it."""
        if self.bounded:
            action = self.low + (action + 1.0) * 0.5 * (self.high - self.low)
        return torch.minimum(torch.maximum(action, self.low), self.high)


Head = CategoricalHead | GaussianHead


def action_spec(space: spaces.Space[Any], init_log_std: float = 0.0) -> dict[str, Any]:
    """Describes an action space in JSON's terms, for `make_head` and for policies on disk."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "sizes": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "multi_discrete", "sizes": [int(n) for n in space.nvec]}
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        bounds = {"low": [float(x) for x in space.low], "high": [float(x) for x in space.high]}
        return {"kind": "continuous", **bounds, "init_log_std": init_log_std}
    raise ConfigError(f"action space {space} has no head: expected Discrete, MultiDiscrete or a Box of one dimension")


def greedy_spec(space: spaces.Space[Any], dueling: bool = False) -> dict[str, Any]:
    """`action_spec` for learners of action values; ConfigError where actions are not Discrete."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "greedy", "sizes": [int(space.n)], "dueling": dueling}
    raise ConfigError(f"action values need Discrete actions, got {space}; choose another algorithm, such as ppo")


def make_head(spec: dict[str, Any]) -> Head:
    """The head that `action_spec` or `greedy_spec` describes."""
    if spec["kind"] == "greedy":
        return GreedyHead(*spec["sizes"], dueling=spec["dueling"])
    if spec["kind"] == "continuous":
        return GaussianHead(spec["low"], spec["high"], spec["init_log_std"])
    return CategoricalHead(spec["sizes"], multi=spec["kind"] == "multi_discrete")


class ObservationNormalizer(nn.Module):
    """Running mean and variance per observation entry, over valid rows, kept and applied on the device."""

    count: Tensor
    mean: Tensor
    var: Tensor

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
