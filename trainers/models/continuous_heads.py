"""Heads of continuous actions: Gaussians, plain or squashed, and one without noise. See `trainers.heads`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from trainers.streams import Stream, normal, uniform

LOG_STD = (-5.0, 2.0)  # bounds of a state-dependent log standard deviation


class BoxHead(nn.Module):
    """What heads of continuous actions have in common: they act in [-1, 1] per dimension, mapped to the box."""

    low: Tensor
    """(K,) lower bounds of the box."""
    high: Tensor
    """(K,) upper bounds."""

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        """Args are the bounds of each dimension."""
        super().__init__()
        self.num_params = self.code_width = len(low)
        self.action_shape = (len(low),)
        self.action_dtype = torch.float32
        self.bounded = bool(np.isfinite([*low, *high]).all())
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)

    def random(self, params: Tensor, stream: Stream, mask: Tensor | None = None) -> Tensor:
        """Codes (..., K) of uniformly random actions, one for each row of the outputs."""
        return 2.0 * uniform(params[..., : self.code_width], stream) - 1.0

    def encode(self, action: Tensor) -> Tensor:
        """Codes (..., K) of the environment's actions."""
        return (action - self.low) * (2.0 / (self.high - self.low)) - 1.0

    def decode(self, code: Tensor) -> Tensor:
        """Actions (..., K) of codes: where the box is finite they are mapped to it, and always clipped."""
        if self.bounded:
            code = self.low + (code + 1.0) * 0.5 * (self.high - self.low)
        return torch.minimum(torch.maximum(code, self.low), self.high)


class GaussianHead(BoxHead):
    """Diagonal Gaussian whose log standard deviation is a parameter, the same in every state.

    Samples outside of [-1, 1] are clipped on the way to the environment only, so that log-probabilities stay those of
    the Gaussian.
    """

    def __init__(self, low: Sequence[float], high: Sequence[float], init_log_std: float) -> None:
        """Args are the bounds of each dimension and the log standard deviation to start from."""
        super().__init__(low, high)
        self.log_std = nn.Parameter(torch.full((len(low),), init_log_std))

    def sample(self, mean: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Draws actions (..., K); returns (action, log_prob (...)). `mask` has no meaning here."""
        action = mean + self.log_std.exp() * normal(mean, stream)
        return action, self.evaluate(mean, action, mask)[0]

    def mode(self, mean: Tensor, mask: Tensor | None) -> Tensor:
        """The mean (..., K)."""
        return mean

    def evaluate(self, mean: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-density and entropy (nats, summed over dimensions), both (...), of stored actions."""
        z = (action - mean) * torch.exp(-self.log_std)
        log_prob = (-0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        entropy = (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum().expand_as(log_prob)
        return log_prob, entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Maps actions (..., K) in [-1, 1] to the box and clips to it."""
        return self.decode(action)


class TanhGaussianHead(BoxHead):
    """Diagonal Gaussian, squashed by tanh into a bounded box; mean and log standard deviation depend on the state.

    Source: Haarnoja et al. 2018, "Soft Actor-Critic", appendix C. Actions are kept as they were before the tanh, from
    where log-probabilities can be computed again; they are those of the code, tanh of the action.
    """

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        """Args are the bounds of each dimension."""
        super().__init__(low, high)
        self.num_params = 2 * len(low)

    def sample(self, params: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Draws actions (..., K), before the tanh; returns (action, log_prob (...)). `mask` has no meaning here."""
        mean, log_std = self._split(params)
        action = mean + log_std.exp() * normal(mean, stream)
        return action, self._log_prob(mean, log_std, action)

    def mode(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """The mean (..., K), before the tanh."""
        return self._split(params)[0]

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-density and entropy (nats, summed over dimensions), both (...), of stored actions.

        The entropy is the Gaussian's and what the tanh takes from it, which has no closed form: it is estimated at the
        action, taken as the Gaussian's draw, so that its gradient is that of mean and spread.
        """
        mean, log_std = self._split(params)
        draw = ((action - mean) * torch.exp(-log_std)).detach()
        entropy = log_std + 0.5 * math.log(2 * math.pi * math.e) + self._slope(mean + log_std.exp() * draw)
        return self._log_prob(mean, log_std, action), entropy.sum(-1)

    def to_env(self, action: Tensor) -> Tensor:
        """Squashes actions (..., K) and maps them to the box."""
        return self.decode(action.tanh())

    def relaxed(self, params: Tensor, stream: Stream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Draws codes (..., K) that gradients flow through; returns (code, log_prob (...))."""
        action, log_prob = self.sample(params, stream, mask)
        return action.tanh(), log_prob

    def _split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation, which a tanh keeps within its bounds."""
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
        """log(1 - tanh(x)^2) as 2 (log 2 - x - softplus(-2x)), which stays finite where tanh(x) rounds to 1."""
        return 2.0 * (math.log(2.0) - action - nn.functional.softplus(-2.0 * action))


class TanhHead(BoxHead):
    """The deterministic action tanh(outputs) in a bounded box; exploration is the learner's matter."""

    def sample(self, params: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The one action there is (..., K), and zeros (...)."""
        return params.tanh(), torch.zeros_like(params[..., 0])

    def mode(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """The same action, (..., K)."""
        return params.tanh()

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Zeros of the shape of `params[..., 0]`, twice: what is certain has log-probability and entropy 0."""
        certain = torch.zeros_like(params[..., 0])
        return certain, certain

    def to_env(self, action: Tensor) -> Tensor:
        """Maps actions (..., K) in [-1, 1] to the box."""
        return self.decode(action)

    def relaxed(self, params: Tensor, stream: Stream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (..., K) that gradients flow through, and zeros (...)."""
        return self.sample(params, stream, mask)
