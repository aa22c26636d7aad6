"""Action heads of Box spaces: Gaussian, tanh-squashed Gaussian, and deterministic tanh."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from trainers.base.random_streams import Stream, normal, uniform

__all__ = ["LOG_STD", "BoxHead", "GaussianHead", "TanhGaussianHead", "TanhHead"]

LOG_STD = (-5.0, 2.0)  # bounds of a state-dependent log standard deviation


class BoxHead(nn.Module):
    """Base of the heads for Box spaces: actions in [-1, 1] per dimension, scaled to the box."""

    low: Tensor
    """(K,) lower bounds of the box."""
    high: Tensor
    """(K,) upper bounds of the box."""

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        """Set the bounds of the K dimensions."""
        super().__init__()
        self.num_params: int
        self.code_width: int
        self.num_params = self.code_width = len(low)
        self.action_shape: tuple[int] = (len(low),)
        self.action_dtype: torch.dtype = torch.float32
        self.bounded: bool = bool(np.isfinite([*low, *high]).all())
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)

    def random(self, params: Tensor, stream: Stream, mask: Tensor | None = None) -> Tensor:
        """Return codes (..., K) of uniformly random actions, one per row of the outputs."""
        return 2.0 * uniform(params[..., : self.code_width], stream) - 1.0

    def encode(self, action: Tensor) -> Tensor:
        """Return the codes (..., K) of environment actions."""
        return (action - self.low) * (2.0 / (self.high - self.low)) - 1.0

    def decode(self, code: Tensor) -> Tensor:
        """Return the actions (..., K) of codes: scaled to the box if it is bounded, and clipped to it."""
        if self.bounded:
            code = self.low + (code + 1.0) * 0.5 * (self.high - self.low)
        return torch.minimum(torch.maximum(code, self.low), self.high)


class GaussianHead(BoxHead):
    """Diagonal Gaussian whose log standard deviation is a parameter that does not depend on the state.

    Samples outside [-1, 1] are clipped only for the environment, so log-probabilities are the Gaussian's.
    """

    def __init__(self, low: Sequence[float], high: Sequence[float], init_log_std: float) -> None:
        """Set the bounds of the K dimensions and the initial log standard deviation."""
        super().__init__(low, high)
        self.log_std: torch.nn.Parameter = nn.Parameter(torch.full((len(low),), init_log_std))

    def sample(self, mean: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return samples (..., K) and their log-probabilities (...); `mask` is ignored."""
        action = mean + self.log_std.exp() * normal(mean, stream)
        return action, self.evaluate(mean, action, mask)[0]

    def mode(self, mean: Tensor, mask: Tensor | None) -> Tensor:
        """Return the mean (..., K)."""
        return mean

    def evaluate(self, mean: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-density and entropy [nats], summed over dimensions, of stored actions, both of shape (...)."""
        z = (action - mean) * torch.exp(-self.log_std)
        log_prob = (-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        entropy = (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum().expand_as(log_prob)
        return log_prob, entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Scale actions (..., K) in [-1, 1] to the box and clip them to it."""
        return self.decode(action)


class TanhGaussianHead(BoxHead):
    """Diagonal Gaussian squashed by tanh into a bounded box; mean and log standard deviation depend on the state.

    Source: Haarnoja et al. 2018, "Soft Actor-Critic", appendix C. Actions are stored before the tanh, which allows
    their log-probabilities to be recomputed. Log-probabilities are of the code, the tanh of the action.
    """

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        """Set the bounds of the K dimensions."""
        super().__init__(low, high)
        self.num_params: int = 2 * len(low)

    def sample(self, params: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return samples (..., K) before the tanh and their log-probabilities (...); `mask` is ignored."""
        mean, log_std = self._split(params)
        action = mean + log_std.exp() * normal(mean, stream)
        return action, self._log_prob(mean, log_std, action)

    def mode(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """Return the mean (..., K) before the tanh."""
        return self._split(params)[0]

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-density and entropy [nats], summed over dimensions, of stored actions, both of shape (...).

        The entropy of the squashed distribution has no closed form. It is estimated at the stored action,
        reparameterized as a draw of the Gaussian, so that gradients reach mean and standard deviation.
        """
        mean, log_std = self._split(params)
        draw = ((action - mean) * torch.exp(-log_std)).detach()
        entropy = log_std + 0.5 * math.log(2 * math.pi * math.e) + self._slope(mean + log_std.exp() * draw)
        return self._log_prob(mean, log_std, action), entropy.sum(-1)

    def to_env(self, action: Tensor) -> Tensor:
        """Squash actions (..., K) and scale them to the box."""
        return self.decode(action.tanh())

    def relaxed(self, params: Tensor, stream: Stream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return differentiable samples of codes (..., K) and their log-probabilities (...)."""
        action, log_prob = self.sample(params, stream, mask)
        return action.tanh(), log_prob

    def _split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation, the latter bounded by a tanh."""
        mean, raw = params.chunk(2, -1)
        low, high = LOG_STD
        return mean, low + 0.5 * (high - low) * (raw.tanh() + 1.0)

    @staticmethod
    def _log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
        z = (action - mean) * torch.exp(-log_std)
        normal = -0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi)
        return (normal - TanhGaussianHead._slope(action)).sum(-1)

    @staticmethod
    def _slope(action: Tensor) -> Tensor:
        """Return log(1 - tanh(x)^2) as 2 (log 2 - x - softplus(-2x)), finite even where tanh(x) rounds to 1."""
        return 2.0 * (math.log(2.0) - action - nn.functional.softplus(-2.0 * action))


class TanhHead(BoxHead):
    """Deterministic action tanh(outputs) in a bounded box; learners add exploration noise themselves."""

    def sample(self, params: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the deterministic actions (..., K) and zeros (...)."""
        return params.tanh(), torch.zeros_like(params[..., 0])

    def mode(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """Return the deterministic actions (..., K)."""
        return params.tanh()

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return zeros of shape (...): log-probability and entropy of a deterministic action."""
        certain = torch.zeros_like(params[..., 0])
        return certain, certain

    def to_env(self, action: Tensor) -> Tensor:
        """Scale actions (..., K) in [-1, 1] to the box."""
        return self.decode(action)

    def relaxed(self, params: Tensor, stream: Stream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return differentiable codes (..., K) and zeros (...)."""
        return self.sample(params, stream, mask)
