"""PSRO as published: one best response to the meta-strategy per role and iteration, or one per recommendation.

JPSRO has best responses to correlated equilibria. Source: Marris et al. 2021, "Multi-agent training beyond zero-sum
with correlated equilibrium meta-solvers" (arXiv 2106.09435), algorithm 1. In a coarse correlated equilibrium (cce), a
seat deviates before a profile is sampled, and has one best response to the joint distribution of the other seats. In a
correlated equilibrium (ce), a seat deviates after a policy is recommended to it. The recommendation carries information
about the other seats, so there is one best response per recommended policy, to the joint distribution given it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.game import Game, require_two_player_zero_sum
from league.psro.config import PSROConfig
from league.psro.work import BestResponseTask, PSROContext, Work
from league.solvers import MetaStrategy

SUPPORT = 1e-3
"""Smallest probability of a policy in the support of a meta-strategy; solvers leave smaller rests."""
SMALLEST_GAIN = 1e-7
"""Smallest gain of an exact response, weighted by the probability of its recommendation; smaller ones are rounding."""


class StandardVariant:
    """PSRO: one best response per role to the meta-strategy of the meta-solver; with ce and cce it is JPSRO.

    The other variants are subclasses. Source: Lanctot et al. 2017, "A Unified Game-Theoretic Approach to Multiagent
    Reinforcement Learning".
    """

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant of a run; variants for some games only raise ConfigError."""
        self.game: Game = game
        self.config: PSROConfig = config

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration."""
        if self.config.meta_solver in ("ce", "cce") and self.config.variant == "standard":
            return _jpsro_tasks(context)
        return [BestResponseTask(context.iteration, role, 0, context.opponents) for role in self.game.roles]

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work] | None]:
        """Yield the work of an iteration in batches. The loop commits a batch before it requests the next one.

        None waits for the next result of the work in other lanes, see `ComputedUpdate.lane`.
        """
        yield self.tasks(context)

    def meta_strategy(self, context: PSROContext, payoffs: Tensor) -> MetaStrategy:
        """Return the solution of the meta-solver for payoffs (S, N_1, ..., N_S), of `recent_policies` only if set."""
        recent = self.config.recent_policies
        if recent is None:
            return context.solve(payoffs)
        latest = payoffs[(slice(None), *[slice(-recent, None)] * (payoffs.dim() - 1))]
        return context.solve(latest).of_latest(payoffs.shape[1:])


class RectifiedVariant(StandardVariant):
    """PSRO-rN: one response per policy of the support, to the opponents that this policy does not lose to.

    Source: Balduzzi et al. 2019, "Open-ended learning in symmetric zero-sum games", algorithm 4.
    """

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant; raise ConfigError if the game is not two-player zero-sum with a shared population."""
        super().__init__(game, config)
        require_two_player_zero_sum(game, "rectified")
        if not game.shared:
            raise ConfigError(
                f"variant='rectified': {game.env_id}: expected one population for both seats, "
                f"got roles {', '.join(game.roles)}; share it, or use variant='standard'"
            )

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration, in the order of the policies."""
        strategy, table, (role,) = context.opponents.marginals[0], context.meta_game()[0], self.game.roles
        tasks: list[BestResponseTask] = []
        for index in (strategy > SUPPORT).nonzero().flatten().tolist():
            weights = strategy * (table[index, : len(strategy)] >= -1e-9)
            if weights.sum() > 0:
                opponents = MetaStrategy((weights / weights.sum(),) * 2)
                tasks.append(BestResponseTask(context.iteration, role, len(tasks), opponents, parent=index))
        return tasks


def _jpsro_tasks(context: PSROContext) -> list[BestResponseTask]:
    """Return the best responses to the joint meta-strategy of ce or cce, by role.

    With ce, a role has at most `max_recommendations` of them. Exact responses that gain nothing, or that are already in
    the population, are left out, so that a role may have none.
    """
    config, tasks = context.config, list[BestResponseTask]()
    for role in context.game.roles:
        if config.has_exact_responses:
            recommended = _with_gain(context, role)
        else:
            recommended = _most_probable(context, role) if config.meta_solver == "ce" else [None]
        for number, index in enumerate(recommended[: config.max_recommendations]):
            task = BestResponseTask(
                context.iteration, role, number, context.opponents, recommendation=index, parent=index
            )
            tasks.append(task)
    return tasks


def _most_probable(context: PSROContext, role: str) -> list[int]:
    """Return the recommendations in the support of the meta-strategy, the most probable first."""
    marginal = context.opponents.marginals[context.game.seats_of(role)[0]]
    order = marginal.argsort(descending=True, stable=True).tolist()
    return [order[0], *(index for index in order[1:] if float(marginal[index]) > SUPPORT)]


def _with_gain(context: PSROContext, role: str) -> list[int | None]:
    """Return the recommendations with new responses that gain, the largest gain first; with cce, None stands for all.

    Only policies from before this iteration count as known, so that a resumed run finds the same recommendations.
    """
    tabular, joint, seats = context.require_tabular(), context.opponents.joint, context.game.seats_of(role)
    assert joint is not None
    tables = tabular.tabulate_all(context.populations)
    responses = [[tables[seat][index] for seat in seats] for index in range(joint.shape[seats[0]])]
    recommended = context.config.meta_solver == "ce"
    by_seat = [tabular.deviation_gains(context.populations, joint, seat, recommended) for seat in seats]
    gains = {index: sum(gain_of[index].gain for gain_of in by_seat) for index in by_seat[0]}
    chosen: list[int | None] = []
    for index in sorted(gains, key=lambda index: -gains[index]):
        response = [gain_of[index].table for gain_of in by_seat]
        is_known = any(all(map(torch.equal, response, earlier)) for earlier in responses)
        if gains[index] > SMALLEST_GAIN and not is_known:
            chosen.append(index)
            responses.append(response)
    return chosen
