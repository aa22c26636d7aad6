"""SP-PSRO: with every best response, a population gets a mixed strategy that is learned in self-play.

Source: McAleer et al. 2022, "Self-Play PSRO: Toward Optimal Populations in Two-Player Zero-Sum Games" (arXiv
2207.06541). While the response of one role learns, a new policy of another role learns against it, and the response is
trained against this policy and the populations. The time average of the new policy is a mixed strategy, and joins its
population. The paper weights the new policy by no-regret learning. Here it is the opponent in half of all episodes and
in few episodes of the last segment, so that the response is one to the meta-strategy. With exact responses, the
meta-strategy of a two-player zero-sum game is the paper's, the least exploitable mixture of anytime PSRO, unless
another meta-solver is selected.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.utils.progress import Progress
from league.evaluation.tabular_game import TabularGame
from league.game import Game, is_two_player_zero_sum
from league.matchups.best_response import BestResponse, BestResponseTraining, LearnedResponse, progress_text
from league.matchups.data_parallel import joined_shard
from league.matchups.matchup_distribution import MatchupDistribution
from league.policies.mixture import MixturePolicy
from league.psro.config import PSROConfig
from league.psro.variants.least_exploitable import LeastExploitable
from league.psro.variants.standard import StandardVariant
from league.psro.work import BestResponseTask, PSROContext
from league.solvers import MetaStrategy
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol
from trainers.runner.initial_weights import Start

SELF_PLAY, AT_LAST = 0.5, 0.1
"""Shares of a response's episodes against the new policy: in all segments but the last, and in the last."""


class SelfPlayVariant(StandardVariant):
    """SP-PSRO: two policies per role and iteration, its best response and the average of another role's opponent."""

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant."""
        super().__init__(game, config)
        exact = config.has_exact_responses and config.meta_solver == "auto"
        self.least_exploitable: LeastExploitable | None = (
            LeastExploitable(game) if exact and is_two_player_zero_sum(game) else None
        )

    def meta_strategy(self, context: PSROContext, payoffs: Tensor) -> MetaStrategy:
        """Return the least exploitable meta-strategy, or the meta-solver's for payoffs (S, N_1, ..., N_S)."""
        if self.least_exploitable is None:
            return super().meta_strategy(context, payoffs)
        return self.least_exploitable.meta_strategy(context)

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration; each adds an average policy of the next role."""
        function = self._exact_response if self.config.has_exact_responses else train_both_responses
        roles = self.game.roles
        num_segments = self.config.num_segments
        arguments = [
            {"other": roles[(index + 1) % len(roles)], "num_segments": num_segments} for index in range(len(roles))
        ]
        return [
            dataclasses.replace(task, function=function, arguments=entries)
            for task, entries in zip(super().tasks(context), arguments, strict=True)
        ]

    def _exact_response(
        self, context: PSROContext, task: BestResponseTask, other: str, num_segments: int
    ) -> BestResponse:
        """Return the best response to the meta-strategy, and the average policy of the role `other`.

        The response in self-play and the new policy alternate `num_segments` times: each is a best response to the
        average of the other one so far.
        """
        tabular, seats = context.require_tabular(), self.game.seats
        tree = tabular.tree
        old = tabular.mixtures(context.populations, task.opponents.marginals)
        new: list[Tensor] | None = None  # average of all seats; the seats of `other` are used
        response: list[Tensor] | None = None  # average of all seats; the seats of the role are used
        first = [tree.best_response(old, index)[0] for index in range(len(old))]
        for segment in range(num_segments):
            opponents = old if new is None else _mixed(tabular, old, new, 1 - SELF_PLAY)
            latest = [tree.best_response(opponents, index)[0] for index in range(len(old))]
            response = latest if response is None else _mixed(tabular, response, latest, segment / (segment + 1))
            faced = [
                response[index] if seat.role == task.role else opponents[index] for index, seat in enumerate(seats)
            ]
            learned = [tree.best_response(faced, index)[0] for index in range(len(old))]
            new = learned if new is None else _mixed(tabular, new, learned, segment / (segment + 1))
        assert new is not None
        policy, average = (
            tabular.policy(role, [tables[index] for index in self.game.seats_of(role)])
            for role, tables in ((task.role, first), (other, new))
        )
        return BestResponse(policy, extra_policies={other: average})


def train_both_responses(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    role: str,
    draw: MatchupDistribution,
    train: TrainConfig,
    start: Start | None,
    seed: int,
    other: str,
    num_segments: int,
    progress: Progress | None = None,
    sharded: bool = False,
) -> LearnedResponse:
    """Train a best response and a new policy of another role against each other, in the same worlds.

    The average of the new policy is a mixture of its states, one of which is sampled for every episode.

    Args:
        policies: Policies by role.
        game: Game to play.
        role: Role of the response.
        draw: Distribution of the opponents from the populations.
        train: Algorithm, number of environments, steps, device.
        start: Initial weights of the response; None: random weights.
        seed: Random seed.
        other: Role of the new policy.
        num_segments: Number of segments of the training. The average is over the states of the new policy at their
            ends.
        progress: Called after every iteration.
        sharded: Train together with other processes, see `joined_shard`.
    """
    began, config = time.perf_counter(), dataclasses.replace(train, seed=seed)
    self_play = MatchupDistribution.self_play(game)
    first, last = (MatchupDistribution.mix([(share, self_play), (1 - share, draw)]) for share in (SELF_PLAY, AT_LAST))
    snapshots: list[PolicyProtocol] = []
    config.prepare()
    with config.in_force():
        shard, weights = joined_shard(config, sharded), None if start is None else {role: start}
        training = BestResponseTraining(game, first, policies, config, weights, shard=shard)
        while training.iteration < config.iterations:
            row = training.iterate()
            if training.iteration * num_segments >= config.iterations * (len(snapshots) + 1):
                snapshots.append(training.learner(other).policy())
                if len(snapshots) == num_segments - 1:
                    training.opponents.replace(last)
            if progress is not None:
                progress(training.steps, progress_text(role, row))
        tally, policy, state = training.tally(), training.learner(role).policy(), training.learner_state(role)
    seconds, average = time.perf_counter() - began, MixturePolicy(snapshots)
    return LearnedResponse(policy, state, tally, training.steps, seconds, extra_policies={other: average})


def _mixed(tabular: TabularGame, first: Sequence[Tensor], second: Sequence[Tensor], share: float) -> list[Tensor]:
    """Return for each seat the table that plays `first` in that share of the episodes, else `second`."""
    weights = torch.tensor([share, 1 - share], dtype=torch.float64)
    pairs = zip(first, second, strict=True)
    return [tabular.tree.mix([table, other], weights, seat) for seat, (table, other) in enumerate(pairs)]
