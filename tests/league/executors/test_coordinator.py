"""Calls done in any order: each committed once and in the order of its lane, after interruptions too."""

import functools
import random
from collections import deque

import calls_made
import numpy as np
import pytest
import toy_league

from league.executors.coordinator import Coordinator
from league.executors.tasks import LocalExecutor, RemoteTask
from league.storage import database
from league.storage.run_store import RunStore


class Shuffled:
    """Ends calls in any order, some of them twice, and gives back what was cancelled, too."""

    def __init__(self, seed: int) -> None:
        self.random, self.submitted, self.ended = random.Random(seed), [], []
        self.calls: list[RemoteTask] = []
        self.cancelled = 0

    @property
    def pending(self) -> int:
        return len(self.calls)

    def submit(self, task: RemoteTask) -> None:
        self.submitted.append(task.key)
        self.calls.append(task)

    def soon(self) -> bool:
        return bool(self.calls) and self.random.random() < 0.6

    def next(self, within=None):
        if within is not None and not self.soon():
            return None
        if self.ended and self.random.random() < 0.3:
            return self.random.choice(self.ended)
        call = self.calls.pop(self.random.randrange(len(self.calls)))
        self.ended.append((call.key, calls_made.run(call)))
        return self.ended[-1]

    def cancel(self) -> None:
        self.calls.clear()
        self.cancelled += 1

    def close(self) -> None:
        pass


def league(store: RunStore, executor, stop_after: int | None = None) -> list[str]:
    """Run chains of dependent calls in three lanes and return the commits in order."""
    coordinator, written = Coordinator(store, executor), []

    def commit(key: str, result: int) -> None:
        if len(written) == stop_after:
            raise KeyboardInterrupt
        with store.step(key) as record:
            record["result"] = result
            store.add_results([[0, 0]], toy_league.results(np.zeros((1, 2)), result))
        written.append(key)

    def give(lane: str, number: int) -> None:
        if number >= 6:
            return
        for index in (number, number + 1):  # two at a time
            call = RemoteTask(f"{lane}/{index}", calls_made.add, arguments={"a": index, "b": 10 * ord(lane)})
            follows = None if index == number else lambda: give(lane, number + 2)
            coordinator.submit(call, functools.partial(commit, call.key), follows, lane)
            coordinator.submit(call, functools.partial(commit, call.key), None, lane)  # twice: it counts once

    for lane in "abc":
        give(lane, 0)
    coordinator.wait("b")
    assert all(store.done(f"b/{n}") for n in range(6))
    coordinator.wait()
    return written


def test_each_call_is_committed_once_and_in_the_order_of_its_lane(tmp_path):
    with toy_league.start(tmp_path / "local") as store:
        league(store, LocalExecutor())
        expected = {task: store.result(task) for task in store.tasks() if "/" in task}
        cells = store.cells()
    assert len(expected) == 18
    for seed in range(20):
        with toy_league.start(tmp_path / str(seed)) as store:
            executor = Shuffled(seed)
            written = league(store, executor)
            for lane in "abc":
                assert [key for key in written if key[0] == lane] == [f"{lane}/{n}" for n in range(6)]
            assert sorted(executor.submitted) == sorted(expected)
            assert {task: store.result(task) for task in store.tasks() if "/" in task} == expected
            assert store.cells().count.tolist() == cells.count.tolist()


def test_interrupted_run_repeats_only_missing_tasks(tmp_path):
    for seed in range(10):
        with toy_league.start(tmp_path / str(seed)) as store:
            first, then = Shuffled(seed), Shuffled(100 + seed)
            with pytest.raises(KeyboardInterrupt):
                league(store, first, stop_after=seed)
            assert first.cancelled == 1
            assert first.pending == 0
            done = {task for task in store.tasks() if "/" in task}
            assert len(done) == seed
            for key in league(store, then):
                assert key not in done
            for lane in "abc":
                assert [key for key in store.tasks() if key[0] == lane and "/" in key] == [
                    f"{lane}/{n}" for n in range(6)
                ]
            assert not done & set(then.submitted)
            assert len(store.tasks()) == 19
            assert len(done) + len(then.submitted) == 18


def test_simultaneous_results_are_committed_together(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(Shuffled, "soon", lambda executor: bool(executor.calls))
    with toy_league.start(tmp_path / "run") as store:
        transaction = database.transaction
        monkeypatch.setattr(database, "transaction", lambda db: written.append(1) or transaction(db))
        league(store, Shuffled(1))
        assert len(store.tasks()) == 19
    assert len(written) < 9  # of 18 steps


def test_completed_task_still_triggers_its_follow_up(tmp_path):
    with toy_league.start(tmp_path / "run") as store:
        followed, coordinator = deque(), Coordinator(store, LocalExecutor())
        coordinator.submit(RemoteTask("start", calls_made.die), print, lambda: followed.append(1))
        assert not followed  # it has its turn
        coordinator.wait()
        assert followed
