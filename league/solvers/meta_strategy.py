"""The result of meta-solvers, checks of payoffs, and expectations over profiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.errors import ConfigError, describe_tensor, shown


@dataclass(frozen=True)
class MetaStrategy:
    """Probabilities of the policies of each seat."""

    marginals: tuple[Tensor, ...]
    """Distribution (N_s,) float64 of each seat."""
    joint: Tensor | None = None
    """Distribution over profiles (N_1, ..., N_S) float64 of correlated seats; None: product of the marginals."""

    def distribution(self) -> Tensor:
        """Return the probability of every profile (N_1, ..., N_S)."""
        return product(self.marginals) if self.joint is None else self.joint

    def of_latest(self, sizes: Sequence[int]) -> MetaStrategy:
        """Return the meta-strategy of populations of these sizes whose earlier policies have probability 0."""
        missing = [size - len(marginal) for size, marginal in zip(sizes, self.marginals, strict=True)]
        padding = [count for number in reversed(missing) for count in (number, 0)]  # the last axis comes first
        joint = None if self.joint is None else pad(self.joint, padding)
        return MetaStrategy(
            tuple(pad(marginal, (number, 0)) for marginal, number in zip(self.marginals, missing, strict=True)), joint
        )


def of_joint(joint: Tensor) -> MetaStrategy:
    """Return the meta-strategy of a joint distribution (N_1, ..., N_S), with its marginals."""
    seats = range(joint.dim())
    return MetaStrategy(
        tuple(joint.sum([t for t in seats if t != s]) if len(seats) > 1 else joint for s in seats), joint
    )


def checked(payoffs: Tensor) -> Tensor:
    """Return payoffs (S, N_1, ..., N_S) in float64.

    Raises:
        ConfigError: Payoffs have another shape, an empty population, NaN or infinity.
    """
    if not isinstance(payoffs, Tensor) or payoffs.is_complex():
        raise ConfigError(f"payoffs: expected a real tensor (S, N_1, ..., N_S), got {describe_tensor(payoffs)}")
    if payoffs.dim() < 2 or payoffs.shape[0] != payoffs.dim() - 1:
        raise ConfigError(
            f"payoffs: expected one axis of seats and then one per seat, (S, N_1, ..., N_S), got {tuple(payoffs.shape)}"
        )
    if payoffs.numel() == 0:
        raise ConfigError(f"payoffs: expected at least one policy per seat, got {tuple(payoffs.shape)}")
    bad = int((~payoffs.isfinite()).sum())
    if bad:
        raise ConfigError(
            f"payoffs: expected finite numbers, got {bad} of {payoffs.numel()} NaN or infinite; "
            "simulate the missing cells"
        )
    return payoffs.detach().to(torch.float64)


def checked_strategy(solver: str, strategy: Any, payoffs: Tensor) -> MetaStrategy:
    """Return the result of a solver, a meta-strategy or one distribution per seat, as a meta-strategy in float64.

    Raises:
        ConfigError: A distribution has another shape, negative numbers or another sum than 1.
    """
    joint, sizes = getattr(strategy, "joint", None), tuple(payoffs.shape[1:])
    try:
        rows = [torch.as_tensor(row).to(payoffs) for row in getattr(strategy, "marginals", strategy)]
    except (TypeError, ValueError, RuntimeError):
        rows = []
    if len(rows) != len(sizes):
        raise ConfigError(
            f"{solver}: expected a MetaStrategy or a list of {len(sizes)} distributions, one per seat, got "
            f"{shown(strategy)}"
        )
    parts: list[tuple[str, Tensor, tuple[int, ...]]] = [
        (f"seat {seat}", row, (size,)) for seat, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]
    if joint is not None:
        joint = torch.as_tensor(joint).to(payoffs)
        parts.append(("joint", joint, sizes))
    for name, part, shape in parts:
        if part.shape != shape or not bool((part >= 0).all()) or abs(float(part.sum()) - 1) > 1e-6:
            raise ConfigError(
                f"{solver}: {name}: expected probabilities of shape {shape} that sum to 1, got {shown(part.tolist())}"
            )
    return MetaStrategy(tuple(rows), joint)


def zero_sum(payoffs: Tensor, solver: str, instead: str) -> Tensor:
    """Return the payoffs of the first seat (N_1, N_2), shifted so that the payoffs of the second are their negatives.

    Raises:
        ConfigError: There are not two seats, or the sum of their payoffs is not constant.
    """
    if payoffs.shape[0] != 2:
        raise ConfigError(f"{solver}: expected two seats, got {payoffs.shape[0]}; {instead} take any number")
    total = payoffs.sum(0)
    spread = float(total.max() - total.min())
    if spread > 1e-6 * max(1.0, float(payoffs.abs().max())):  # rewards are float32
        raise ConfigError(
            f"{solver}: expected a zero-sum game, but the sum of the seats' payoffs varies by {spread:.3g}; "
            f"{instead} take any game"
        )
    return (payoffs[0] - payoffs[1]) / 2


def product(marginals: Sequence[Tensor]) -> Tensor:
    """Return the probability of every profile (N_1, ..., N_S) with independent seats."""
    joint = marginals[0]
    for marginal in marginals[1:]:
        joint = joint[..., None] * marginal
    return joint


def deviations(payoffs: Tensor, marginals: Sequence[Tensor]) -> list[Tensor]:
    """Return the expected payoff of each policy against the other marginals: (N_s,) per seat."""
    values = []
    for seat, table in enumerate(payoffs):
        for other in reversed(range(len(marginals))):  # from the last axis, so that earlier ones keep their index
            if other != seat:
                table = table.movedim(other, -1) @ marginals[other]
        values.append(table)
    return values


def nash_gap(payoffs: Tensor, strategy: MetaStrategy) -> float:
    """Return NashConv of the marginals within the meta-game (S, N_1, ..., N_S)."""
    values = deviations(payoffs, strategy.marginals)
    return sum(
        float(value.max() - value @ marginal) for value, marginal in zip(values, strategy.marginals, strict=True)
    )


def uniform(payoffs: Tensor) -> MetaStrategy:
    """Return uniform marginals, for any number of seats."""
    return MetaStrategy(tuple(payoffs.new_full((size,), 1 / size) for size in payoffs.shape[1:]))


def positive(solver: str, **settings: float) -> None:
    """Raise ConfigError if a setting is not above 0."""
    for name, value in settings.items():
        if not value > 0:
            raise ConfigError(f"{solver}: {name}: expected a number above 0, got {value}")


def normalized(weights: Tensor) -> Tensor:
    """Return weights of any shape as a distribution; weights can be negative by rounding."""
    weights = weights.clamp(min=0)
    return weights / weights.sum()
