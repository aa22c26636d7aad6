"""Calls done elsewhere: the same results, each committed once and in order, whatever dies meanwhile."""

import functools
import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

import calls_made
import numpy as np
import pytest
import torch
import toy_league
from calls_made import RPS, SPACE, gathered, network, plain
from exact_games import random_table, tree_of

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError, MissingExtraError
from league.exact import TablePolicy, table_policy
from league.executors import (
    Coordinator,
    LazyValue,
    LocalExecutor,
    ProcessExecutor,
    RemoteTask,
    pack,
    packed,
    transport,
    unpacked,
)
from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.storage import database
from league.storage.run_store import RunStore
from trainers.models.action_heads import action_spec

# ---------------------------------------------------------------- what travels


def table() -> TablePolicy:
    tree = tree_of("kuhn")
    return table_policy(tree, random_table(tree, 0, torch.Generator().manual_seed(5)), 0)


KINDS = {
    "mlp": lambda: network(1),
    "gru": lambda: network(2, "gru"),
    "random": lambda: RandomPolicy(action_spec(SPACE)),
    "mixture": lambda: MixturePolicy([network(1), RandomPolicy(action_spec(SPACE)), network(2, "gru")]),
    "table": table,
}


@pytest.mark.parametrize("kind", KINDS)
def test_transported_policy_acts_bit_for_bit_equally(kind):
    policy = KINDS[kind]()
    parcel = pack(policy)
    assert pack(policy) is parcel
    transport._LOADED.clear()
    again = unpacked(packed({"who": [policy]}), "cpu")["who"][0]
    assert again is not policy
    assert type(again) is type(policy)
    width = tree_of("kuhn").observations[0].shape[1] if kind == "table" else RPS.core(1).obs.shape[-1]
    played = []
    for each in (policy, again):
        each.seed(3)
        hidden_state = each.initial_hidden_state(64, 1)
        obs = torch.rand((64, 1, width), generator=torch.Generator().manual_seed(1)).round()
        if kind == "table":
            obs = tree_of("kuhn").observations[0][:1].expand(64, 1, -1).float()
        played.append([plain(each.act(obs, hidden_state=hidden_state)) for _ in range(5)])
    assert played[0] == played[1]


def test_equal_policies_share_one_payload():
    one, other, third = network(1), network(1), network(2)
    assert pack(one).digest == pack(other).digest != pack(third).digest
    assert unpacked(pack(one), "cpu") is unpacked(pack(other), "cpu")


def test_policy_of_unknown_type_raises_config_error():
    class Unregistered(RandomPolicy):
        pass

    with pytest.raises(ConfigError, match=r"^Unregistered: expected a type with a loader.*KINDS.*$"):
        packed([Unregistered(action_spec(SPACE))])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_tensor_views_are_packed_without_the_rest_of_their_storage(dtype):
    whole = torch.arange(600).reshape(20, 30).to(dtype)
    for tensor in (whole, whole[3], whole[:, 4], whole.T, whole[2, 2], whole[:0]):
        parcel = packed((tensor,))[0]
        assert parcel.untyped_storage().nbytes() == tensor.nbytes
        assert plain(unpacked(parcel, "cpu")) == plain(tensor)
    assert packed({"whole": whole})["whole"] is whole


def test_lazy_value_is_read_at_transport():
    read = []
    later = LazyValue(lambda: read.append(1) or {"weights": torch.ones(2)})
    assert not read
    assert plain(unpacked(packed({"state": later}), "cpu")) == plain({"state": {"weights": torch.ones(2)}})


# ---------------------------------------------------------------- processes


@pytest.fixture(scope="module")
def processes():
    executor = ProcessExecutor(2)
    yield executor
    executor.close()


def test_worker_processes_return_the_results_of_this_process(processes):
    made = calls_made.calls()
    assert gathered(processes, made) == gathered(LocalExecutor(), made)


def test_workers_have_one_thread(processes):
    assert set(gathered(processes, [RemoteTask(f"{n}", calls_made.threads) for n in range(4)]).values()) == {(1, "1")}


def test_free_worker_runs_the_next_task(processes, tmp_path):
    """All other tasks end while one worker waits for what this process does after them."""
    given = {"file": str(tmp_path / "go"), "seconds": 60.0}
    processes.submit(RemoteTask("long", calls_made.wait_for_file, arguments=given))
    for number in range(6):
        processes.submit(RemoteTask(f"{number}", calls_made.add, arguments={"a": number, "b": 0}))
    assert sorted(processes.next() for _ in range(6)) == [(f"{number}", number) for number in range(6)]
    (tmp_path / "go").touch()
    assert processes.next() == ("long", True)


def test_errors_come_back_as_themselves(processes):
    def ends(how: str) -> None:
        processes.submit(RemoteTask(how, calls_made.fail, arguments={"how": how}))
        processes.next()

    with pytest.raises(CheckpointError, match=r"^step 7: expected a tree, got a stone$"):
        ends("library")
    with pytest.raises(ZeroDivisionError, match="fish"):
        ends("other")
    with pytest.raises(GpuEnvsError, match=r"^NeedsTwoError: one and two$"):
        ends("two")
    assert processes.pending == 0


@pytest.mark.parametrize("make", ["learn", pytest.param("play", marks=pytest.mark.slow)])
def test_killed_worker_does_not_change_results(processes, tmp_path, make):
    made = calls_made.calls()
    of = next(call for call in made if call.key.startswith(make))
    arguments = {"marker": str(tmp_path / "died"), "after": 0.2, "make": of.function, **of.arguments}
    found = gathered(processes, [*made[:2], RemoteTask("killed", calls_made.killed_once, of.policies, arguments)])
    assert (tmp_path / "died").exists()
    assert found["killed"] == plain(calls_made.run(of))


@pytest.mark.slow
def test_task_that_kills_every_worker_raises_with_its_key():
    executor = ProcessExecutor(1)
    executor.submit(RemoteTask("3/respond/red", calls_made.die))
    with pytest.raises(GpuEnvsError, match=r"^3/respond/red: 4 workers died during this task.*$"):
        executor.next()
    executor.close()


def wait_until(happened, seconds=300.0):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_cancelled_calls_end_and_workers_run_later_calls(processes, tmp_path):
    for n in range(4):
        given = {"file": str(tmp_path / str(n)), "seconds": 600.0}
        processes.submit(RemoteTask(f"long/{n}", calls_made.sleep_after_touch, arguments=given))
    wait_until(lambda: any(tmp_path.iterdir()))  # a worker is in the middle of a call
    processes.cancel()
    assert processes.pending == 0
    assert gathered(processes, [RemoteTask("next", calls_made.add, arguments={"a": 1, "b": 2})]) == {"next": 3}


@pytest.fixture
def interruptible():
    """Restore the handler of interrupts, which background processes may ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupt_leaves_no_task_and_no_process(tmp_path, interruptible):
    with toy_league.start(tmp_path / "run") as store:
        coordinator = Coordinator(store, ProcessExecutor(1))
        pids: list[int] = []
        coordinator.submit(RemoteTask("pid", calls_made.process), pids.append)
        coordinator.wait()
        begun = tmp_path / "begun"
        given = {"file": str(begun), "seconds": 600.0}
        coordinator.submit(RemoteTask("long", calls_made.sleep_after_touch, arguments=given), print)
        wait_until(begun.exists)
        following = coordinator.executor.next

        def interrupted(within=None):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            return following(within)

        coordinator.executor.next = interrupted
        with pytest.raises(KeyboardInterrupt):
            coordinator.wait()
        assert coordinator.executor.pending == 0
        coordinator.executor.close()
        assert not alive(pids[0])


@pytest.mark.slow
def test_workers_end_with_a_coordinator_that_is_killed(tmp_path):
    script = tmp_path / "coordinator.py"
    script.write_text(
        "import calls_made, os, time\n"
        "from league.executors import ProcessExecutor, RemoteTask\n"
        "if __name__ == '__main__':\n"
        "    executor = ProcessExecutor(1)\n"
        "    executor.submit(RemoteTask('pid', calls_made.process))\n"
        "    print(executor.next()[1], flush=True)\n"
        "    executor.submit(RemoteTask('long', calls_made.sleep, arguments={'seconds': 600.0}))\n"
        "    time.sleep(600)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    coordinator = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    pid = int(coordinator.stdout.readline())
    coordinator.kill()
    coordinator.wait()
    wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_numbers_of_workers_are_checked():
    assert ProcessExecutor().workers >= 1
    for wrong in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="expected at least 1"):
            ProcessExecutor(**wrong)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_the_extra_is_named():
    from league.executors import RayExecutor

    with pytest.raises(MissingExtraError, match=r"^RayExecutor needs ray: pip install 'gpu-envs\[ray\]'$"):
        RayExecutor()


# ---------------------------------------------------------------- the coordinator


class Shuffled:
    """Ends calls in any order, some of them twice, and gives back what was cancelled, too."""

    def __init__(self, seed: int) -> None:
        self.random, self.given, self.ended = random.Random(seed), [], []
        self.calls: list[RemoteTask] = []
        self.cancelled = 0

    @property
    def pending(self) -> int:
        return len(self.calls)

    def submit(self, task: RemoteTask) -> None:
        self.given.append(task.key)
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
        with store.step(key) as kept:
            kept["result"] = result
            store.add_results([[0, 0]], toy_league.results(np.zeros((1, 2)), result))
        written.append(key)

    def give(lane: str, number: int) -> None:
        if number >= 6:
            return
        for each in (number, number + 1):  # two at a time
            call = RemoteTask(f"{lane}/{each}", calls_made.add, arguments={"a": each, "b": 10 * ord(lane)})
            follows = None if each == number else lambda: give(lane, number + 2)
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
            assert sorted(executor.given) == sorted(expected)
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
            assert not done & set(then.given)
            assert len(store.tasks()) == 19
            assert len(done) + len(then.given) == 18


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
