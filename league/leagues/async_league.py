"""A league without barrier: every group of players trains on, whatever the others do.

When the training of a group ends, one step of the store counts its episodes, publishes its weights, and applies the
builder's transitions. Then the group trains again at once, against the opponents that the builder names by the newest
win rates, with their newest weights. Payoff cells are planned as soon as a policy is frozen.

A synchronous league gives equal results with any workers. Here the results depend on the order in which workers finish.
These rules hold for every order, and after a kill at any point:

- Every training is counted once, with its environment steps and its matches. A training that was interrupted is lost
  as a whole, and starts again against the newest opponents.
- Opponents are those that the builder named when the training was submitted. Episodes go on from one training of a
  group to the next, with the opponents of their start.
- Win rates have no games against the earlier weights of a player that has restarted meanwhile.
- An iteration ends after as many trainings as there were groups at its start. A fast group has more of them than a
  slow one.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from gpu_envs.errors import CheckpointError, ConfigError
from league.evaluation.nash_conv import UNKNOWN
from league.leagues import builder_validation
from league.leagues.apply_transitions import apply_transitions
from league.leagues.iteration_summary import change_text, iteration_summary, merge_results, read_result
from league.leagues.league import LANE, TRAIN, League, training_task_name
from league.leagues.training_group import SEPARATOR, TrainingGroup, group_key
from league.leagues.transitions import Change, Enter, Freeze, Retire
from league.storage.run_store import RunStore
from trainers.base.serialization import check_fields

__all__ = ["AsyncLeague", "AsyncSchedule"]

KEY = "asynchronous"  # key of the schedule in the store
MARGINS = "margins"  # lane of the coordinator for draw margins


@dataclass
class AsyncSchedule:
    """Trainings of an asynchronous league that were completed, as stored."""

    iteration: int = 0
    """Number of the current iteration; 0: none has begun."""
    left: int = 0
    """Number of trainings until the iteration ends."""
    tasks: list[str] = field(default_factory=list)
    """Names of the completed training tasks of the iteration."""
    changes: list[str] = field(default_factory=list)
    """Transitions in the iteration, see `iteration_summary.change_text`."""
    trainings: dict[str, int] = field(default_factory=dict)
    """Number of completed trainings by group, in all iterations."""

    def begin(self, number: int, trainings: int) -> None:
        """Begin an iteration that ends after some number of trainings."""
        self.iteration, self.left, self.tasks, self.changes = number, trainings, [], []

    def count(self, task: str, group: str, number: int) -> None:
        """Count a completed training, the one with a number of its group."""
        self.tasks.append(task)
        self.trainings[group] = number
        self.left -= 1

    @classmethod
    def read(cls, store: RunStore) -> AsyncSchedule:
        """Read the schedule of a run, a new one if there is none; raise CheckpointError if it is damaged."""
        data = store.get(KEY, None, dict[str, Any])
        if data is None:
            return cls()
        found = cls(**check_fields(f"{store.file}: kv: {KEY}", data, get_type_hints(cls)))
        if lost := [task for task in found.tasks if not store.done(task)]:
            raise CheckpointError(f"{store.file}: kv: {KEY}: tasks: expected a completed task, got {lost[0]!r:.80}")
        return found


class AsyncLeague(League):
    """Run of an asynchronous league, see the documentation of the module. The arguments are those of `League`."""

    asynchronous = True

    def iterate(self, number: int) -> None:
        """Train all groups until an iteration has ended; trainings that are under way go on.

        Raises:
            ConfigError: No player is learning.
        """
        with self._rollback_on_error():
            self._filler()  # submits the planned cells of an interrupted run
            if self._schedule.iteration < number:
                self._begin_iteration(number)
            self.margins.submit(self._schedule.iteration, MARGINS)
            self._start_idle_groups()
            while self.finished < number:
                self.coordinator.wait(once=True)
        self._end_iteration()

    def _restore(self) -> None:
        super()._restore()
        self._schedule: AsyncSchedule = AsyncSchedule.read(self.store)
        self._running: set[TrainingGroup] = set()
        self._row_began: float = time.perf_counter()
        self._by_player: dict[str, list[Mapping[str, Any]]] = {}  # of the current iteration, by player
        for task in self._schedule.tasks:
            self._add_results(read_result(self.store, task, _group_of(task), self.state.roster))

    def _add_results(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        for name, each in results.items():
            self._by_player.setdefault(name, []).append(each)

    def _begin_iteration(self, number: int) -> None:
        self._schedule.begin(number, len(self._groups()))
        self._by_player.clear()
        self._row_began = time.perf_counter()

    def _groups(self) -> list[TrainingGroup]:
        """Return the groups of learning players; raise ConfigError if there are none."""
        if not (groups := builder_validation.training_groups(self.builder, self.state)):
            raise ConfigError("asynchronous = True: expected a learning player at any time, got none; use False")
        return groups

    def _start_idle_groups(self) -> None:
        """Submit a training of every group without one, unless the last iteration needs no more."""
        busy = {name for group in self._running for name in group}
        idle = [group for group in self._groups() if busy.isdisjoint(group)]
        if self._schedule.iteration >= self.config.iterations:
            needed = self._schedule.left - len(self._running)
            idle = idle[: max(needed, 0)] if self._schedule.iteration == self.config.iterations else []
        pools = self.state.pools() if idle else {}
        for group in idle:
            key = group_key(group)
            number = self._schedule.trainings.get(key, 0) + 1
            task = self._training_task(number, group, pools, self.margins.of(self._schedule.iteration))
            restarts = {name: own.restarts for name, own in self.state.learning.items()}
            commit = functools.partial(self._commit_and_apply, number, group, restarts)
            then = functools.partial(self._follow_up, f"{number}/{key}/payoffs")
            self._running.add(group)
            self.coordinator.submit(task, commit, then, lane=f"{LANE}/{key}")

    def _commit_and_apply(
        self, number: int, group: TrainingGroup, restarts: Mapping[str, int], found: Mapping[str, Any]
    ) -> None:
        """Commit a training, its weights and win rates, and the builder's transitions, in one step.

        Args:
            number: Number of the group's training.
            group: Names of the players.
            restarts: Restarts of all players when the training was submitted.
            found: Result of `train_group`.
        """
        task, schedule, learning = training_task_name(number, group), self._schedule, self.state.learning
        with self.store.step(task) as result:
            self._running.discard(group)
            result |= self._put_training(group, found)
            results = {name: {**each, "steps": found["steps"]} for name, each in result["players"].items()}
            self._add_results(results)
            self.state.add_steps(results)
            restarted = [name for name, before in restarts.items() if learning[name].restarts > before]
            self.state.add_win_rates(results, outdated=restarted)
            for name in group:
                self.state.publish_weights(name, self.state.trained_weights(name))
            schedule.count(task, group_key(group), number)
            ends = schedule.left <= 0 and (schedule.iteration < self.config.iterations or not self._running)
            changes = self._applicable_changes(task, group, ends)
            apply_transitions(self.state, schedule.iteration, changes)
            schedule.changes += map(change_text, changes)
            self.state.keep_trainings([*self._groups(), *self._running])
            if ends:
                self._put_row()
                self._begin_iteration(schedule.iteration + 1)
            self.store.put(KEY, dataclasses.asdict(schedule))
            self.state.save()
        self._report(found["steps"], results)

    def _applicable_changes(self, task: str, group: TrainingGroup, ends: bool) -> list[Change]:
        """Return the builder's transitions of a group, at the end of an iteration new players, and the last freezes."""
        iteration, learning = self._schedule.iteration, self.state.learning
        result = self._league_result(iteration, task, self._merged_results(), group)
        found = builder_validation.transitions(self.builder, result)
        found = [each for each in found if (ends if isinstance(each, Enter) else each.player in group)]
        if ends and iteration == self.config.iterations:
            done = {each.player for each in found if isinstance(each, Freeze | Retire)}
            names = self.state.roster.learning()
            found += [Freeze(name) for name in names if learning[name].steps and name not in done]
        return found

    def _merged_results(self) -> dict[str, dict[str, Any]]:
        """Return the results of the players in the current iteration."""
        return {name: merge_results(each) for name, each in self._by_player.items()}

    def _put_row(self) -> None:
        """Store the summary of the current iteration."""
        number = self._schedule.iteration
        row = iteration_summary(self.state.roster, self._merged_results(), self._schedule.changes)
        row |= {**UNKNOWN, "draw_margin": self.margins.of(number), "seconds": time.perf_counter() - self._row_began}
        self.store.put_iteration(number, row)

    def _follow_up(self, plan: str) -> None:
        """Start the next trainings, and plan the payoff cells of new frozen players."""
        self.finished = self._schedule.iteration - 1
        self._start_idle_groups()
        self._filler().plan(plan)


def _group_of(task: str) -> TrainingGroup:
    """Return the group of a training task."""
    return tuple(task.partition(TRAIN)[2].split(SEPARATOR))
