"""A league without barrier: a group of players does not wait for other groups.

When the training of a group ends, one step of the store counts its episodes, publishes its weights, and applies the
builder's transitions. The next training of the group is submitted at once. Its opponents are those that the builder
names by the newest win rates, with their newest weights. Payoff cells are planned as soon as a policy is frozen.

A synchronous league gives equal results with any workers. Here the results depend on the order in which workers finish.
These rules are true for every order, and after a kill at any point:

- Every training is counted once, with its environment steps and its matches. An interrupted training is lost as a
  whole, and starts again against the newest opponents.
- The builder named every opponent when the training was submitted, or when an earlier training of the group was, whose
  last episodes continue. In them, an opponent acts with its newest weights.
- A training that was submitted before an opponent restarted adds no games against it to the win rates.
- If a run starts an iteration with n groups, the iteration ends after n trainings. A fast group has more trainings
  than a slow one.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from gpu_envs.errors import CheckpointError, ConfigError
from league.evaluation.nash_conv import UNKNOWN
from league.leagues import builder_validation
from league.leagues.iteration_summary import change_text, iteration_summary, merge_results, read_result
from league.leagues.league import LANE, TRAIN, League, training_task_name
from league.leagues.league_state import SCHEDULE
from league.leagues.player import Change, Enter, Freeze, Retire
from league.leagues.training_group import SEPARATOR, TrainingGroup, drop_trainings, group_key
from league.storage.run_store import RunStore
from trainers.base.serialization import check_fields

MARGINS = "margins"  # lane of the coordinator for draw margins


@dataclass
class AsyncSchedule:
    """Completed trainings of an asynchronous league, as stored."""

    iteration: int = 0
    """Number of the current iteration; 0: none has begun."""
    remaining: int = 0
    """Number of trainings until the iteration ends."""
    tasks: list[str] = field(default_factory=list)
    """Names of the completed training tasks of the iteration."""
    changes: list[str] = field(default_factory=list)
    """Transitions in the iteration, see `iteration_summary.change_text`."""
    trainings: dict[str, int] = field(default_factory=dict)
    """Number of completed trainings by group, in all iterations."""

    def begin(self, number: int, trainings: int) -> None:
        """Begin an iteration that ends after some number of trainings."""
        self.iteration, self.remaining, self.tasks, self.changes = number, trainings, [], []

    def count(self, task: str, group: str, number: int) -> None:
        """Count a completed training, the one with a number of its group."""
        self.tasks.append(task)
        self.trainings[group] = number
        self.remaining -= 1

    @classmethod
    def read(cls, store: RunStore) -> AsyncSchedule:
        """Read the schedule of a run, a new one if there is none; raise CheckpointError if it is damaged."""
        data = store.get(SCHEDULE, None, dict[str, Any])
        if data is None:
            return cls()
        schedule = cls(**check_fields(f"{store.file}: kv: {SCHEDULE}", data, get_type_hints(cls)))
        if lost := [task for task in schedule.tasks if not store.done(task)]:
            raise CheckpointError(
                f"{store.file}: kv: {SCHEDULE}: tasks: expected a completed task, got {lost[0]!r:.80}"
            )
        return schedule


class AsyncLeague(League):
    """Run of an asynchronous league, see the documentation of the module. It takes the arguments of `League`."""

    asynchronous = True

    def iterate(self, number: int) -> None:
        """Train all groups until an iteration has ended; other trainings continue.

        Raises:
            ConfigError: No player is learning.
        """
        with self._rollback_on_error():
            self._filler()  # submits the planned cells of an interrupted run
            if self._schedule.iteration < number:
                self._begin_iteration(number)
            if not self._running:  # interrupted trainings of groups that no longer exist may have been the last ones
                self._schedule.remaining = max(self._schedule.remaining, 1)
            self.submit_draw_margin(self._schedule.iteration, MARGINS)
            self._start_idle_groups()
            while self.finished < number:
                self.coordinator.wait(once=True)
        self._end_iteration(number)

    def _restore(self) -> None:
        super()._restore()
        self.id = uuid.uuid4().hex  # workers may have cached a training that is lost and will be repeated
        weakref.finalize(self, drop_trainings, self.id)
        self._schedule: AsyncSchedule = AsyncSchedule.read(self.store)
        self._running: set[TrainingGroup] = set()
        self._row_began: float = time.perf_counter()
        self._by_player: dict[str, list[Mapping[str, Any]]] = {}  # of the current iteration, by player
        for task in self._schedule.tasks:
            self._add_results(read_result(self.store, task, _group_of(task), self.state.roster))

    def _add_results(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        for name, result in results.items():
            self._by_player.setdefault(name, []).append(result)

    def _begin_iteration(self, number: int) -> None:
        groups = builder_validation.training_groups(self.builder, self.state)
        self._schedule.begin(number, max(len(groups), len(self._running)))
        self._by_player.clear()
        self._row_began = time.perf_counter()

    def _start_idle_groups(self) -> None:
        """Submit a training of every group without one, unless the last iteration needs no more.

        Groups with the fewest trainings come first. Otherwise, an interrupt in the last iteration could leave a group
        without any training.
        """
        if self._schedule.iteration > self.config.iterations:
            return
        if not (groups := builder_validation.training_groups(self.builder, self.state)):
            raise ConfigError("asynchronous = True: expected a learning player at any time, got none; use False")
        busy = {name for group in self._running for name in group}
        idle = [group for group in groups if busy.isdisjoint(group)]
        idle.sort(key=lambda group: self._schedule.trainings.get(group_key(group), 0))
        if self._schedule.iteration == self.config.iterations:
            idle = idle[: max(self._schedule.remaining - len(self._running), 0)]
        pools = self.state.pools() if idle else {}
        for group in idle:
            key = group_key(group)
            number = self._schedule.trainings.get(key, 0) + 1
            task = self._training_task(number, group, pools, self.draw_margin(self._schedule.iteration))
            restarts = {name: player.restarts for name, player in self.state.learning.items()}
            commit = functools.partial(self._commit_and_apply, number, group, restarts)
            then = functools.partial(self._follow_up, f"{number}/{key}/payoffs")
            self._running.add(group)
            self.coordinator.submit(task, commit, then, lane=f"{LANE}/{key}")

    def _commit_and_apply(
        self, number: int, group: TrainingGroup, restarts: Mapping[str, int], output: Mapping[str, Any]
    ) -> None:
        """Commit a training, its weights and win rates, and the builder's transitions, in one step.

        Args:
            number: Number of the group's training.
            group: Names of the players.
            restarts: Restarts of all players when the training was submitted.
            output: Result of `train_group`.
        """
        task, schedule, learning = training_task_name(number, group), self._schedule, self.state.learning
        with self.store.step(task) as result:
            self._running.discard(group)
            result |= self._put_training(group, output)
            results = {name: {**values, "steps": output["steps"]} for name, values in result["players"].items()}
            self._add_results(results)
            self.state.add_steps(results)
            restarted = [name for name, count in restarts.items() if learning[name].restarts > count]
            self.state.add_win_rates(results, outdated=restarted)
            for name in group:
                self.state.publish_weights(name, self.state.trained_weights(name))
            schedule.count(task, group_key(group), number)
            ends = schedule.remaining <= 0 and (schedule.iteration < self.config.iterations or not self._running)
            changes = self._changes_of(task, group, ends)
            self.state.apply(schedule.iteration, changes)
            schedule.changes += map(change_text, changes)
            groups = builder_validation.training_groups(self.builder, self.state)
            self.state.keep_trainings([*groups, *self._running])
            if ends:
                self._put_row()
                self._begin_iteration(schedule.iteration + 1)
            self.store.put(SCHEDULE, dataclasses.asdict(schedule))
            self.state.save()
        self._report(output["steps"], results)

    def _changes_of(self, task: str, group: TrainingGroup, ends: bool) -> list[Change]:
        """Return the builder's transitions after a training, and the freezes of all players at the end of the run."""
        iteration, roster, learning = self._schedule.iteration, self.state.roster, self.state.learning
        result = self._league_result(iteration, task, self._merged_results(), group)
        changes: list[Change] = []
        for change in builder_validation.transitions(self.builder, result):
            if (change.player.name not in roster.players) if isinstance(change, Enter) else change.player in group:
                changes.append(change)
        if ends and iteration == self.config.iterations:
            done = {change.player for change in changes if isinstance(change, Freeze | Retire)}
            changes += [Freeze(name) for name in roster.learning() if learning[name].steps and name not in done]
        return changes

    def _merged_results(self) -> dict[str, dict[str, Any]]:
        """Return the results of the players in the current iteration."""
        return {name: merge_results(trainings) for name, trainings in self._by_player.items()}

    def _put_row(self) -> None:
        """Store the summary of the current iteration."""
        number = self._schedule.iteration
        row = iteration_summary(self.state.roster, self._merged_results(), self._schedule.changes)
        row |= {**UNKNOWN, "draw_margin": self.draw_margin(number), "seconds": time.perf_counter() - self._row_began}
        self.store.put_iteration(number, row)

    def _follow_up(self, plan: str) -> None:
        """Start the next trainings, and plan the payoff cells of new frozen players."""
        if self.finished < self._schedule.iteration - 1:
            self.finished: int = self._schedule.iteration - 1
            if self.finished < self.config.iterations:
                self.submit_draw_margin(self._schedule.iteration, MARGINS)
        self._start_idle_groups()
        self._filler().plan(plan)


def _group_of(task: str) -> TrainingGroup:
    """Return the group of a training task."""
    return tuple(task.partition(TRAIN)[2].split(SEPARATOR))
