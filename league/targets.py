"""Whom the next best responses respond to: the variants of PSRO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from gpu_envs.errors import ConfigError
from league.game import Game

if TYPE_CHECKING:
    from league.psro import PSRO

SUPPORT = 1e-3
"""Policies that are met less often have no part in a meta-strategy: what solvers leave of those that they drop."""


@dataclass(frozen=True)
class Target:
    """Opponents of one response."""

    marginals: tuple[Tensor, ...]
    """(N_s,) per seat; that of a seat that learns is not looked at."""
    joint: Tensor | None = None
    """(N_1, ..., N_S) where the others are drawn together."""
    parent: int | None = None
    """The policy that learning begins with; None: the last of the role."""


def whole(psro: PSRO, role: str) -> list[Target]:
    """One response per role, to the meta-strategy."""
    assert psro.strategy is not None
    return [Target(psro.strategy.marginals, psro.strategy.joint)]


def rectified(psro: PSRO, role: str) -> list[Target]:
    """A response per policy that is met, to those of the others that it does not lose to.

    Source: Balduzzi et al. 2019, "Open-ended learning in symmetric zero-sum games", algorithm 4 (PSRO-rN). Not to lose
    is to earn at least what the seat's meta-strategy earns; in the symmetric games of the paper that is 0.
    """
    assert psro.strategy is not None
    (seat, *_), marginals = psro.game.seats_of(role), psro.strategy.marginals
    own, theirs = marginals[seat], marginals[1 - seat]
    table = psro.meta_game[seat]
    table = table if seat == 0 else table.T
    value = own @ table @ theirs
    targets = []
    for index in (own > SUPPORT).nonzero().flatten().tolist():
        weights = theirs * (table[index] >= value - 1e-9)
        if weights.sum() > 0:
            against = list(marginals)
            against[1 - seat] = weights / weights.sum()
            targets.append(Target(tuple(against), parent=index))
    return targets


def _of_any(game: Game) -> Callable[[PSRO, str], list[Target]]:
    return whole


def _of_two(game: Game) -> Callable[[PSRO, str], list[Target]]:
    if len(game.seats) != 2 or not game.zero_sum:
        raise ConfigError(f"variant = 'rectified': {game.env_id} is no game of two seats that sums to 0; use 'psro'")
    return rectified


VARIANTS: dict[str, Callable[[Game], Callable[[PSRO, str], list[Target]]]] = {"psro": _of_any, "rectified": _of_two}
"""By name: who names the targets of a game, ConfigError where it cannot."""
