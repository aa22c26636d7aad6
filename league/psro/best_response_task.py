"""Tasks of PSRO: the best responses that an iteration computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from league.game import Game
from league.rollout.best_response import BestResponse
from league.rollout.matchup_distribution import MatchupDistribution
from league.solvers import MetaStrategy

__all__ = ["BestResponseTask"]


@dataclass(frozen=True)
class BestResponseTask:
    """One best response of an iteration."""

    iteration: int
    """Iteration that computes it."""
    role: str
    """Role whose population it joins."""
    number: int
    """Number among the responses of the role in this iteration."""
    opponents: MetaStrategy
    """Meta-strategy to respond to. The marginal of the learning seat is ignored."""
    recommendation: int | None = None
    """Index of the policy recommended to the learning seat: the response is to the joint distribution of the other
    seats conditional on it. None: to the meta-strategy of the other seats."""
    parent: int | None = None
    """Index of the policy from which training starts; None: the latest learned policy of the role."""
    function: Callable[..., BestResponse] | None = None
    """Function that computes it; None: the default of the oracle.

    A learned response is `function(policies, game=, role=, draw=, train=, start=, seed=, progress=, **arguments)` and
    may run in another process, or with `sharded=True` in several. An exact one is `function(context, task,
    **arguments)`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the function."""

    @property
    def name(self) -> str:
        """Name of its step in the store."""
        return f"{self.iteration}/respond/{self.role}/{self.number}"

    def matchups(self, game: Game) -> MatchupDistribution:
        """Return the distribution of its training episodes over matchups."""
        joint = self.opponents.joint
        marginals = self.opponents.marginals if joint is None else None
        return MatchupDistribution.against(game, self.role, marginals, joint=joint, recommendation=self.recommendation)
