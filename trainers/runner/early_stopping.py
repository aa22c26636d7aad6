"""Early stopping without progress, and the check that metrics and networks are finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from gpu_envs.errors import GpuEnvsError


class DivergedError(GpuEnvsError, RuntimeError):
    """Losses, gradients or parameters are no longer finite."""


@dataclass
class EarlyStopping:
    """Count evaluations without a new best score."""

    patience: int
    """Number of evaluations without a new best score that ends the training; 0: never."""
    best_score: float = -math.inf
    """Highest score so far."""
    evaluations_since_best: int = 0
    """Number of evaluations since the best score."""

    def update(self, score: float) -> None:
        """Record the score of an evaluation; higher is better."""
        self.best_score, self.evaluations_since_best = (
            (score, 0) if score > self.best_score else (self.best_score, self.evaluations_since_best + 1)
        )

    @property
    def should_stop(self) -> bool:
        """Whether the training should stop."""
        return 0 < self.patience <= self.evaluations_since_best


def float_tensors(net: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the parameters and statistics of a network, of all shapes, by name."""
    return [(name, tensor) for name, tensor in net.state_dict().items() if tensor.is_floating_point()]


def largest_magnitude(net: nn.Module) -> Tensor:
    """Return the largest magnitude in a network, a scalar on its device; not finite if any value is not."""
    return nn.utils.get_total_norm([tensor for _, tensor in float_tensors(net)], math.inf).float()


def check_finite_training(
    iteration: int,
    metrics: Mapping[str, float],
    nets: Mapping[str, nn.Module],
    magnitudes: Sequence[float],
    last_saved: Callable[[], str],
) -> None:
    """Raise an error if a training has diverged, before its checkpoints are replaced.

    Args:
        iteration: Number of the completed iteration.
        metrics: Metrics; those that end in "loss" or "grad_norm" must be finite.
        nets: Networks of the learners, by policy.
        magnitudes: Largest magnitude of each network, see `largest_magnitude`.
        last_saved: Returns a description of the last saved state, for the message.

    Raises:
        DivergedError: Names the iteration, the metric, the first parameter that is not finite and the last checkpoint.
    """
    guarded = {name: value for name, value in metrics.items() if name.endswith(("loss", "grad_norm"))}
    bad = [f"{name} is {value}" for name, value in guarded.items() if not math.isfinite(value)]
    broken = [
        f"{policy}/{name}"
        for (policy, net), magnitude in zip(nets.items(), magnitudes, strict=True)
        if not math.isfinite(magnitude)
        for name, tensor in float_tensors(net)
        if not bool(tensor.isfinite().all())
    ]
    if not bad and not broken:
        return
    problem = bad[0] if bad else f"{broken[0]} is not finite"
    first = f" (the first parameter that is not finite: {broken[0]})" if bad and broken else ""
    raise DivergedError(
        f"iteration {iteration}: {problem}: the training has diverged, or the environment returned values that are "
        f"not finite{first}; {last_saved()}. Try a lower learner.learning_rate or learner.reward_scale"
    )
