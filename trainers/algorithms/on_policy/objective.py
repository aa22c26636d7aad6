"""Objectives of on-policy learners: a loss in PyTorch, and optionally the same loss for the kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from trainers.models.normalization import masked_mean
from trainers.models.overrides import override_of
from warp_kernels.networks.losses import KernelHead


@dataclass(frozen=True)
class Minibatch:
    """What a loss reads: B decisions, or B sequences of T steps (B, T) with a recurrent network."""

    log_prob: Tensor  # (B,) log-probability of the stored action under the present policy
    entropy: Tensor  # (B,) entropy of the present policy [nats]
    params: Tensor  # (B, P) parameters of its distribution over actions, such as logits
    value: Tensor  # (B,) prediction of the critic
    old_log_prob: Tensor  # (B,) log-probability when the action was sampled; APPO: under the target policy
    old_value: Tensor  # (B,) prediction before the update
    advantage: Tensor  # (B,)
    returns: Tensor  # (B,) target of the critic
    settings: Mapping[str, Any]  # `Objective.settings` by name: numbers, scalars on the device, or None
    kl: Mapping[str, Tensor] = field(default_factory=dict)  # (B,) KL(present || reference) of learner.references [nats]
    valid: Tensor | None = None  # (B,) bool, rows that count; None: all
    divisor: Tensor | float | None = None  # of sums over the rows, see `masked_mean`

    @property
    def log_ratio(self) -> Tensor:
        """(B,) logarithm of the probability ratio of the present policy to the old one; 0 in rows that do not count."""
        log_ratio = self.log_prob - self.old_log_prob
        # a ratio that overflows would turn the gradients of all rows to NaN
        return log_ratio if self.valid is None else log_ratio.masked_fill(~self.valid, 0.0)

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values (B,) over the rows that count, a scalar."""
        return masked_mean(values, self.valid, self.divisor)


class Objective(ABC):
    """Loss of an on-policy learner, its attribute `objective`.

    Kernels compute an objective if its own class declares `kernel_head`: a subclass may have changed the loss.
    """

    settings: tuple[str, ...] = ()
    """Names of the settings that the loss reads, attributes of the learner or of its configuration."""
    kernel_head: KernelHead | None = None
    """Derivatives and metrics of the loss for one row in kernels; None: PyTorch trains the learner."""

    @abstractmethod
    def loss(self, batch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch, a scalar with a gradient, and metrics by name, scalars."""

    @property
    def reason_for_torch(self) -> str:
        """Why kernels do not compute this objective; an empty string if they do."""
        base = next((cls for cls in type(self).__mro__ if vars(cls).get("kernel_head")), Objective)
        if base is type(self) and self.kernel_head and not vars(self):
            return ""
        changed = override_of(self, base, ("loss", "settings", "kernel_head"))
        return f"kernels compute {changed or f'{base.__name__}, not {type(self).__name__}'}"
