"""Action heads of discrete spaces: categorical, and greedy in action values. See `trainers.models.action_heads`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trainers.base.random_streams import Stream, exponential

__all__ = ["ILLEGAL", "CategoricalHead", "GreedyHead", "legal"]

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
