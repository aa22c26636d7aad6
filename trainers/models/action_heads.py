"""Action heads map a network's outputs to actions.

They compute the same densities as `torch.distributions` (Categorical, Normal, TransformedDistribution), without its
argument checks, which take longer than the small networks used here.

Critics of actions take them as codes: (..., code_width) numbers in [-1, 1]. The code of a continuous action is its
position in the box, of a discrete action it is one-hot. `relaxed` samples differentiable codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base.random_streams import Stream, exponential, normal, uniform
from trainers.base.serialization import check_fields

ILLEGAL = -1e9  # logit of an illegal action: its exp() is 0, and 0 * ILLEGAL stays finite in the entropy


def legal(values: Tensor, mask: Tensor | None) -> Tensor:
    """Return values or logits (..., n), with ILLEGAL where the mask (..., n) is False."""
    return values if mask is None else values.masked_fill(~mask, ILLEGAL)


class CategoricalHead(nn.Module):
    """One or several independent categoricals that share one vector of logits.

    Actions are int64: (...) for one categorical (`Discrete`), (..., K) for K of them (`MultiDiscrete`).
    """

    def __init__(self, sizes: Sequence[int], multi: bool) -> None:
        """Set the number of choices of each categorical; `multi` gives actions a last axis K."""
        super().__init__()
        self.sizes: list[int] = list(sizes)
        self.multi: bool = multi
        self.num_params: int = sum(sizes)
        self.action_shape: tuple[int] | tuple[()] = (len(self.sizes),) if multi else ()
        self.action_dtype: torch.dtype = torch.int64
        self.code_width: int = self.num_params

    def log_probs(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """Return log-probabilities (..., K, n), ILLEGAL beyond a categorical's own n.

        The mask (..., sum of n) is True for legal choices.
        """
        logits = legal(logits, mask)
        widest = max(self.sizes)
        if len(set(self.sizes)) == 1:
            table = logits.unflatten(-1, (len(self.sizes), widest))
        else:
            parts = logits.split(self.sizes, dim=-1)
            table = torch.stack([nn.functional.pad(p, (0, widest - p.shape[-1]), value=ILLEGAL) for p in parts], dim=-2)
        return table.log_softmax(-1)

    def sample(self, logits: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return samples and their log-probabilities (...).

        Samples come from exponential noise, as `torch.multinomial` synchronizes with the host.
        """
        log_probs = self.log_probs(logits, mask)
        index = self._race(log_probs, stream).argmax(-1, keepdim=True)
        return self._shape(index), log_probs.gather(-1, index).sum((-1, -2))

    def mode(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """Return the most probable actions, of the shape of samples."""
        return self._shape(self.log_probs(logits, mask).argmax(-1, keepdim=True))

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy [nats] of stored actions, sums over the K categoricals; shape (...)."""
        log_probs = self.log_probs(logits, mask)
        entropy = -(log_probs.exp() * log_probs).sum((-1, -2))
        return log_probs.gather(-1, self._index(action)).sum((-1, -2)), entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Return the actions (..., K) unchanged: categories are environment actions."""
        return action

    def relaxed(self, logits: Tensor, stream: Stream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return differentiable one-hot samples, with the gradients of a Gumbel-softmax.

        Source: Jang et al. 2017, "Categorical Reparameterization with Gumbel-Softmax", straight-through, temperature 1.

        Returns:
            (code (..., code_width), log_prob (...)).
        """
        log_probs = self.log_probs(logits, mask)
        soft = self._race(log_probs, stream).softmax(-1)
        index = soft.argmax(-1, keepdim=True)
        hard = torch.zeros_like(soft).scatter_(-1, index, 1.0)
        return self._flat(hard + soft - soft.detach()), log_probs.gather(-1, index).sum((-1, -2))

    def random(self, logits: Tensor, stream: Stream, mask: Tensor | None = None) -> Tensor:
        """Return the codes of uniformly random legal actions, of the shape of the logits."""
        return self.relaxed(torch.zeros_like(logits), stream, mask)[0]

    def encode(self, action: Tensor) -> Tensor:
        """Return the codes (..., code_width) of environment actions."""
        index = self._index(action)
        shape = (*index.shape[:-1], max(self.sizes))
        return self._flat(torch.zeros(shape, device=action.device).scatter_(-1, index, 1.0))

    def decode(self, code: Tensor) -> Tensor:
        """Return the environment actions, (...) or (..., K), of codes (..., `code_width`)."""
        index = torch.stack([part.argmax(-1) for part in code.split(self.sizes, -1)], -1)
        return index if self.multi else index[..., 0]

    def _race(self, log_probs: Tensor, stream: Stream) -> Tensor:
        """Return log-probabilities plus Gumbel noise; the largest entry is a sample."""
        return log_probs - exponential(log_probs, stream).clamp_(min=1e-20).log_()

    def _flat(self, table: Tensor) -> Tensor:
        """Flatten (..., K, n) to (..., code_width), without entries beyond a categorical's own n."""
        return torch.cat([table[..., k, :size] for k, size in enumerate(self.sizes)], -1)

    def _index(self, action: Tensor) -> Tensor:
        return action.unsqueeze(-1) if self.multi else action[..., None, None]

    def _shape(self, index: Tensor) -> Tensor:
        return index.squeeze(-1) if self.multi else index[..., 0, 0]


class GreedyHead(CategoricalHead):
    """The legal action of the largest value; both sample and mode return it.

    With `dueling` the last layer outputs a state value and n advantages, centered by their mean. Source: Wang et al.
    2016, "Dueling Network Architectures for Deep Reinforcement Learning", eq. 9.
    """

    def __init__(self, choices: int, dueling: bool) -> None:
        """Set the number of choices n, and whether outputs are a value and advantages."""
        super().__init__([choices], multi=False)
        self.dueling = dueling
        self.num_params: int = choices + dueling

    def values(self, params: Tensor) -> Tensor:
        """Return the action values (..., n) of network outputs (..., `num_params`)."""
        if not self.dueling:
            return params
        value, advantage = params[..., :1], params[..., 1:]
        return value + advantage - advantage.mean(-1, keepdim=True)

    def log_probs(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """Return (..., 1, n): 0 for the best legal action, ILLEGAL for all others."""
        values = legal(self.values(logits), mask)
        table = torch.full_like(values, ILLEGAL).scatter_(-1, values.argmax(-1, keepdim=True), 0.0)
        return table.unsqueeze(-2)


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
        """Return the codes (..., K) of environment actions: their positions in the box, if it is bounded."""
        if not self.bounded:
            return action
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

    def gaussian(self, mean: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean (..., K) and log standard deviation (K,)."""
        return mean, self.log_std

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
        mean, log_std = self.gaussian(params)
        action = mean + log_std.exp() * normal(mean, stream)
        return action, self._log_prob(mean, log_std, action)

    def mode(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """Return the mean (..., K) before the tanh."""
        return self.gaussian(params)[0]

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-density and entropy [nats], summed over dimensions, of stored actions, both of shape (...).

        The entropy of the squashed distribution has no closed form. It is estimated at the stored action,
        reparameterized as a draw of the Gaussian, so that gradients reach mean and standard deviation.
        """
        mean, log_std = self.gaussian(params)
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

    def gaussian(self, params: Tensor) -> tuple[Tensor, Tensor]:
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


Head = CategoricalHead | GaussianHead | TanhGaussianHead | TanhHead
"""Head of a policy network."""


def kl_divergence(head: Head, params: Tensor, other: Head, other_params: Tensor, mask: Tensor | None) -> Tensor:
    """Return KL(head || other) [nats], summed over dimensions, of shape (...).

    Args:
        head: A stochastic head. Tanh changes no divergence, so squashed Gaussians have that of the Gaussians.
        params: (..., num_params) parameters of its distribution, as networks return them.
        other: Head of the same kind.
        other_params: (..., num_params) parameters of the other distribution.
        mask: (..., choices) bool, True = legal, of discrete actions; None: all are legal.

    Raises:
        TypeError: The heads are deterministic, or of two kinds.
    """
    if isinstance(head, CategoricalHead) and isinstance(other, CategoricalHead):
        log_probs = head.log_probs(params, mask)
        return (log_probs.exp() * (log_probs - other.log_probs(other_params, mask))).sum((-1, -2))
    if isinstance(head, GaussianHead | TanhGaussianHead) and isinstance(other, GaussianHead | TanhGaussianHead):
        (mean, log_std), (other_mean, other_log_std) = head.gaussian(params), other.gaussian(other_params)
        z, log_ratio = (mean - other_mean) * torch.exp(-other_log_std), log_std - other_log_std
        return (0.5 * ((2.0 * log_ratio).exp() + z * z - 1.0) - log_ratio).sum(-1)
    raise TypeError(f"expected two stochastic heads of one kind, got {type(head).__name__}, {type(other).__name__}")


_SQUASHED = {"tanh_gaussian": TanhGaussianHead, "tanh": TanhHead}
BOX_KINDS = ("continuous", *_SQUASHED)
"""Kinds of heads for a Box space, as `action_spec` takes them."""
MAX_LOG_STD = 80.0
"""Bound on the absolute log standard deviation, within which exponentials are finite in float32."""
_BOUNDS = {"low": list[float], "high": list[float]}
_FIELDS: dict[str, dict[str, Any]] = {
    "discrete": {"sizes": list[int]},
    "multi_discrete": {"sizes": list[int]},
    "greedy": {"sizes": list[int], "dueling": bool},
    "continuous": {**_BOUNDS, "init_log_std": float},
    **dict.fromkeys(_SQUASHED, _BOUNDS),
}
"""Fields of an action specification by kind, without `kind` itself."""


def action_spec(space: spaces.Space[Any], init_log_std: float = 0.0, box: str = "continuous") -> dict[str, Any]:
    """Describe an action space as JSON data, for `make_head` and for policies on disk.

    Args:
        space: Action space of one agent.
        init_log_std: Initial log standard deviation of a Gaussian.
        box: Head for Box spaces: "continuous" (Gaussian), "tanh_gaussian" or "tanh"; the last two need bounds.

    Raises:
        ConfigError: The space has no such head.
    """
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "sizes": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "multi_discrete", "sizes": [int(n) for n in space.nvec]}
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        if box in _SQUASHED and not space.is_bounded():
            raise ConfigError(f"action space: expected bounds for a {box} policy, got {space}; use ppo")
        bounds = {"low": [float(x) for x in space.low], "high": [float(x) for x in space.high]}
        return {"kind": box, **bounds} | ({} if box in _SQUASHED else {"init_log_std": init_log_std})
    raise ConfigError(f"action space: expected Discrete, MultiDiscrete or a one-dimensional Box, got {space}")


def greedy_spec(space: spaces.Space[Any], dueling: bool = False) -> dict[str, Any]:
    """Return `action_spec` for learners of action values; raise ConfigError unless the space is Discrete."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "greedy", "sizes": [int(space.n)], "dueling": dueling}
    raise ConfigError(f"action values: expected Discrete actions, got {space}; use another algorithm, such as ppo")


def spec_like(spec: dict[str, Any], space: spaces.Space[Any]) -> dict[str, Any]:
    """Return the specification of `space` with the kind of head of `spec`; equal to `spec` if it fits the space."""
    if spec["kind"] == "greedy" and isinstance(space, spaces.Discrete):
        return greedy_spec(space, spec["dueling"])
    box = spec["kind"] if spec["kind"] in _SQUASHED else "continuous"
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    return action_spec(space, spec.get("init_log_std", 0.0), box if bounded else "continuous")


def action_text(spec: dict[str, Any]) -> str:
    """Return the action space of a specification in few words, as Gymnasium writes it."""
    if "sizes" in spec:
        sizes = spec["sizes"]
        return f"MultiDiscrete({sizes})" if spec["kind"] == "multi_discrete" else f"Discrete({sizes[0]})"
    low, high = set(spec["low"]), set(spec["high"])
    bounds = f"{low.pop():g}, {high.pop():g}, " if len(low) == len(high) == 1 else ""
    return f"Box({bounds}({len(spec['low'])},))"


def check_action_spec(source: str, spec: Any) -> None:
    """Check an action specification read from a file; raise CheckpointError at the first invalid field."""
    kind = spec.get("kind") if isinstance(spec, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise CheckpointError(f"{source}: kind: expected one of {', '.join(_FIELDS)}, got {kind!r:.80}")
    check_fields(source, spec, {"kind": str, **_FIELDS[kind]})
    if "sizes" in spec:
        sizes = spec["sizes"]
        if not sizes or min(sizes) < 1 or sum(sizes) >= 2**31 or (kind != "multi_discrete" and len(sizes) > 1):
            number = "numbers" if kind == "multi_discrete" else "one number"
            raise CheckpointError(f"{source}: sizes: expected {number} >= 1 of choices, got {sizes!r:.80}")
        return
    low, high = spec["low"], spec["high"]
    limit = float(np.finfo(np.float32).max)
    valid = all(abs(x) <= limit or (math.isinf(x) and kind == "continuous") for x in (*low, *high))
    if not low or len(low) != len(high) or not valid or not all(map(float.__le__, map(float, low), map(float, high))):
        raise CheckpointError(f"{source}: expected low <= high of each dimension, got {low!r:.80} and {high!r:.80}")
    if not abs(spec.get("init_log_std", 0.0)) <= MAX_LOG_STD:
        raise CheckpointError(f"{source}: init_log_std: expected at most ±{MAX_LOG_STD}, got {spec['init_log_std']}")


def make_head(spec: dict[str, Any]) -> Head:
    """Return the head described by `action_spec` or `greedy_spec`."""
    if spec["kind"] == "greedy":
        return GreedyHead(*spec["sizes"], dueling=spec["dueling"])
    if spec["kind"] in _SQUASHED:
        return _SQUASHED[spec["kind"]](spec["low"], spec["high"])
    if spec["kind"] == "continuous":
        return GaussianHead(spec["low"], spec["high"], float(spec["init_log_std"]))
    return CategoricalHead(spec["sizes"], multi=spec["kind"] == "multi_discrete")
