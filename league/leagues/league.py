"""A league: players that learn from matches among themselves and their past, as a builder says.

Every iteration each learning player trains for a number of steps against the opponents that the builder names, in
worlds of its own: whoever asks for a match learns from it, and opponents are drawn anew for every episode. Opponents
that learn themselves are met as they were at the iteration's start. Then the builder says what changes.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from league import asking, changes
from league.builder import Change, Enter, Freeze, LeagueBuilder, LeagueResult
from league.evaluation import UNKNOWN, Evaluation, of_league
from league.executors import Call, Coordinator, Executor, Later, gather
from league.filling import Filling, Sampling, cells
from league.matches import Results
from league.payoffs import PayoffTable
from league.player import AFAR, forget, train_player
from league.population import RandomPolicy
from league.records import SUMMARY
from league.run import training, write_summary
from league.standing import RANDOM_NAME, Standing
from league.store import Store, derived
from league.summaries import by_opponent, read_result, summary
from trainers.logs import Progress
from trainers.policy import Plays
from trainers.settings import check_settings, setting


@dataclass(frozen=True)
class LeagueConfig:
    """Settings of a league, beside those of its builder."""

    iterations: int = setting(20, ">= 0")
    """Times that every player trains, and that the league may change."""
    steps: int = setting(50_000, ">= 1")
    """Steps of worlds that a player trains for in an iteration, rounded up to whole rollouts."""
    decay: float = setting(0.99, "in (0, 1]")
    """What a game leaves of the weight of earlier games of the same two players in their win rate."""
    even: float | None = None
    """By how much the first seat earns more than the second in a draw. None: 0 where what they earn sums to 0 or both
    seats are alike, else measured anew for the matches of every iteration, between the first that learn on both sides
    (main agents, where there are any), so that these win as often however unlike they grow. Scores of the payoff table,
    which last, go by the first measurement."""
    episodes: int = setting(1_000, ">= 1")
    """Episodes per cell of the payoff table of all frozen players, at the end."""
    max_envs: int = setting(16_384, ">= 1")
    """Worlds that play cells at once."""
    seed: int = setting(0, "in [0, 2**63)")
    """Of everything."""
    device: str = "cpu"
    """Where it all runs."""
    train: dict[str, Any] = field(default_factory=dict)
    """Settings of learners, see `league.run.training`; schedules end after `total_steps`, `iterations * steps` if it is
    not given."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)


class League:
    """A run. Whatever it has done it finds in its store, after a kill too: a task that is done is not done again."""

    def __init__(
        self,
        store: Store,
        config: LeagueConfig,
        builder: LeagueBuilder,
        progress: Progress | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Opens a run.

        Args:
            store: Of a game with two seats.
            config: As the run began with, `iterations` aside.
            builder: Likewise.
            progress: Called after the training of every player.
            executor: Where players train and payoffs are played; None: in this process. The run comes out the same.

        Raises:
            ConfigError: Something of these does not fit the others.
            CheckpointError: The run began with another builder, or is damaged.
        """
        self.store, self.game, self.config, self.builder, self.progress = store, store.game, config, builder, progress
        self.populations = store.populations
        self.coordinator, self.id = Coordinator(store, executor), uuid.uuid4().hex
        weakref.finalize(self, forget, self.id)
        self.device = self.coordinator.home(config.device)
        for population in self.populations.values():  # anybody may be met at any time
            population.device, population.keep = self.device, sys.maxsize
        length = int(store.config.get("iterations", config.iterations)) * config.steps  # as it began, if longer now
        self.train = training(self.game, config.device, {"total_steps": max(length, 1), **config.train})
        self.train.prepare()
        builder.check(self.game, self.train.learner)
        self.evaluation: Evaluation | None = None
        if of_league(self.game, self.train):
            self.evaluation = Evaluation(store, self.coordinator, lambda row: None)
        self._restore()

    def run(self) -> list[dict[str, Any]]:
        """All iterations that are left, and the payoff table; returns the summaries of all iterations."""
        if self.finished < 0:
            self.begin()
        self._evaluate()  # what a kill has left
        while self.finished < self.config.iterations:
            self.iterate(self.finished + 1)
        self.evaluate()
        self._evaluate(finish=True)
        write_summary(self.store)
        return list(self.store.iterations().values())

    # ---------------------------------------------------------------- an iteration

    def begin(self) -> None:
        """The first players, and copies of some of them."""
        players = asking.players(self.builder, self.game)
        with self._whole(), self.store.step("0/begin"):
            for role in self.game.roles:
                self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", RANDOM_NAME)
            changes.make(self.standing, 0, [Enter(player) for player in players])
            self.standing.even = self._first_even()
            frozen = [Freeze(player.name) for player in players if self.builder.frozen_at_start(player)]
            changes.make(self.standing, 0, frozen)
            row = summary(self.standing.roster, {}, frozen)
            self.standing.keep()
            self.store.put_iteration(0, {**row, **UNKNOWN, "even": self.standing.even})
        self.finished = 0
        self._evaluate()

    def iterate(self, number: int) -> None:
        """Every player trains, and then the league changes."""
        began, names = time.perf_counter(), self.standing.roster.learning()
        with self._whole():
            self._measure(number)
            self._payoffs().plan(f"{number - 1}/payoffs", self.config.max_envs)  # they are played while others learn
            even = self._even(number)
            pools = self.standing.pools()
            for name in names:
                self._submit(number, name, pools, even, functools.partial(self._count, number, name))
            self.coordinator.wait("learn")
            results = {name: self._result(number, name) for name in names}
            for name, result in results.items():
                for opponent, games, score, _ in result["matches"]:
                    self.standing.roster.win_rates.add(name, opponent, games, score)
            wanted = self._changes(number, results)
            with self.store.step(f"{number}/change"):
                for name in names:
                    self.standing.put_live(name, self.standing.learned(name))
                changes.make(self.standing, number, wanted)
                row = {**summary(self.standing.roster, results, wanted), **UNKNOWN, "even": even}
                self.standing.keep()
                self.store.put_iteration(number, {**row, "seconds": time.perf_counter() - began})
        self.finished = number
        self.standing.trained.clear()
        for name in self.standing.roster.retired:  # who trains no more takes no room
            forget(self.id, name)
        self._evaluate()
        write_summary(self.store)

    def _evaluate(self, finish: bool = False) -> None:
        """Gives out what is to be found out of the iterations so far, or waits for all of it."""
        if self.evaluation is not None:
            with self._whole():
                (self.evaluation.finish if finish else self.evaluation.give_out)()

    def _changes(self, number: int, results: Mapping[str, Mapping[str, Any]]) -> list[Change]:
        """What the builder says; at the end of the run, all are frozen too."""
        learning = {name: self.standing.learning[name] for name in results}
        result = LeagueResult(
            number,
            self.standing.roster,
            {name: each.steps for name, each in learning.items()},
            {name: each.total_steps for name, each in learning.items()},
            {name: result["return"] for name, result in results.items()},
            np.random.default_rng(derived(self.config.seed, number, "builder")),
        )
        found = asking.changes(self.builder, result)
        frozen = {change.player for change in found if isinstance(change, Freeze)}
        if number == self.config.iterations:  # nothing that was learned is lost
            found += [Freeze(name) for name in results if name not in frozen]
        return found

    # ---------------------------------------------------------------- matches

    def _submit(
        self,
        number: int,
        name: str,
        pools: Mapping[str, Sequence[Plays]],
        even: float,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Gives out one player's matches of an iteration, unless they are played already."""
        task, player = _task(number, name), self.standing.roster.players[name]
        before = _task(number - 1, name) if self.store.has_state(f"learner.{name}") else None
        state = f"live.{name}" if before is None else f"learner.{name}"
        arguments = {
            "run": self.id,
            "player": name,
            "role": player.role,
            "before": before,
            "task": task,
            "game": self.game,
            "draw": asking.draw(self.builder, self.standing, player),
            "config": self.standing.config(name),
            "state": Later(functools.partial(self.store.state, state, self.device)),
            "even": even,
            "seed": derived(self.config.seed, task),
            "steps": self.config.steps,
            "keep": AFAR if self.coordinator.executor.remote else None,
        }
        call = Call(task, train_player, pools, arguments, learns=True, device=self.config.device)
        self.coordinator.submit(call, functools.partial(self._trained, number, name), then, "learn")

    def _trained(self, number: int, name: str, found: Mapping[str, Any]) -> None:
        """Writes down what a player's matches gave."""
        player, tally = self.standing.roster.players[name], found["tally"]
        with self.store.step(_task(number, name)) as result:
            self.store.put_state(f"learner.{name}", found["state"])
            result |= {"steps": found["steps"], "matches": by_opponent(self.standing, player, tally)}
            result |= {"return": found["return"], "score": found["score"], "episodes": int(tally.count.sum())}
        self.standing.train_as(name, found["state"])
        if self.progress is not None:
            done = sum(each.total_steps for each in self.standing.learning.values()) + found["steps"]
            self.progress(done, f"{name}: return {result['return']:.3f}  score {result['score']:.2f}")

    def _result(self, number: int, name: str) -> dict[str, Any]:
        return read_result(self.store, _task(number, name), self.standing.roster)

    def _count(self, number: int, name: str) -> None:
        """The steps of a player's matches, once they are written down."""
        steps = self._result(number, name)["steps"]
        self.standing.learning[name].steps += steps
        self.standing.learning[name].total_steps += steps

    def _first_even(self) -> float:
        """See `LeagueConfig.even`: what is given, or measured between the first players."""
        if not self._measures:
            return self.config.even or 0.0
        call = self._duel("even")
        return _line(gather(self.coordinator.executor, [call])[call.key])  # at the start, when nothing runs

    def _measure(self, number: int) -> None:
        """Has `_even` of an iteration measured."""
        if number == 1 or not self._measures:  # nobody has learned since the start
            return
        call = self._duel(f"{number}/even")

        def commit(results: Results) -> None:
            with self.store.step(call.key) as found:
                found["even"] = _line(results)

        self.coordinator.submit(call, commit, lane="learn")

    def _even(self, number: int) -> float:
        """See `LeagueConfig.even`: of an iteration's matches."""
        self.coordinator.wait("learn")
        key = f"{number}/even"
        return self.store.result(key, {"even": float})["even"] if self.store.done(key) else self.standing.even

    @property
    def _measures(self) -> bool:
        return self.config.even is None and not self.game.zero_sum and not self.game.shared

    def _duel(self, key: str) -> Call:
        """Episodes, one by one, between the first of each side that learn, or else its latest policy."""
        c, standing = self.config, self.standing
        pair = []
        for seat in self.game.seats:
            members = standing.members(seat.role)
            pair.append(members.index([*standing.roster.learning(seat.role), members[-1]][0]))
        ones, sampling = torch.ones(c.episodes, dtype=torch.int64), Sampling(1, None, c.device, c.max_envs)
        return cells(key, self.game, standing.pools(), torch.tensor([pair] * c.episodes), ones, c.seed, sampling)

    # ---------------------------------------------------------------- records

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What fails, or is interrupted, leaves nothing behind that the store does not have."""
        try:
            yield
        except BaseException:
            self._restore()
            raise

    def _restore(self) -> None:
        """Begins from what the store has."""
        self.coordinator.cancel()
        forget(self.id)
        self.finished = max(self.store.iterations(SUMMARY, ("return", "score", "nash_conv")), default=-1)
        self.filling: Filling | None = None
        told, c = asking.told(self.builder), self.config
        self.standing = Standing(self.store, told, self.train, c.seed, c.decay, self.device)

    def evaluate(self) -> PayoffTable:
        """Plays what is missing of the payoff table of all frozen players and the random one."""
        with self._whole():
            self._payoffs().finish("payoffs")
            return self._payoffs().table

    def _payoffs(self) -> Filling:
        """The payoff table; what was planned of it is given out when it is first asked for."""
        if self.filling is None:
            c = self.config
            sampling = Sampling(c.episodes, None, c.device, c.max_envs, self.standing.even)
            self.filling = Filling(self.store, self.coordinator, sampling, c.seed)
        return self.filling


def fair_line(difference: Tensor) -> float:
    """Where to draw the line between wins of one and of the other so that both win as often as can be.

    The mean is no such line where some episodes give much, nor is the median where many give the same.

    Args:
        difference: (N,), by how much one earned more than the other in each of several episodes.
    """
    values = difference.double().sort().values
    seen = values.unique()
    lines = torch.cat([seen, (seen[1:] + seen[:-1]) / 2])
    lost, won = torch.searchsorted(values, lines), len(values) - torch.searchsorted(values, lines, right=True)
    return float(lines[(won - lost).abs().argmin()])


def _line(results: Results) -> float:
    """The line by the results of episodes that were played one by one."""
    first, second = results.total.T
    return fair_line(first - second)


def _task(number: int, name: str) -> str:
    return f"{number}/train/{name}"
