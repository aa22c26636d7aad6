"""Counts, order and staleness of the queue between actors and learner."""

import random
import threading
import time
import warnings

import pytest

from gpu_envs.errors import CheckpointError
from trainers.runner.actors import trajectory_queue
from trainers.runner.actors.trajectory_queue import Trajectory, TrajectoryQueue


def rollout(number, version=0):
    return Trajectory(number, version, 64, {}, {})


def counts(queue):
    return {name: getattr(queue.accounts, name) for name in ("started", "learned", "dropped", "lost")}


def test_actor_waits_while_too_many_rollouts_are_on_their_way():
    queue = TrajectoryQueue(max_staleness=1)
    assert [queue.begin(), queue.begin()] == [0, 1]
    versions = []
    waiting = threading.Thread(target=lambda: versions.append(queue.begin()))
    waiting.start()
    waiting.join(0.05)
    assert versions == []
    queue.put(rollout(0))
    queue.take()
    waiting.join(0.05)
    assert versions == []  # a rollout that is learned from is on its way
    queue.learned()
    waiting.join(60)
    assert versions == [2]


def test_rollouts_in_order_are_never_staler_than_the_bound():
    queue = TrajectoryQueue(max_staleness=3)
    versions = {}
    for _ in range(20):
        while queue.on_their_way <= queue.max_staleness:
            versions[number] = queue.version if (number := queue.begin()) is not None else None
        for number in sorted(versions.keys() - {None}):
            queue.put(rollout(number, versions.pop(number)))
        trajectory = queue.take()
        assert 0 <= queue.version - trajectory.version <= 3
        queue.learned()
    assert queue.accounts.dropped == 0
    assert queue.accounts.staleness == [1, 1, 1, 17]


def test_overtaken_rollout_is_dropped_and_counted():
    queue = TrajectoryQueue(max_staleness=2)
    slow = queue.begin()
    for _ in range(3):
        queue.put(rollout(queue.begin(), queue.version))
        queue.take()
        queue.learned()
    queue.put(rollout(slow, version=0))
    queue.put(rollout(queue.begin(), queue.version))
    assert queue.take().version == 3
    assert counts(queue) == {"started": 5, "learned": 3, "dropped": 1, "lost": 0}


def test_rollout_counts_once():
    queue = TrajectoryQueue(max_staleness=1)
    number = queue.begin()
    assert queue.put(rollout(number))
    assert not queue.put(rollout(number))  # a copy
    queue.take()
    assert not queue.put(rollout(number))
    queue.learned()
    queue.learned()
    lost = queue.begin()
    queue.lose(lost)
    queue.lose(lost)
    assert not queue.put(rollout(lost))  # its actor was given up
    assert not queue.put(rollout(99))
    assert counts(queue) == {"started": 2, "learned": 1, "dropped": 0, "lost": 1}


def test_state_counts_what_is_on_its_way_as_lost():
    queue = TrajectoryQueue(max_staleness=2)
    queue.register()
    for _ in range(3):
        queue.put(rollout(queue.begin()))
    queue.take()
    state = queue.state_dict()
    assert {name: state[name] for name in ("actors", "started", "learned", "dropped", "lost")} == {
        "actors": 1, "started": 3, "learned": 1, "dropped": 0, "lost": 2,
    }  # fmt: skip
    restored = TrajectoryQueue(max_staleness=1)
    restored.load_state_dict(state)
    assert (restored.version, restored.begin(), restored.register()) == (1, 3, 1)
    assert restored.accounts.staleness == [1, 0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lost": -1}, "actors.lost: expected a count, got -1"),
        ({"started": "3"}, "actors.started: expected a count, got '3'"),
        ({"staleness_7": None}, "actors.staleness_7: expected a count, got None"),
        ({"dropped": 7}, "actors: expected counts that add up"),
        ({"staleness_0": 0, "staleness_20000000": 1}, "actors: expected counts that add up"),
    ],
)
def test_wrong_state_is_refused(changes, message):
    state = {"actors": 1, "started": 3, "learned": 1, "dropped": 0, "lost": 2, "staleness_0": 1, **changes}
    with pytest.raises(CheckpointError, match=message):
        TrajectoryQueue(max_staleness=1).load_state_dict(state)


def test_error_of_an_actor_reaches_the_learner():
    queue = TrajectoryQueue(max_staleness=1)
    queue.fail(ValueError("first"))
    queue.fail(ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        queue.take()


def test_stop_ends_the_wait_of_the_learner():
    queue, results = TrajectoryQueue(max_staleness=1), []
    waiting = threading.Thread(target=lambda: results.append(queue.take()))
    waiting.start()
    queue.stop()
    waiting.join(60)
    assert results == [None]


def test_learner_that_waits_long_warns_once(monkeypatch):
    queue, waits = TrajectoryQueue(max_staleness=1), []

    def wait_for(predicate, seconds):
        waits.append(seconds)
        if sum(waits) > 3 * trajectory_queue.WARN_SECONDS:
            queue.stop()
        return predicate()

    monkeypatch.setattr(queue._changed, "wait_for", wait_for)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert queue.take() is None
    assert ["no actor has begun a rollout" in str(warning.message) for warning in caught] == [True]


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_exact_with_threads_that_fail_at_random(seed):
    """Every rollout that began is learned from, dropped or lost, whatever threads do."""
    queue, bound = TrajectoryQueue(max_staleness=4), 4

    def act(generator):
        while (number := queue.begin()) is not None:
            version = queue.version
            time.sleep(generator.random() * 0.002)
            if generator.random() < 0.2:
                queue.lose(number)
            else:
                queue.put(rollout(number, version))

    actors = [threading.Thread(target=act, args=(random.Random(seed * 10 + index),)) for index in range(4)]
    for actor in actors:
        actor.start()
    numbers, generator = [], random.Random(seed)
    for _ in range(100):
        trajectory = queue.take()
        assert 0 <= queue.version - trajectory.version <= bound
        assert queue.on_their_way <= bound + 1
        numbers.append(trajectory.number)
        time.sleep(generator.random() * 0.001)
        queue.learned()
    queue.close()
    for actor in actors:
        actor.join(60)
    totals = counts(queue)
    assert len(set(numbers)) == len(numbers) == totals["learned"] == sum(queue.accounts.staleness) == queue.version
    assert totals["started"] == totals["learned"] + totals["dropped"] + totals["lost"]
    assert totals["lost"] > 0
