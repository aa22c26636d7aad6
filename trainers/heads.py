"""Action heads: what turns a network's outputs into actions.

They hold the mathematics of `torch.distributions` (Categorical, Normal, TransformedDistribution) without its argument
checks, which cost more than the policies used here.

Critics that judge actions see them as a code: (..., code_width) numbers in [-1, 1]. A continuous action's code is its
place in the box, a discrete one's is one-hot. `relaxed` draws codes that gradients flow through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import ConfigError

ILLEGAL = -1e9  # logit of a masked action: exp() of it is 0, while 0 * ILLEGAL stays finite in the entropy
LOG_STD = (-5.0, 2.0)  # bounds of a state-dependent log standard deviation


Stream = torch.Generator | Sequence[torch.Generator] | None
"""Where samples come from; several generators draw for one entry each of the first axis."""


def _shares(noise: Tensor, stream: Stream) -> Iterable[tuple[Tensor, torch.Generator | None]]:
    """What each generator is to fill: one that draws for some gives them what it would give them alone."""
    if stream is None or isinstance(stream, torch.Generator):
        return [(noise, stream)]
    return zip(noise, stream, strict=True)


def _normal(like: Tensor, stream: Stream) -> Tensor:
    """Standard normal noise."""
    noise = torch.empty_like(like)
    for share, generator in _shares(noise, stream):
        share.normal_(generator=generator)
    return noise


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
        self.code_width = self.num_params

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

    def sample(self, logits: Tensor, stream: Stream, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Draws by an exponential race, as `torch.multinomial` without its sync; returns (action, log_prob (...))."""
        log_probs = self.log_probs(logits, mask)
        index = self._race(log_probs, stream).argmax(-1, keepdim=True)
        return self._shape(index), log_probs.gather(-1, index).sum((-1, -2))

    def mode(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """The most probable actions."""
        return self._shape(self.log_probs(logits, mask).argmax(-1, keepdim=True))

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy (nats, summed over the K categoricals), both (...), of stored actions."""
        log_probs = self.log_probs(logits, mask)
        entropy = -(log_probs.exp() * log_probs).sum((-1, -2))
        return log_probs.gather(-1, self._index(action)).sum((-1, -2)), entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Categories are the environment's actions."""
        return action

    def relaxed(
        self, logits: Tensor, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draws codes, one-hot, whose gradients are those of a softmax of the logits and Gumbel noise.

        Source: Jang et al. 2017, "Categorical Reparameterization with Gumbel-Softmax", straight-through, temperature 1.

        Returns:
            (code (..., code_width), log_prob (...)).
        """
        log_probs = self.log_probs(logits, mask)
        soft = self._race(log_probs, generator).softmax(-1)
        index = soft.argmax(-1, keepdim=True)
        hard = torch.zeros_like(soft).scatter_(-1, index, 1.0)
        return self._flat(hard + soft - soft.detach()), log_probs.gather(-1, index).sum((-1, -2))

    def random(self, logits: Tensor, generator: torch.Generator | None, mask: Tensor | None = None) -> Tensor:
        """Codes of uniformly random legal actions, of the shape of the logits."""
        return self.relaxed(torch.zeros_like(logits), generator, mask)[0]

    def encode(self, action: Tensor) -> Tensor:
        """Codes (..., code_width) of the environment's actions."""
        index = self._index(action)
        shape = (*index.shape[:-1], max(self.sizes))
        return self._flat(torch.zeros(shape, device=action.device).scatter_(-1, index, 1.0))

    def decode(self, code: Tensor) -> Tensor:
        """The environment's actions, from codes."""
        index = torch.stack([part.argmax(-1) for part in code.split(self.sizes, -1)], -1)
        return index if self.multi else index[..., 0]

    def _race(self, log_probs: Tensor, stream: Stream) -> Tensor:
        """Log-probabilities with Gumbel noise: the largest is a sample."""
        noise = torch.empty_like(log_probs)
        for share, generator in _shares(noise, stream):
            share.exponential_(generator=generator)
        return log_probs - noise.clamp_(min=1e-20).log_()

    def _flat(self, table: Tensor) -> Tensor:
        """(..., K, n) -> (..., code_width), without what is beyond a categorical's own n."""
        return torch.cat([table[..., k, :size] for k, size in enumerate(self.sizes)], -1)

    def _index(self, action: Tensor) -> Tensor:
        return action.unsqueeze(-1) if self.multi else action[..., None, None]

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


class BoxHead(nn.Module):
    """What heads of continuous actions have in common: they act in [-1, 1] per dimension, mapped to the box."""

    low: Tensor
    high: Tensor

    def __init__(self, low: Sequence[float], high: Sequence[float]) -> None:
        """Args are the bounds of each dimension."""
        super().__init__()
        self.num_params = self.code_width = len(low)
        self.action_shape = (len(low),)
        self.action_dtype = torch.float32
        self.bounded = bool(np.isfinite([*low, *high]).all())
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)

    def random(self, params: Tensor, generator: torch.Generator | None, mask: Tensor | None = None) -> Tensor:
        """Codes of uniformly random actions, one for each row of the outputs."""
        return torch.empty_like(params[..., : self.code_width]).uniform_(-1.0, 1.0, generator=generator)

    def encode(self, action: Tensor) -> Tensor:
        """Codes (..., K) of the environment's actions."""
        return (action - self.low) * (2.0 / (self.high - self.low)) - 1.0

    def decode(self, code: Tensor) -> Tensor:
        """The environment's actions, from codes: where the box is finite they are mapped to it, and always clipped."""
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
        action = mean + self.log_std.exp() * _normal(mean, stream)
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
        action = mean + log_std.exp() * _normal(mean, stream)
        return action, self._log_prob(mean, log_std, action)

    def mode(self, params: Tensor, mask: Tensor | None) -> Tensor:
        """The mean, before the tanh."""
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
        """Squashes actions and maps them to the box."""
        return self.decode(action.tanh())

    def relaxed(
        self, params: Tensor, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draws codes (..., K) that gradients flow through; returns (code, log_prob (...))."""
        action, log_prob = self.sample(params, generator, mask)
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
        """The same action."""
        return params.tanh()

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Zeros (...), twice: what is certain has log-probability and entropy 0."""
        certain = torch.zeros_like(params[..., 0])
        return certain, certain

    def to_env(self, action: Tensor) -> Tensor:
        """Maps [-1, 1] to the box."""
        return self.decode(action)

    def relaxed(
        self, params: Tensor, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Codes (..., K) that gradients flow through, and zeros (...)."""
        return self.sample(params, generator, mask)


Head = CategoricalHead | GaussianHead | TanhGaussianHead | TanhHead
_SQUASHED = {"tanh_gaussian": TanhGaussianHead, "tanh": TanhHead}
BOX_KINDS = ("continuous", *_SQUASHED)
"""Kinds of heads for a box, as `action_spec` takes them."""


def action_spec(space: spaces.Space[Any], init_log_std: float = 0.0, box: str = "continuous") -> dict[str, Any]:
    """Describes an action space in JSON's terms, for `make_head` and for policies on disk.

    Args:
        space: Of one agent.
        init_log_std: That a Gaussian starts from.
        box: Head of continuous actions: "continuous" is a Gaussian; "tanh_gaussian" and "tanh" need a bounded box.

    Raises:
        ConfigError: There is no such head for the space.
    """
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "sizes": [int(space.n)]}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "multi_discrete", "sizes": [int(n) for n in space.nvec]}
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        if box in _SQUASHED and not space.is_bounded():
            raise ConfigError(f"action space {space} has no bounds, which a {box} policy needs")
        bounds = {"low": [float(x) for x in space.low], "high": [float(x) for x in space.high]}
        return {"kind": box, **bounds} | ({} if box in _SQUASHED else {"init_log_std": init_log_std})
    raise ConfigError(f"action space {space} has no head: expected Discrete, MultiDiscrete or a Box of one dimension")


def greedy_spec(space: spaces.Space[Any], dueling: bool = False) -> dict[str, Any]:
    """`action_spec` for learners of action values; ConfigError where actions are not Discrete."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "greedy", "sizes": [int(space.n)], "dueling": dueling}
    raise ConfigError(f"action values need Discrete actions, got {space}; choose another algorithm, such as ppo")


def spec_like(given: dict[str, Any], space: spaces.Space[Any]) -> dict[str, Any]:
    """What `given`, a policy's own, would be for a space: equal to it where the policy can act in the space."""
    if given["kind"] == "greedy" and isinstance(space, spaces.Discrete):
        return greedy_spec(space, given["dueling"])
    box = given["kind"] if given["kind"] in _SQUASHED else "continuous"
    bounded = isinstance(space, spaces.Box) and space.is_bounded()
    return action_spec(space, given.get("init_log_std", 0.0), box if bounded else "continuous")


def make_head(spec: dict[str, Any]) -> Head:
    """The head that `action_spec` or `greedy_spec` describes."""
    if spec["kind"] == "greedy":
        return GreedyHead(*spec["sizes"], dueling=spec["dueling"])
    if spec["kind"] in _SQUASHED:
        return _SQUASHED[spec["kind"]](spec["low"], spec["high"])
    if spec["kind"] == "continuous":
        return GaussianHead(spec["low"], spec["high"], spec["init_log_std"])
    return CategoricalHead(spec["sizes"], multi=spec["kind"] == "multi_discrete")
