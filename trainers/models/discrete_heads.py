"""Heads of discrete actions: categoricals, and the best of several values. See `trainers.heads`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainers.streams import Stream, exponential

ILLEGAL = -1e9  # logit of a masked action: exp() of it is 0, while 0 * ILLEGAL stays finite in the entropy


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
        """The most probable actions, of the shape that `sample` gives."""
        return self._shape(self.log_probs(logits, mask).argmax(-1, keepdim=True))

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy (nats, summed over the K categoricals), both (...), of stored actions."""
        log_probs = self.log_probs(logits, mask)
        entropy = -(log_probs.exp() * log_probs).sum((-1, -2))
        return log_probs.gather(-1, self._index(action)).sum((-1, -2)), entropy

    def to_env(self, action: Tensor) -> Tensor:
        """Categories are the environment's actions, of the same shape."""
        return action

    def relaxed(self, logits: Tensor, stream: Stream, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Draws codes, one-hot, whose gradients are those of a softmax of the logits and Gumbel noise.

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
        """Codes of uniformly random legal actions, of the shape of the logits."""
        return self.relaxed(torch.zeros_like(logits), stream, mask)[0]

    def encode(self, action: Tensor) -> Tensor:
        """Codes (..., code_width) of the environment's actions."""
        index = self._index(action)
        shape = (*index.shape[:-1], max(self.sizes))
        return self._flat(torch.zeros(shape, device=action.device).scatter_(-1, index, 1.0))

    def decode(self, code: Tensor) -> Tensor:
        """The environment's actions, (...) or (..., K), from codes (..., `code_width`)."""
        index = torch.stack([part.argmax(-1) for part in code.split(self.sizes, -1)], -1)
        return index if self.multi else index[..., 0]

    def _race(self, log_probs: Tensor, stream: Stream) -> Tensor:
        """Log-probabilities with Gumbel noise: the largest is a sample."""
        return log_probs - exponential(log_probs, stream).clamp_(min=1e-20).log_()

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
