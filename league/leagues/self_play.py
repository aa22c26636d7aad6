"""SP-PSRO: beside every best response a population gets a mixed strategy, learned in self-play.

Source: McAleer et al. 2022, "Self-Play PSRO: Toward Optimal Populations in Two-Player Zero-Sum Games" (arXiv
2207.06541). While the response of one role learns, a new policy of another learns against it, and the response meets
that one as often as the populations so far. What the new policy was on average over this time is mixed, as good play
has to be where a best response is not, and joins its population. The paper weighs the new policy by learning without
regret; here it is met in half of all episodes,
and hardly at all in the last part, so that the response is one to the meta-strategy, as PSRO needs it to get on.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from league.game import Game
from league.oracles import LearnedOracle
from league.population import MixturePolicy
from league.response import Response, Start, Training
from league.seating import Draw
from league.store import derived
from league.targets import Task, Whole
from trainers.config import TrainConfig
from trainers.logs import Progress
from trainers.policy import Plays, Policy

SELF_PLAY, AT_LAST = 0.5, 0.1
"""Shares of a response's episodes in which it meets the new policy: in all parts but the last, and there."""


class SelfPlay(Whole):
    """Two policies per role and iteration: its response, and the average of what learned against the next role's."""

    def respond(self, number: int) -> None:
        """All policies of an iteration that are not there yet."""
        for role in self.psro.roles:
            (target,) = self.targets(role)
            task = Task(number, role, 0, target)
            (self.learned if isinstance(self.psro.oracle, LearnedOracle) else self.exact)(task)

    def other(self, role: str) -> str:
        """The role after it, whose new policy learns against its response; of one role, itself."""
        roles = self.psro.roles
        return roles[(roles.index(role) + 1) % len(roles)]

    def learned(self, task: Task) -> None:
        """Has both learned; the average joins its population in the same step."""
        psro, oracle, other, target = self.psro, self.psro.oracle, self.other(task.role), task.target
        assert isinstance(oracle, LearnedOracle)
        marginals = target.marginals if target.joint is None else None
        against = Draw.against(psro.game, task.role, marginals, joint=target.joint)

        def more(response: Both, result: dict[str, Any]) -> None:
            psro.store.add_policy(other, response.average, "mixture", iteration=task.iteration)

        seed = derived(psro.config.seed, task.name)
        oracle.submit(task, learn_both, against, seed, more, other=other, parts=psro.config.parts)

    def exact(self, task: Task) -> None:
        """Both are best responses to what the other was on average so far, `parts` times in turn.

        That the new policy came from; the response that is added is the best to the meta-strategy.
        """
        psro, small, other = self.psro, self.psro.small, self.other(task.role)
        assert small is not None
        if psro.store.done(task.name):
            return
        tree, marginals = small.tree, task.target.marginals
        old = small.mixtures(psro.populations, marginals)
        new: list[Tensor] | None = None  # on average, of all seats; those of `other` count
        response: list[Tensor] | None = None  # on average, of all seats; those of the role count
        first = [tree.best_response(old, seat)[0] for seat in range(len(old))]
        for part in range(psro.config.parts):
            met = old if new is None else self._mixed(old, new, 1 - SELF_PLAY)
            latest = [tree.best_response(met, seat)[0] for seat in range(len(met))]
            response = latest if response is None else self._mixed(response, latest, part / (part + 1))
            faced = [
                response[seat] if each.role == task.role else met[seat] for seat, each in enumerate(psro.game.seats)
            ]
            learned = [tree.best_response(faced, seat)[0] for seat in range(len(met))]
            new = learned if new is None else self._mixed(new, learned, part / (part + 1))
        assert new is not None
        with psro.store.step(task.name):
            for role, tables in ((task.role, first), (other, new)):
                own = [tables[seat] for seat in psro.game.seats_of(role)]
                psro.store.add_policy(role, small.policy(role, own), "table", iteration=task.iteration)

    def _mixed(self, first: Sequence[Tensor], second: Sequence[Tensor], share: float) -> list[Tensor]:
        """Per seat what plays the first in that share of all episodes, and else the second."""
        assert self.psro.small is not None
        weights = torch.tensor([share, 1 - share], dtype=torch.float64)
        pairs = zip(first, second, strict=True)
        return [self.psro.small.tree.mix([one, two], weights, seat) for seat, (one, two) in enumerate(pairs)]


@dataclass(frozen=True)
class Both(Response):
    """A response, and what learned against it."""

    average: MixturePolicy
    """Of what the new policy was."""


def learn_both(
    pools: Mapping[str, Sequence[Plays]],
    *,
    game: Game,
    role: str,
    draw: Draw,
    train: TrainConfig,
    start: Start | None,
    seed: int,
    other: str,
    parts: int,
    progress: Progress | None = None,
) -> Both:
    """Both learn in the same worlds; the average is one of the new policy's states, drawn for every episode.

    Args:
        pools: Policies by role.
        game: What is played.
        role: Of the response.
        draw: Its opponents so far.
        train: Algorithm, worlds, steps, device.
        start: Whose weights the response begins with; None: from scratch.
        seed: Of everything.
        other: Role of the new policy.
        parts: Of the training; the states of the new policy at the ends of all but the last are averaged.
        progress: Called after every iteration.
    """
    began, config = time.perf_counter(), dataclasses.replace(train, seed=seed)
    both = Draw.self_play(game)
    first, last = (Draw.mix([(share, both), (1 - share, draw)]) for share in (SELF_PLAY, AT_LAST))
    snapshots: list[Policy] = []
    config.prepare()
    with config.in_force():
        training = Training(game, first, pools, config, None if start is None else {role: start})
        while training.iteration < config.iterations:
            row = training.iterate()
            if training.iteration * parts >= config.iterations * (len(snapshots) + 1):
                snapshots.append(training.learner(other).policy())
                if len(snapshots) == parts - 1:
                    training.seating.replace(last)
            if progress is not None:
                progress(training.steps, f"{role}: return {row['return']:.3f}  score {row['score']:.2f}")
        tally, learner = training.tally(), training.learner(role)
    seconds = time.perf_counter() - began
    return Both(learner.policy(), learner.state_dict(), tally, training.steps, seconds, MixturePolicy(snapshots))
