"""Whom the next best responses respond to: PSRO and PSRO-rN, and what other variants are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from gpu_envs.errors import ConfigError
from league.game import Game
from league.solvers import MetaStrategy

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


@dataclass(frozen=True)
class Task:
    """One best response that an iteration needs."""

    iteration: int
    """That needs it."""
    role: str
    """Population that it joins."""
    place: int
    """Among those of the role in this iteration."""
    target: Target
    """Whom it is to beat."""

    @property
    def name(self) -> str:
        """Of its step in the store."""
        return f"{self.iteration}/respond/{self.role}/{self.place}"


class Whole:
    """PSRO: a response per role, to the meta-strategy, which is the meta-solver's."""

    def __init__(self, psro: PSRO) -> None:
        """ConfigError where the variant cannot take the game."""
        self.psro = psro

    def respond(self, number: int) -> None:
        """All responses of an iteration, unless they are there already."""
        for role in self.psro.roles:
            for place, target in enumerate(self.targets(role)):
                self.psro.respond(Task(number, role, place, target))

    def targets(self, role: str) -> list[Target]:
        """Of the responses of a role."""
        strategy = self.strategy
        return [Target(strategy.marginals, strategy.joint)]

    def solve(self, number: int, meta_game: Tensor) -> MetaStrategy:
        """The meta-strategy of the policies so far, see `PSRO.solve`."""
        return self.psro.solve(meta_game)

    @property
    def strategy(self) -> MetaStrategy:
        """The one of the iteration before."""
        assert self.psro.strategy is not None
        return self.psro.strategy


class Rectified(Whole):
    """PSRO-rN: a response per policy that is met, to those of the others that it does not lose to.

    Source: Balduzzi et al. 2019, "Open-ended learning in symmetric zero-sum games", algorithm 4.
    """

    def __init__(self, psro: PSRO) -> None:
        """ConfigError where the game is not symmetric and of two seats that sum to 0."""
        super().__init__(psro)
        one_sum(psro.game, "rectified")
        if not psro.game.shared:
            raise ConfigError(
                f"variant = 'rectified': {psro.game.env_id}: expected one population for both seats, "
                f"got roles {', '.join(psro.game.roles)}; share it, or use 'psro'"
            )

    def targets(self, role: str) -> list[Target]:
        """In the order of the policies."""
        own = self.strategy.marginals[0]
        table = self.psro.meta_game[0]
        found = []
        for index in (own > SUPPORT).nonzero().flatten().tolist():
            weights = own * (table[index, : len(own)] >= -1e-9)
            if weights.sum() > 0:
                found.append(Target((weights / weights.sum(),) * 2, parent=index))
        return found


def one_sum(game: Game, variant: str) -> None:
    """ConfigError where a game is not of two seats that sum to 0."""
    if len(game.seats) != 2 or not game.zero_sum:
        raise ConfigError(f"variant = {variant!r}: {game.env_id} is no game of two seats that sums to 0; use 'psro'")
