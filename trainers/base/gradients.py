"""Gradient steps and minibatches of one process, and the interface that distributed training overrides."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError, shown
from trainers.base.optimizers import step_where
from trainers.base.state import parameters_of

LAST_KEY = 2**62  # sort key after all random ones


class MinibatchSampler:
    """Shuffle the rows, or sequences, of a batch and split them into minibatches."""

    num_decisions: int
    """Number of decisions to learn from, equal on all ranks; with fixed shapes, an upper bound."""
    max_minibatches: int
    """Largest number of minibatches that the batch can be split into."""
    divisor: Tensor | float | None = None
    """Divisor of losses on the whole batch, see `trainers.models.normalization.masked_mean`."""
    active: Tensor | None = None
    """With fixed shapes: whether the batch holds a decision to learn from, a scalar bool on the device."""

    def __init__(self, batch: dict[str, Tensor], reducer: GradientReducer, fixed_shapes: bool = False) -> None:
        """Count the rows of `batch`, tensors (B, ...); ranks agree on the smallest count.

        With `fixed_shapes` nothing is read from the device: minibatches keep the rows without decisions, see "valid".
        """
        self.size: int
        self.device: torch.device
        valid, self.size, self.device = batch.get("valid"), batch["obs"].shape[0], batch["obs"].device
        self._valid: Tensor | None = None
        if fixed_shapes:
            assert valid is not None
            self._valid, self.active = valid.flatten(1).any(1) if valid.dim() > 1 else valid, valid.any()
            self.num_decisions = self.max_minibatches = self.size
            return
        self.num_decisions = reducer.all_reduce_min(self.size if valid is None else int(valid.sum()))
        self.max_minibatches = reducer.all_reduce_min(self.size)

    def minibatches(self, number: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor | float | None]]:
        """Return `number` random minibatches, each as its rows (B,) and the divisor of losses on them."""
        if self._valid is None:
            order = torch.randperm(self.size, generator=generator, device=self.device)
            return [(rows, None) for rows in order.tensor_split(number)]
        # `randperm` of few rows on a GPU uses the host. Rows without decisions come last, so all minibatches get
        # the same number of rows with one.
        keys = torch.randint(LAST_KEY, (self.size,), generator=generator, device=self.device)
        order = keys.masked_fill(~self._valid, LAST_KEY).argsort()
        return [(order[first::number], None) for first in range(number)]


class GradientReducer:
    """Take gradient steps, and combine gradients and statistics of all processes (ranks) that train one policy.

    This class serves a single process. `trainers.distributed.sharded_reducer` has subclasses for several ranks, and
    `trainers.integrations.lightning` one for Lightning. Ranks keep equal weights as long as they take the same
    gradient steps. Use `mean` for every value that decides about a gradient step.
    """

    can_capture: bool = True
    """Whether gradient steps can be part of a CUDA graph."""

    def step(
        self,
        optimizer: torch.optim.Optimizer,
        loss: Tensor | None,
        max_norm: float | None = None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Take one gradient step on all parameters of an optimizer.

        Args:
            optimizer: One of the learner's `optimizers`.
            loss: Scalar; None: the gradients are in the parameters already.
            max_norm: Largest global norm of the gradient, applied after averaging over ranks; None: no clipping.
            active: Flag on the device, a scalar bool: take the step only if it is set. None: take the step.

        Returns:
            The gradient's norm before clipping, a scalar.
        """
        if loss is not None:
            optimizer.zero_grad(set_to_none=True)
            self._backward(loss)
        parameters = list(parameters_of(optimizer))
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        self._all_reduce(gradients)
        norm = nn.utils.get_total_norm(gradients)
        if max_norm is not None:
            nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
        if active is None:
            optimizer.step()
        else:
            step_where(optimizer, active)
        return norm

    _backward: Callable[[Tensor], None] = staticmethod(Tensor.backward)
    """Compute the gradients of a scalar loss."""

    def _all_reduce(self, gradients: list[Tensor]) -> None:
        """Replace gradients of any shapes by their means over all ranks, in place."""

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over ranks, of the shape of `values`; for statistics that all ranks share."""
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over ranks, of the shape of `values`; for decisions about gradient steps."""
        return values

    def all_reduce_min(self, count: int) -> int:
        """Return the smallest count of all ranks; for numbers of rows, which differ between ranks."""
        return count

    def divisor(self, valid: Tensor) -> Tensor | None:
        """Return the divisor of losses on a minibatch, see `masked_mean`; None: the minibatch's own count.

        Args:
            valid: (...) bool, the rows of this rank that count.
        """
        return None

    def minibatch_sampler(
        self, batch: dict[str, Tensor], length: int, rows_per_step: int, fixed_shapes: bool = False
    ) -> MinibatchSampler:
        """Return the sampler of minibatches from a batch, tensors (B, ...).

        Args:
            batch: Decisions of a rollout; "rows" (B,) are their indices among the rollout's rows.
            length: Steps of the rollout, T.
            rows_per_step: Rows of this rank per step, E * n.
            fixed_shapes: Read nothing from the device; a single process only.
        """
        return MinibatchSampler(batch, self, fixed_shapes)

    def normalize(self, values: Tensor, valid: Tensor | None = None, ratio: Tensor | None = None) -> Tensor:
        """Return values scaled to mean 0 and standard deviation 1.

        Args:
            values: (N,) values.
            valid: (N,) bool, values to scale by; None: all.
            ratio: (N,) importance ratios that are factors of `values`. A mean is subtracted with the same factor:
                otherwise it would move a policy relative to the one that sampled.
        """
        if ratio is not None:
            mean = self._moments(values, valid)[0] / self._moments(ratio, valid)[0].clamp(min=1e-8)
            values = values - ratio * mean
        mean, _, deviation = self._moments(values, valid)
        return (values - mean) / (deviation + 1e-8)

    def variance(self, values: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the variance, a scalar, of the values (N,) with `valid` (N,) bool; None: all."""
        return self._moments(values, valid)[1]

    def _moments(self, values: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean, variance and standard deviation of the valid values (N,)."""
        if values.numel() == 0:
            return values.sum(), values.sum(), values.sum()
        if valid is None:
            return values.mean(), values.var(correction=0), values.std(correction=0)
        count = valid.sum().clamp(min=1)
        mean = values.masked_fill(~valid, 0.0).sum() / count
        variance = (values - mean).masked_fill(~valid, 0.0).square().sum() / count
        return mean, variance, variance.sqrt()

    def gather_in_step_order(self, places: Tensor, values: Tensor) -> Tensor:
        """Return the values (N, ...) of all ranks, ordered by step and world.

        Args:
            places: (N,) flat indices among the rollout's T * E steps of worlds.
            values: (N, ...) values at these places.
        """
        return values


LOCAL_REDUCER = GradientReducer()
"""Reducer of a single process."""


Schedule = Callable[[float, float, float], float]
"""Function (start, end, progress) -> value between `start` (progress 0) and `end` (progress 1 and beyond)."""


def linear_schedule(start: float, end: float, progress: float) -> float:
    """Return the value between `start` (progress 0) and `end` (progress 1 and beyond)."""
    return start + min(progress, 1.0) * (end - start)


def find_schedule(setting: str, name: str) -> Schedule:
    """Return the schedule "linear", or by "module:NAME" one along a function of a module that is imported already.

    The function maps progress in [0, 1] to the share of the way from the start to the end, linear: progress itself.

    Args:
        setting: Name of the setting, for messages.
        name: Name of the schedule.

    Raises:
        ConfigError: The name is no function of progress, or the function does not return finite numbers.
    """
    if name == "linear":
        return linear_schedule
    share = named_object(setting, name, ["progress"])
    for progress in (0.0, 0.5, 1.0):
        value = share(progress)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ConfigError(f"{setting} {name!r}: expected a finite number, got {shown(value)}")
    return lambda start, end, progress: start + float(share(min(progress, 1.0))) * (end - start)
