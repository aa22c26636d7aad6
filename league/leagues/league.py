"""The loop of a league: players train against each other and their past, as a league builder decides.

In every iteration each learning player trains for a number of environment steps, in environments of its own, against
the opponents that the builder names. Opponents are resampled for every episode. Only the player whose match it is
learns from it. Learning opponents play with their weights from the start of the iteration. After the iteration the
builder's transitions change the league.
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

from gpu_envs.utils.progress import Progress
from gpu_envs.utils.settings import check_settings, setting
from league.evaluation.nash_conv import UNKNOWN, Evaluation, is_evaluated
from league.evaluation.payoff_filler import PayoffFiller, PayoffSamplingConfig, payoff_task
from league.executors import Coordinator, Executor, LazyValue, RemoteTask, gather
from league.leagues import builder_validation
from league.leagues.apply_transitions import apply_transitions
from league.leagues.builder import LeagueBuilder, LeagueResult
from league.leagues.draw_margin import measured_draw_margin
from league.leagues.iteration_summary import iteration_summary, matches_by_opponent, read_result
from league.leagues.league_state import RANDOM_NAME, LeagueState
from league.leagues.train_player import MAX_WORKER_TRAININGS, drop_trainings, train_player
from league.leagues.transitions import Change, Enter, Freeze
from league.policies.random import RandomPolicy
from league.rollout.matchups import MatchupResults
from league.rollout.payoff_table import PayoffTable
from league.storage.records import SUMMARY_FIELDS
from league.storage.run_config import training, write_summary
from league.storage.run_store import RunStore, derive_named_seed
from trainers.base.seeding import SEEDS
from trainers.models.policy import PolicyProtocol

__all__ = ["MARGIN_TASK", "League", "LeagueConfig"]


@dataclass(frozen=True)
class LeagueConfig:
    """Settings of a league that do not depend on its builder."""

    iterations: int = setting(20, ge=0)
    """Number of iterations; every player trains once per iteration."""
    steps: int = setting(50_000, ge=1)
    """Environment steps per player and iteration, rounded up to whole rollouts."""
    decay: float = setting(0.99, gt=0, le=1)
    """Factor by which each new game reduces the weight of earlier games in a win rate."""
    draw_margin: float | None = None
    """Largest difference of the two seats' returns that counts as a draw.
    None: 0 if the game is zero-sum or symmetric; otherwise the margin with which both seats win equally often.
    It is measured between the first learning players of both seats, at the start and again in every iteration.
    Scores in the payoff table use the first measurement."""
    episodes_per_matchup: int = setting(1_000, ge=1)
    """Episodes per cell of the payoff table of all frozen players, which is completed at the end."""
    eval_num_envs: int = setting(16_384, ge=1)
    """Largest number of environments that play payoff cells at once."""
    seed: int = setting(0, ge=0, lt=SEEDS)
    """Random seed of the run."""
    device: str = "cpu"
    """Device for training and simulation: "cpu", "cuda" or "cuda:<i>". On the command line a GPU is the default."""
    train_overrides: dict[str, Any] = field(default_factory=dict)
    """Training setting of all learners that replaces the preset's, such as num_envs=128 or learner.gamma=0.95.
    Without `total_steps`, schedules end after `iterations * steps`."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)


class League:
    """Run of a league. All progress is in its store: a resumed run skips tasks that are complete."""

    def __init__(
        self,
        store: RunStore,
        config: LeagueConfig,
        builder: LeagueBuilder,
        progress: Progress | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Open a run.

        Args:
            store: Store of the run, whose game has two seats.
            config: Configuration that the run was created with; `iterations` may differ.
            builder: Builder that the run was created with.
            progress: Called after each player's training.
            executor: Executor of training and payoff tasks; None: this process. Results do not depend on it.

        Raises:
            ConfigError: The game, configuration and builder do not fit each other.
            CheckpointError: The run was created with another builder, or is damaged.
        """
        self.store, self.game, self.config, self.builder, self.progress = store, store.game, config, builder, progress
        self.populations = store.populations
        self.coordinator, self.id = Coordinator(store, executor), uuid.uuid4().hex
        weakref.finalize(self, drop_trainings, self.id)
        self.device = self.coordinator.home(config.device)
        for population in self.populations.values():  # any policy may be sampled as opponent
            population.device, population.keep = self.device, sys.maxsize
        length = int(store.config.get("iterations", config.iterations)) * config.steps  # of the run at its creation
        self.train = training(self.game, config.device, {"total_steps": max(length, 1), **config.train_overrides})
        self.train.prepare()
        builder.check(self.game, self.train.learner)
        self.evaluation: Evaluation | None = None
        if is_evaluated(self.game, self.train):
            self.evaluation = Evaluation(store, self.coordinator, lambda row: None)
        self._restore()

    def run(self) -> list[dict[str, Any]]:
        """Run all remaining iterations, complete the payoff table, and return the summaries of all iterations."""
        if self.finished < 0:
            self.begin()
        self._evaluate()  # evaluations that an interrupted run left open
        while self.finished < self.config.iterations:
            self.iterate(self.finished + 1)
        self.evaluate()
        self._evaluate(finish=True)
        write_summary(self.store)
        return list(self.store.iterations().values())

    # ---------------------------------------------------------------- iterations

    def begin(self) -> None:
        """Add the first players and their frozen copies."""
        players = builder_validation.first_players(self.builder, self.game)
        with self._rollback_on_error(), self.store.step("0/begin"):
            for role in self.game.roles:
                self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", RANDOM_NAME)
            apply_transitions(self.state, 0, [Enter(player) for player in players])
            self.state.draw_margin = self._first_draw_margin()
            frozen = [Freeze(player.name) for player in players if self.builder.frozen_at_start(player)]
            apply_transitions(self.state, 0, frozen)
            row = iteration_summary(self.state.roster, {}, frozen)
            self.state.save()
            self.store.put_iteration(0, {**row, **UNKNOWN, "draw_margin": self.state.draw_margin})
        self.finished = 0
        self._evaluate()

    def iterate(self, number: int) -> None:
        """Train every learning player, then apply the builder's transitions."""
        start, names = time.perf_counter(), self.state.roster.learning()
        with self._rollback_on_error():
            self._measure_draw_margin(number)
            self._filler().plan(f"{number - 1}/payoffs", self.config.eval_num_envs)  # cells are played during training
            draw_margin = self._draw_margin(number)
            pools = self.state.pools()
            for name in names:
                self._submit(number, name, pools, draw_margin, functools.partial(self._add_steps, number, name))
            self.coordinator.wait("learn")
            results = {name: self._result(number, name) for name in names}
            for name, result in results.items():
                for opponent, games, score, _ in result["matches"]:
                    self.state.roster.win_rates.add(name, opponent, games, score)
            wanted = self._changes(number, results)
            with self.store.step(f"{number}/change"):
                for name in names:
                    self.state.publish_weights(name, self.state.trained_weights(name))
                apply_transitions(self.state, number, wanted)
                row = {**iteration_summary(self.state.roster, results, wanted), **UNKNOWN, "draw_margin": draw_margin}
                self.state.save()
                self.store.put_iteration(number, {**row, "seconds": time.perf_counter() - start})
        self.finished = number
        self.state.trained.clear()
        for name in self.state.roster.retired:
            drop_trainings(self.id, name)
        self._evaluate()
        write_summary(self.store)

    def _evaluate(self, finish: bool = False) -> None:
        """Submit the evaluation of past iterations, or wait until all are complete."""
        if self.evaluation is not None:
            with self._rollback_on_error():
                (self.evaluation.finish if finish else self.evaluation.submit)()

    def _changes(self, number: int, results: Mapping[str, Mapping[str, Any]]) -> list[Change]:
        """Return the builder's transitions; after the last iteration all learning players are frozen, too."""
        learning = {name: self.state.learning[name] for name in results}
        result = LeagueResult(
            number,
            self.state.roster,
            {name: each.steps for name, each in learning.items()},
            {name: each.total_steps for name, each in learning.items()},
            {name: result["return"] for name, result in results.items()},
            np.random.default_rng(derive_named_seed(self.config.seed, number, "builder")),
        )
        found = builder_validation.transitions(self.builder, result)
        frozen = {change.player for change in found if isinstance(change, Freeze)}
        if number == self.config.iterations:
            found += [Freeze(name) for name in results if name not in frozen]
        return found

    # ---------------------------------------------------------------- matches

    def _submit(
        self,
        number: int,
        name: str,
        pools: Mapping[str, Sequence[PolicyProtocol]],
        draw_margin: float,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Submit a player's training task, unless it is complete."""
        task, player = _task(number, name), self.state.roster.players[name]
        before = _task(number - 1, name) if self.store.has_state(f"learner.{name}") else None
        state = f"live.{name}" if before is None else f"learner.{name}"
        arguments = {
            "run": self.id,
            "player": name,
            "role": player.role,
            "before": before,
            "task": task,
            "game": self.game,
            "draw": builder_validation.matchup_distribution(self.builder, self.state, player),
            "config": self.state.config(name),
            "state": LazyValue(functools.partial(self.store.state, state, self.device)),
            "draw_margin": draw_margin,
            "seed": derive_named_seed(self.config.seed, task),
            "steps": self.config.steps,
            "keep": MAX_WORKER_TRAININGS if self.coordinator.executor.remote else None,
        }
        call = RemoteTask(task, train_player, pools, arguments, learns=True, device=self.config.device)
        self.coordinator.submit(call, functools.partial(self._commit_training, number, name), then, "learn")

    def _commit_training(self, number: int, name: str, found: Mapping[str, Any]) -> None:
        """Commit the result of a player's training."""
        player, tally = self.state.roster.players[name], found["tally"]
        with self.store.step(_task(number, name)) as result:
            self.store.put_state(f"learner.{name}", found["state"])
            result |= {"steps": found["steps"], "matches": matches_by_opponent(self.state, player, tally)}
            result |= {"return": found["return"], "score": found["score"], "episodes": int(tally.count.sum())}
        self.state.set_trained_weights(name, found["state"])
        if self.progress is not None:
            done = sum(each.total_steps for each in self.state.learning.values()) + found["steps"]
            self.progress(done, f"{name}: return {result['return']:.3f}  score {result['score']:.2f}")

    def _result(self, number: int, name: str) -> dict[str, Any]:
        return read_result(self.store, _task(number, name), self.state.roster)

    def _add_steps(self, number: int, name: str) -> None:
        """Add the environment steps of a completed training to the player's counts."""
        steps = self._result(number, name)["steps"]
        self.state.learning[name].steps += steps
        self.state.learning[name].total_steps += steps

    def _first_draw_margin(self) -> float:
        """Return the given draw margin, or measure it between the first players."""
        if not self._measures_draw_margin:
            return self.config.draw_margin or 0.0
        task = self._margin_task(MARGIN_TASK)
        results = gather(self.coordinator.executor, [task])  # no other task runs at the start
        return measured_draw_margin(results[task.key])

    def _measure_draw_margin(self, number: int) -> None:
        """Submit the measurement of an iteration's draw margin."""
        if number == 1 or not self._measures_draw_margin:  # no player has trained since the first measurement
            return
        task = self._margin_task(f"{number}/{MARGIN_TASK}")

        def commit(results: MatchupResults) -> None:
            with self.store.step(task.key) as result:
                result["draw_margin"] = measured_draw_margin(results)

        self.coordinator.submit(task, commit, lane="learn")

    def _draw_margin(self, number: int) -> float:
        """Wait for the draw margin of an iteration's matches and return it."""
        self.coordinator.wait("learn")
        key = f"{number}/{MARGIN_TASK}"
        if not self.store.done(key):
            return self.state.draw_margin
        return self.store.result(key, {"draw_margin": float})["draw_margin"]

    @property
    def _measures_draw_margin(self) -> bool:
        return self.config.draw_margin is None and not self.game.zero_sum and not self.game.shared

    def _margin_task(self, key: str) -> RemoteTask:
        """Return a task that plays single episodes between the first learning, or latest, player of each seat."""
        c, state = self.config, self.state
        pair = []
        for seat in self.game.seats:
            members = state.members(seat.role)
            pair.append(members.index([*state.roster.learning(seat.role), members[-1]][0]))
        number = c.episodes_per_matchup
        ones, sampling = torch.ones(number, dtype=torch.int64), PayoffSamplingConfig(1, None, c.device, c.eval_num_envs)
        return payoff_task(key, self.game, state.pools(), torch.tensor([pair] * number), ones, c.seed, sampling)

    # ---------------------------------------------------------------- store

    @contextlib.contextmanager
    def _rollback_on_error(self) -> Iterator[None]:
        """Restore the stored state if the block fails or is interrupted."""
        try:
            yield
        except BaseException:
            self._restore()
            raise

    def _restore(self) -> None:
        """Set the state of the run from its store."""
        self.coordinator.cancel()
        drop_trainings(self.id)
        self.finished = max(self.store.iterations(SUMMARY_FIELDS, ("return", "score", "nash_conv")), default=-1)
        self.payoff_filler: PayoffFiller | None = None
        description, c = builder_validation.describe_builder(self.builder), self.config
        self.state = LeagueState(self.store, description, self.train, c.seed, c.decay, self.device)

    def evaluate(self) -> PayoffTable:
        """Complete the payoff table of all frozen players and the random policy, and return it."""
        with self._rollback_on_error():
            self._filler().fill("payoffs")
            return self._filler().table

    def _filler(self) -> PayoffFiller:
        """Return the filler of the payoff table; the first call submits cells that were planned before."""
        if self.payoff_filler is None:
            c = self.config
            sampling = PayoffSamplingConfig(
                c.episodes_per_matchup, None, c.device, c.eval_num_envs, self.state.draw_margin
            )
            self.payoff_filler = PayoffFiller(self.store, self.coordinator, sampling, c.seed)
            self.payoff_filler.resume()
        return self.payoff_filler


MARGIN_TASK = "even"
"""Last word in the names of tasks that measure draw margins; seeds of their episodes are derived from the names."""


def _task(number: int, name: str) -> str:
    return f"{number}/train/{name}"
