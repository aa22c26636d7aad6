"""What every meta-solver shares: its answer, checks of payoffs, and expectations over profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError, described


@dataclass(frozen=True)
class MetaStrategy:
    """How often each policy of a population is played, seat by seat."""

    marginals: tuple[Tensor, ...]
    """One distribution (N_s,) float64 per seat."""
    joint: Tensor | None = None
    """Distribution over profiles (N_1, ..., N_S) float64 where seats are correlated; None: their product."""

    def distribution(self) -> Tensor:
        """Probability of every profile, (N_1, ..., N_S)."""
        return product(self.marginals) if self.joint is None else self.joint


def of_joint(joint: Tensor) -> MetaStrategy:
    """A correlated meta-strategy (N_1, ..., N_S) with its marginals."""
    seats = range(joint.dim())
    return MetaStrategy(
        tuple(joint.sum([t for t in seats if t != s]) if len(seats) > 1 else joint for s in seats), joint
    )


def checked(payoffs: Tensor) -> Tensor:
    """Payoffs in float64.

    Args:
        payoffs: (S, N_1, ..., N_S): what seat s earns at [s] where policy i_t sits on seat t.

    Raises:
        ConfigError: Another shape, an empty population, NaN or infinity.
    """
    if not isinstance(payoffs, Tensor) or payoffs.is_complex():
        raise ConfigError(f"payoffs: expected a real tensor (S, N_1, ..., N_S), got {described(payoffs)}")
    if payoffs.dim() < 2 or payoffs.shape[0] != payoffs.dim() - 1:
        raise ConfigError(
            f"payoffs: expected one axis of seats and then one per seat, (S, N_1, ..., N_S), got {tuple(payoffs.shape)}"
        )
    if payoffs.numel() == 0:
        raise ConfigError(f"payoffs: expected at least one policy per seat, got {tuple(payoffs.shape)}")
    bad = int((~payoffs.isfinite()).sum())
    if bad:
        raise ConfigError(f"payoffs: {bad} of {payoffs.numel()} are NaN or infinite; simulate the missing cells first")
    return payoffs.detach().to(torch.float64)


def two_seats(payoffs: Tensor, solver: str, instead: str) -> None:
    """ConfigError where payoffs (S, N_1, ..., N_S) are not of two seats."""
    if payoffs.shape[0] != 2:
        raise ConfigError(f"{solver}: expected two seats, got {payoffs.shape[0]}; {instead} take any number")


def zero_sum(payoffs: Tensor, solver: str, instead: str) -> Tensor:
    """What the first seat earns beyond its half of the sum, (N_1, N_2); the other earns the negative.

    Raises:
        ConfigError: There are not two seats, or the sum of their payoffs is not the same in every cell.
    """
    two_seats(payoffs, solver, instead)
    total = payoffs.sum(0)
    spread = float(total.max() - total.min())
    if spread > 1e-6 * max(1.0, float(payoffs.abs().max())):  # rewards are float32
        raise ConfigError(
            f"{solver}: expected a zero-sum game, but the sum of the seats' payoffs varies by {spread:.3g}; "
            f"{instead} take any game"
        )
    return (payoffs[0] - payoffs[1]) / 2


def product(marginals: Sequence[Tensor]) -> Tensor:
    """Probability of every profile where seats draw independently, (N_1, ..., N_S)."""
    joint = marginals[0]
    for marginal in marginals[1:]:
        joint = joint[..., None] * marginal
    return joint


def deviations(payoffs: Tensor, marginals: Sequence[Tensor]) -> list[Tensor]:
    """What each policy earns on its seat against the others' meta-strategies: one (N_s,) per seat."""
    values = []
    for seat, own in enumerate(payoffs):
        for other in reversed(range(len(marginals))):  # from the last axis, so that earlier ones keep their place
            if other != seat:
                own = own.movedim(other, -1) @ marginals[other]
        values.append(own)
    return values


def nash_gap(payoffs: Tensor, strategy: MetaStrategy) -> float:
    """NashConv within the meta-game, (S, N_1, ..., N_S): what all gain by their best policies against the marginals."""
    values = deviations(payoffs, strategy.marginals)
    return sum(float(value.max() - value @ own) for value, own in zip(values, strategy.marginals, strict=True))


def uniform(payoffs: Tensor) -> MetaStrategy:
    """Every policy equally often. Any number of seats."""
    return MetaStrategy(tuple(payoffs.new_full((size,), 1 / size) for size in payoffs.shape[1:]))


def positive(solver: str, **settings: float) -> None:
    """ConfigError where a setting is not above 0."""
    for name, value in settings.items():
        if not value > 0:
            raise ConfigError(f"{solver}: {name} = {value}: expected more than 0")


def normalised(weights: Tensor) -> Tensor:
    """A distribution of weights (N,), or of any shape, that may be negative by rounding."""
    weights = weights.clamp(min=0)
    return weights / weights.sum()
