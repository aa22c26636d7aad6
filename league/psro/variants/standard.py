"""PSRO as published: one best response to the meta-strategy per role and iteration, or one per recommendation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from league.game import Game
from league.psro.best_response_task import BestResponseTask
from league.psro.config import PSROConfig
from league.psro.context import PSROContext
from league.psro.variants.base import Work
from league.psro.variants.jpsro import jpsro_tasks
from league.solvers import MetaStrategy

__all__ = ["StandardVariant"]


class StandardVariant:
    """PSRO: one best response per role to the meta-strategy of the meta-solver.

    With the meta-solvers ce and cce it is JPSRO, see `league.psro.variants.jpsro`.

    Sources: Lanctot et al. 2017, "A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning"; for the
    meta-solvers ce and cce Marris et al. 2021, "Multi-agent training beyond zero-sum with correlated equilibrium
    meta-solvers" (JPSRO).
    """

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant of a run; variants for some games only raise ConfigError."""
        self.game: Game = game
        self.config: PSROConfig = config

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration."""
        if self.config.meta_solver in ("ce", "cce") and self.config.variant == "standard":
            return jpsro_tasks(context)
        return [BestResponseTask(context.iteration, role, 0, context.opponents) for role in self.game.roles]

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work] | None]:
        """Yield all best responses at once."""
        yield self.tasks(context)

    def meta_strategy(self, context: PSROContext, payoffs: Tensor) -> MetaStrategy:
        """Return the solution of the meta-solver for payoffs (S, N_1, ..., N_S), of `recent_policies` only if set."""
        recent = self.config.recent_policies
        if recent is None:
            return context.solve(payoffs)
        latest = payoffs[(slice(None), *[slice(-recent, None)] * (payoffs.dim() - 1))]
        return context.solve(latest).of_latest(payoffs.shape[1:])
