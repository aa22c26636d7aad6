"""The loop of a league: players train against each other and their past, as a league builder decides.

In every iteration each learning player trains for a number of environment steps against the opponents that the builder
names. Opponents are resampled for every episode. A player trains in its own worlds, and only the player whose match
it is learns from it; or it shares its worlds with players of the other roles, and all learn when they meet. Other
learning opponents play with their weights from the start of the iteration. After the iteration the builder's
transitions change the league. In `league.leagues.async_league` players do not wait for each other.
"""

from __future__ import annotations

import contextlib
import functools
import math
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

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.settings import check_settings, setting
from gpu_envs.utils.summaries import Summarized, Summary
from league.evaluation.nash_conv import UNKNOWN, Evaluation, is_evaluated
from league.evaluation.payoff_filler import PayoffFiller, PayoffSamplingConfig, payoff_task
from league.executors.coordinator import Coordinator, gather
from league.executors.tasks import Executor, LazyValue, RemoteTask
from league.leagues import builder_validation
from league.leagues.builder import LeagueBuilder, LeagueResult
from league.leagues.iteration_summary import change_text, iteration_summary, read_result, training_result
from league.leagues.league_state import LEARNER_STATE, LeagueState
from league.leagues.player import Change, Enter, Freeze
from league.leagues.training_group import MAX_WORKER_TRAININGS, TrainingGroup, drop_trainings, group_key, train_group
from league.matchups.matchups import MatchupResults
from league.matchups.payoff_table import PayoffTable
from league.policies.population import Population
from league.storage.records import SUMMARY_FIELDS
from league.storage.run_config import training, write_summary
from league.storage.run_store import RunStore, derive_named_seed
from trainers.base.random_streams import SEEDS
from trainers.models.policy import PolicyProtocol


@dataclass(frozen=True)
class LeagueConfig:
    """Settings of a league that do not depend on its builder."""

    iterations: int = setting(20, ge=0)
    """Number of iterations; every player trains once per iteration, if the league is not asynchronous."""
    steps: int = setting(50_000, ge=1)
    """Environment steps per iteration of each player, or of each group of players that share their worlds.
    They are rounded up to whole rollouts."""
    decay: float = setting(0.99, gt=0, le=1)
    """Factor by which each new game reduces the weight of earlier games in a win rate."""
    draw_margin: float | None = None
    """Largest difference of both seats' returns that counts as a draw; with more seats only equal returns do.
    None: 0 if the game is zero-sum or symmetric; otherwise the margin with which both seats win equally often.
    It is measured between the first learning players of both seats, at the start and again in every iteration.
    Scores in the payoff table use the first measurement."""
    episodes_per_matchup: int = setting(1_000, ge=1)
    """Episodes per cell of the payoff table of all frozen players, which is completed at the end."""
    max_payoff_cells: int | None = setting(10_000, ge=1)
    """Largest number of cells of the payoff table with more than two seats; None: no limit.
    With more policies it has those at equal distances, the first and last included; the report says how many."""
    eval_num_envs: int = setting(16_384, ge=1)
    """Largest number of environments that play payoff cells at once."""
    asynchronous: bool = False
    """Train every player, or group, again at once when its training ends, without waiting for the others.
    An iteration then ends when the number of its trainings is the number of groups, whichever they are.
    The result depends on the order in which workers finish. See `league.leagues.async_league.AsyncLeague`."""
    seed: int = setting(0, ge=0, lt=SEEDS)
    """Random seed of the run."""
    device: str = "cpu"
    """Device for training and simulation: "cpu", "cuda" or "cuda:<i>". On the command line a GPU is the default."""
    callback: tuple[str, ...] = setting((), by_name=True)
    """Functions "module:NAME" that are called after every iteration with its summary, a dictionary."""
    train_overrides: dict[str, Any] = field(default_factory=dict)
    """Training setting of all learners that replaces the preset's, such as num_envs=128 or learner.gamma=0.95.
    Without `total_steps`, schedules end after `iterations * steps`."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)


class League(Summarized):
    """Run of a league. All progress is in its store: a resumed run skips tasks that are complete."""

    asynchronous = False
    """Whether the class runs configurations that are asynchronous."""

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
            store: Store of the run, whose game has two or more seats.
            config: Configuration that the run was created with; `iterations` may differ.
            builder: Builder that the run was created with.
            progress: Called after each player's training.
            executor: Executor of training and payoff tasks; None: this process. Results of synchronous leagues do not
                depend on it.

        Raises:
            ConfigError: The game, configuration and builder do not fit each other.
            CheckpointError: The run was created with another builder, or is damaged.
        """
        if config.asynchronous != self.asynchronous:
            right = "AsyncLeague" if config.asynchronous else "League"
            raise ConfigError(
                f"asynchronous = {config.asynchronous}: expected the class {right}, got {type(self).__name__}; "
                f"use {right}(store, config, builder)"
            )
        if config.draw_margin is not None and len(store.game.seats) > 2:
            raise ConfigError(
                f"draw_margin = {config.draw_margin}: expected None in a game of more than two seats; leave it out"
            )
        self.store, self.game, self.config, self.builder, self.progress = store, store.game, config, builder, progress
        self.callbacks: list[Callable[[dict[str, Any]], object]] = [
            named_object("callback", name, ["row"]) for name in config.callback
        ]
        self.populations: dict[str, Population] = store.populations
        self.coordinator, self.id = Coordinator(store, executor), uuid.uuid4().hex
        weakref.finalize(self, drop_trainings, self.id)
        self.device: str = self.coordinator.home(config.device)
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

    def _summary(self) -> Summary:
        return self.store.summary_with(builder=self.builder, iterations=max(self.finished, 0), device=self.device)

    def run(self) -> list[dict[str, Any]]:
        """Run all remaining iterations, complete the payoff table, and return the summaries of all iterations."""
        if self.finished < 0:
            self.begin()
        self._evaluate()  # evaluations that an interrupted run left open
        while self.finished < self.config.iterations:
            self.iterate(self.finished + 1)
        self.evaluate()
        self._evaluate(finish=True)
        self.coordinator.cancel()  # an asynchronous league may measure a draw margin that no iteration needs
        write_summary(self.store)
        return list(self.store.iterations().values())

    def begin(self) -> None:
        """Add the first players and their frozen copies."""
        players = builder_validation.first_players(self.builder, self.game)
        with self._rollback_on_error(), self.store.step("0/begin"):
            for role in self.game.roles:
                self.store.add_random_policy(role)
            self.state.apply(0, [Enter(player) for player in players])
            self.state.draw_margin = self._first_draw_margin()
            frozen = [Freeze(player.name) for player in players if self.builder.frozen_at_start(player)]
            self.state.apply(0, frozen)
            row = iteration_summary(self.state.roster, {}, [change_text(change) for change in frozen])
            self.state.save()
            self.store.put_iteration(0, {**row, **UNKNOWN, "draw_margin": self.state.draw_margin})
        self.finished = 0
        self._evaluate()
        self._call_back(0)

    def iterate(self, number: int) -> None:
        """Train every learning player, then apply the builder's transitions."""
        start, groups = time.perf_counter(), builder_validation.training_groups(self.builder, self.state)
        with self._rollback_on_error():
            self.submit_draw_margin(number, LANE)
            self._filler().plan(f"{number - 1}/payoffs", self.config.eval_num_envs)  # cells are played during training
            self.coordinator.wait(LANE)
            draw_margin = self.draw_margin(number)
            pools = self.state.pools()
            for group in groups:
                self._submit(number, group, pools, draw_margin)
            self.coordinator.wait(LANE)
            results = {name: result for group in groups for name, result in self._results(number, group).items()}
            self.state.add_steps(results)
            self.state.add_win_rates(results)
            changes = self._changes(number, results)
            with self.store.step(f"{number}/change"):
                for name in results:
                    self.state.publish_weights(name, self.state.trained_weights(name))
                self.state.apply(number, changes)
                self.state.keep_trainings(builder_validation.training_groups(self.builder, self.state))
                texts = [change_text(change) for change in changes]
                row = {**iteration_summary(self.state.roster, results, texts), **UNKNOWN, "draw_margin": draw_margin}
                self.state.save()
                self.store.put_iteration(number, {**row, "seconds": time.perf_counter() - start})
        self.finished = number
        self.state.trained.clear()
        self._end_iteration(number)

    def _call_back(self, number: int) -> None:
        """Call the callbacks with the summaries of the iterations from a number on."""
        rows = self.store.iterations() if self.callbacks else {}
        for index in range(number, self.finished + 1):
            for callback in self.callbacks:
                callback({"iteration": index, **rows[index]})

    def _end_iteration(self, number: int) -> None:
        """Forget retired players, evaluate the iterations from a number on, call back, and publish their summaries."""
        for name in self.state.roster.retired:
            drop_trainings(self.id, name)
        self._evaluate()
        self._call_back(number)
        write_summary(self.store)

    def _evaluate(self, finish: bool = False) -> None:
        """Submit the evaluation of past iterations, or wait until all are complete."""
        if self.evaluation is not None:
            with self._rollback_on_error():
                (self.evaluation.finish if finish else self.evaluation.submit)()

    def _changes(self, number: int, results: Mapping[str, Mapping[str, Any]]) -> list[Change]:
        """Return the builder's transitions; after the last iteration all learning players are frozen, too."""
        changes = builder_validation.transitions(self.builder, self._league_result(number, number, results, [*results]))
        frozen = {change.player for change in changes if isinstance(change, Freeze)}
        if number == self.config.iterations:
            changes += [Freeze(name) for name in results if name not in frozen]
        return changes

    def _league_result(
        self, number: int, seed: str | int, results: Mapping[str, Mapping[str, Any]], trained: Sequence[str]
    ) -> LeagueResult:
        """Return what the builder decides by; its random generator depends on the word `seed`."""
        learning = {name: self.state.learning[name] for name in self.state.roster.learning()}
        return LeagueResult(
            number,
            self.state.roster,
            {name: player.steps for name, player in learning.items()},
            {name: player.total_steps for name, player in learning.items()},
            {name: results[name]["return"] if name in results else math.nan for name in learning},
            np.random.default_rng(derive_named_seed(self.config.seed, seed, "builder")),
            trained,
        )

    def _submit(
        self, number: int, group: TrainingGroup, pools: Mapping[str, Sequence[PolicyProtocol]], draw_margin: float
    ) -> None:
        """Submit the training task of a group, unless it is complete."""
        call = self._training_task(number, group, pools, draw_margin)
        commit = functools.partial(self._commit_training, number, group)
        self.coordinator.submit(call, commit, lane=LANE)

    def _training_task(
        self, number: int, group: TrainingGroup, pools: Mapping[str, Sequence[PolicyProtocol]], draw_margin: float
    ) -> RemoteTask:
        """Return the training of a group with a number, which continues the one with the number before."""
        task, state = training_task_name(number, group), f"{LEARNER_STATE}{group_key(group)}"
        previous = training_task_name(number - 1, group) if self.store.has_state(state) else None
        read = functools.partial(self.store.state, state, self.device)
        arguments = {
            "run": self.id,
            "group": group,
            "previous": previous,
            "task": task,
            "game": self.game,
            "draw": builder_validation.matchup_distribution(self.builder, self.state, group),
            "config": self.state.config(group[0]),
            "state": LazyValue(read if previous is not None else functools.partial(self._start_weights, group)),
            "draw_margin": draw_margin,
            "seed": derive_named_seed(self.config.seed, task),
            "steps": builder_validation.group_steps(self.builder, self.state, group, self.config.steps),
            "keep": MAX_WORKER_TRAININGS if self.coordinator.executor.remote else None,
        }
        return RemoteTask(task, train_group, pools, arguments, True, self.config.device, self.train.num_envs)

    def _start_weights(self, group: TrainingGroup) -> dict[str, Any]:
        """Return the weights of a group's players by role, from which their training starts."""
        players = self.state.roster.players
        return {players[name].role: self.store.state(f"live.{name}", self.device) for name in group}

    def _commit_training(self, number: int, group: TrainingGroup, output: Mapping[str, Any]) -> None:
        """Commit the results of a group's training."""
        with self.store.step(training_task_name(number, group)) as result:
            result |= self._put_training(group, output)
        self._report(output["steps"], result["players"])

    def _put_training(self, group: TrainingGroup, output: Mapping[str, Any]) -> dict[str, Any]:
        """Store the state of a group's training in the open step, and return the result of the step."""
        self.store.put_state(f"{LEARNER_STATE}{group_key(group)}", output["state"])
        for name in group:
            self.state.set_trained_weights(name, output["state"])
        results = {name: training_result(self.state, name, group, output["tally"]) for name in group}
        return {"steps": output["steps"], "players": results}

    def _report(self, steps: int, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Count the environment steps of a training and report its results."""
        self.steps += steps
        if self.progress is not None:
            texts = (
                f"{name}: return {result['return']:.3f}  score {result['score']:.2f}"
                for name, result in results.items()
            )
            self.progress(self.steps, "  ".join(texts))

    def _results(self, number: int, group: TrainingGroup) -> dict[str, dict[str, Any]]:
        return read_result(self.store, training_task_name(number, group), group, self.state.roster)

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
        self.finished: int = max(self.store.iterations(SUMMARY_FIELDS, ("return", "score", "nash_conv")), default=-1)
        trainings = [task for task in self.store.tasks() if TRAIN in task]
        self.steps: int = sum(self.store.result(task, {"steps": int})["steps"] for task in trainings)
        self.payoff_filler: PayoffFiller | None = None
        description, c = f"{type(self.builder).__name__}({getattr(self.builder, 'config', '')!r})", self.config
        self.state: LeagueState = LeagueState(self.store, description, self.train, c.seed, c.decay, self.device)

    # ---------------------------------------------------------------- draw margins

    def _first_draw_margin(self) -> float:
        """Return the draw margin of the configuration, or measure it between the first players."""
        if not self._measures_draw_margin:
            return self.config.draw_margin or 0.0
        task = self._draw_margin_task(MARGIN_TASK)
        return _measured_draw_margin(gather(self.coordinator.executor, [task])[task.key])

    def submit_draw_margin(self, number: int, lane: str) -> None:
        """Submit the measurement of an iteration; in the first one, no player has trained since the start."""
        if number == 1 or not self._measures_draw_margin:
            return
        task = self._draw_margin_task(f"{number}/{MARGIN_TASK}")

        def commit(results: MatchupResults) -> None:
            with self.store.step(task.key) as result:
                result["draw_margin"] = _measured_draw_margin(results)

        self.coordinator.submit(task, commit, lane=lane)

    def draw_margin(self, number: int) -> float:
        """Return the draw margin of an iteration, or the latest one before it that is measured."""
        for iteration in range(number, 1, -1) if self._measures_draw_margin else ():
            key = f"{iteration}/{MARGIN_TASK}"
            if self.store.done(key):
                return self.store.result(key, {"draw_margin": float})["draw_margin"]
        return self.state.draw_margin

    @property
    def _measures_draw_margin(self) -> bool:
        game = self.game
        return self.config.draw_margin is None and len(game.seats) == 2 and not game.zero_sum and not game.shared

    def _draw_margin_task(self, key: str) -> RemoteTask:
        """Return a task that plays single episodes of the first learning, or latest, player of each seat."""
        state, c, pair = self.state, self.config, []
        for seat in self.game.seats:
            members = state.members(seat.role)
            pair.append(members.index([*state.roster.learning(seat.role), members[-1]][0]))
        ones = torch.ones(c.episodes_per_matchup, dtype=torch.int64)
        matchups = torch.tensor([pair] * c.episodes_per_matchup)
        sampling = PayoffSamplingConfig(1, None, c.device, c.eval_num_envs)
        return payoff_task(key, self.game, state.pools(), matchups, ones, c.seed, sampling)

    # ---------------------------------------------------------------- payoff table

    def evaluate(self) -> PayoffTable:
        """Complete the payoff table of the frozen players and the random policy, and return it."""
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
            self.payoff_filler = PayoffFiller(self.store, self.coordinator, sampling, c.seed, c.max_payoff_cells)
            self.payoff_filler.resume()
        return self.payoff_filler


TRAIN = "/train/"
"""Middle of the names of training tasks."""
MARGIN_TASK = "even"
"""Last word in the names of tasks that measure draw margins; seeds of their episodes are derived from the names."""
LANE = "learn"
"""Lane of the coordinator for trainings and draw margins."""


def training_task_name(number: int, group: TrainingGroup) -> str:
    """Return the name of the task of a group's training with a number, in a synchronous league the iteration."""
    return f"{number}{TRAIN}{group_key(group)}"


def balanced_draw_margin(difference: Tensor) -> float:
    """Compute the draw margin for which both seats win equally often.

    The mean is unsuitable if some episodes have large differences, and the median if many episodes have the same one.

    Args:
        difference: (N,) return of the first seat minus the return of the second, for each episode.
    """
    values = difference.double().sort().values
    distinct = values.unique()
    lines = torch.cat([distinct, (distinct[1:] + distinct[:-1]) / 2])
    lost, won = torch.searchsorted(values, lines), len(values) - torch.searchsorted(values, lines, right=True)
    return float(lines[(won - lost).abs().argmin()])


def _measured_draw_margin(results: MatchupResults) -> float:
    """Compute the draw margin from the results of single episodes."""
    first, second = results.total.T
    return balanced_draw_margin(first - second)
