"""Anytime PSRO: meta-strategies that minimize exploitability, so that it never increases.

Source: McAleer et al. 2022, "Anytime PSRO for Two-Player Zero-Sum Games". The meta-strategy of PSRO is an equilibrium
of the meta-game, and can become more exploitable by policies outside the populations. Here a seat's distribution over
its population is computed together with the best response to it. The game is two-player and zero-sum.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.utils.progress import Progress
from league.game import Game, require_two_player_zero_sum
from league.matchups.best_response import BestResponse, BestResponseTraining, LearnedResponse, progress_text
from league.matchups.data_parallel import joined_shard
from league.matchups.episode_tally import EpisodeTally
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from league.psro.config import PSROConfig
from league.psro.variants.least_exploitable import LeastExploitable
from league.psro.variants.standard import StandardVariant
from league.psro.work import BestResponseTask, PSROContext
from league.solvers import MetaStrategy
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol
from trainers.runner.initial_weights import Start

EXPLORED = 0.1
"""Share of episodes with uniformly sampled opponents, so that the return against every opponent is estimated."""


class AnytimeVariant(StandardVariant):
    """Anytime PSRO: one response per role, to the least exploitable distribution over its opponents."""

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant; raise ConfigError if the game is not two-player zero-sum."""
        super().__init__(game, config)
        require_two_player_zero_sum(game, "anytime")
        self.least_exploitable: LeastExploitable = LeastExploitable(game)

    def tasks(self, context: PSROContext) -> list[BestResponseTask]:
        """Return the best responses of an iteration, with the functions that compute their opponents too."""
        if self.config.has_exact_responses:
            return [dataclasses.replace(task, function=self._exact_response) for task in super().tasks(context)]
        return [self._learned_task(context, role) for role in self.game.roles]

    def meta_strategy(self, context: PSROContext, payoffs: Tensor) -> MetaStrategy:
        """Return the least exploitable meta-strategy.

        With exact responses it is one of all policies. With learned ones it is one of the policies at the start of the
        iteration, learned together with the responses.
        """
        if self.config.has_exact_responses:
            return self.least_exploitable.meta_strategy(context)
        weights = []
        for index, seat in enumerate(self.game.seats):
            role = self.game.seats[1 - index].role  # role of the responses to this seat
            size = len(context.populations[seat.role])
            if context.iteration:
                step = BestResponseTask(context.iteration, role, 0, MetaStrategy(())).name
                learned = context.store.result(step, {"opponents": list[float]})["opponents"]
                weights.append(torch.tensor([*learned, *[0.0] * (size - len(learned))], dtype=torch.float64))
            else:
                weights.append(torch.full((size,), 1 / size, dtype=torch.float64))
        return MetaStrategy((weights[0], weights[1]))

    # ---------------------------------------------------------------- exact

    def _exact_response(self, context: PSROContext, task: BestResponseTask) -> BestResponse:
        """Return one of the pure policies in the support of the minimax response, a new one if there is any."""
        tabular = context.require_tabular()
        seats = self.game.seats_of(task.role)
        against = task.opponents.marginals[1 - seats[0]]
        _, responses = self.least_exploitable.against(context, task.role, len(against))
        tables = tabular.tabulate_all(context.populations)
        policies = list(zip(*(tables[seat] for seat in seats), strict=True))

        def is_known(response: list[Tensor]) -> bool:
            return any(all(map(torch.equal, response, policy)) for policy in policies)

        best = next((tables for tables in responses if not is_known(tables)), responses[0])
        return BestResponse(tabular.policy(task.role, best))

    # ---------------------------------------------------------------- learned

    def _learned_task(self, context: PSROContext, role: str) -> BestResponseTask:
        """Return the task that trains a response together with the distribution of its opponents."""
        first, second = (len(marginal) for marginal in context.opponents.marginals)
        size = (first, second)[1 - self.game.seats_of(role)[0]]
        meta_game = context.meta_game()[:, :first, :second]
        spread = max(float(meta_game.max() - meta_game.min()), 1e-9)
        uniform = MetaStrategy((torch.ones(size) / size,) * 2)
        return BestResponseTask(
            context.iteration,
            role,
            0,
            uniform,
            function=train_against_regret_minimizer,
            arguments={"size": size, "spread": spread},
        )


def train_against_regret_minimizer(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    role: str,
    draw: MatchupDistribution,
    train: TrainConfig,
    start: Start | None,
    seed: int,
    size: int,
    spread: float,
    progress: Progress | None = None,
    sharded: bool = False,
) -> LearnedResponse:
    """Train a response against opponents whose distribution minimizes regret.

    After every update, the probabilities of the opponents follow exponential weights (Freund and Schapire 1999) on the
    response's return against each opponent. The average over the training is the seat's meta-strategy, stored as
    "opponents".

    Args:
        policies: Policies by role.
        game: Game to play.
        role: Role of the response.
        draw: Initial distribution of the opponents.
        train: Algorithm, number of environments, steps, device.
        start: Initial weights; None: random weights.
        seed: Random seed.
        size: Number of opponents.
        spread: Difference between the largest and the smallest payoff.
        progress: Called after every iteration.
        sharded: Train together with other processes, see `joined_shard`.
    """
    began, config = time.perf_counter(), dataclasses.replace(train, seed=seed)
    rate = math.sqrt(8 * math.log(max(size, 2)) / config.iterations) / spread
    lost, average = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    config.prepare()
    with config.in_force():
        shard, first = joined_shard(config, sharded), None if start is None else {role: start}
        training = BestResponseTraining(game, draw, policies, config, first, shard=shard)
        while training.iteration < config.iterations:
            weights = torch.softmax(-rate * lost, 0)
            sampled = (1 - EXPLORED) * weights + EXPLORED / size
            training.opponents.replace(MatchupDistribution.against(game, role, [sampled, sampled]))
            row = training.iterate()
            average += weights
            lost += _advantages(training.tallies[-1], size, weights)
            if progress is not None:
                progress(training.steps, progress_text(role, row))
        tally, policy, state = training.tally(), training.learner(role).policy(), training.learner_state(role)
    seconds = time.perf_counter() - began
    record = {"opponents": (average / average.sum()).tolist()}
    return LearnedResponse(policy, state, tally, training.steps, seconds, record=record)


def _advantages(tally: EpisodeTally, size: int, weights: Tensor) -> Tensor:
    """Return the learner's mean return against each opponent minus the overall mean (size,); 0 without episodes."""
    learner = tally.matchups == LEARNER
    opponent = tally.matchups.masked_fill(learner, 0).sum(1)
    total = torch.zeros(size, dtype=torch.float64).index_add_(0, opponent, (tally.total * learner).sum(1))
    count = torch.zeros(size, dtype=torch.float64).index_add_(0, opponent, tally.count.double())
    is_played = count > 0
    mean = total / count.clamp(min=1)
    base = float((mean * weights * is_played).sum() / (weights * is_played).sum().clamp(min=1e-12))
    return (mean - base) * is_played
