"""Store of a run across processes: killed and resumed runs, one writer, runs that cannot be opened."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from toy_league import FRAME, GAME, digests, dump, end_at, grown, loop, start, trained, write

from gpu_envs.errors import GpuEnvsError
from league.storage import database
from league.storage.run_store import RunStore

SCRIPT = Path(__file__).parents[1] / "toy_league.py"


@pytest.fixture
def quick(monkeypatch):
    """Wait only briefly for locks."""
    monkeypatch.setattr(database, "PATIENCE", 0.0)


# ---------------------------------------------------------------- killed and resumed


def test_failed_step_of_a_batch_is_rolled_back_alone(tmp_path):
    def write(store):
        with store.together():
            for number in range(3):
                with store.step(f"{number}"):
                    store.add_policy("first", trained(number))
                    store.put_state("learner", {"weights": torch.full((2,), float(number))})
                    if number == 2:
                        raise KeyboardInterrupt

    with start(tmp_path / "run") as store:
        with store.step():
            store.put_state("learner", {"weights": torch.full((2,), 7.0)})
        with pytest.raises(KeyboardInterrupt):
            write(store)
        assert store.tasks() == ["start", "0", "1"]
        assert store.state("learner")["weights"].tolist() == [1.0, 1.0]
        with (  # one step fails, the others are kept
            store.together(),
            contextlib.suppress(ZeroDivisionError),
            store.step("fails"),
        ):
            store.add_policy("first", trained(9))
            raise ZeroDivisionError
        with pytest.raises(GpuEnvsError, match="a batch of steps is open already"), store.together(), store.together():
            pass
    with RunStore.open(tmp_path / "run") as store:
        assert store.tasks() == ["start", "0", "1"]
        assert store.state("learner")["weights"].tolist() == [1.0, 1.0]
        assert [entry.name for entry in store.populations["first"].entries] == ["random", "first-1", "first-2"]
        assert len(list((store.path / "states").iterdir())) == 1
        assert len({path.stem for path in (store.path / "policies").iterdir()}) == 4


def test_kill_leaves_no_step_of_an_open_batch(tmp_path):
    with start(tmp_path / "run") as store, store.step():
        store.put_state("learner", {"weights": torch.full((2,), 7.0)})
    if (child := os.fork()) == 0:
        store = RunStore.open(tmp_path / "run")
        with store.together():
            with store.step("first"):
                store.add_policy("first", trained(1))
                store.put_state("learner", {"weights": torch.zeros(2)})
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with RunStore.open(tmp_path / "run") as store:
        assert store.tasks() == ["start"]
        assert store.state("learner")["weights"].tolist() == [7.0, 7.0]
        assert len(store.populations["first"]) == 1


@pytest.mark.parametrize("more", [0, 1000, FRAME + 10, 3 * FRAME - 1])
def test_interrupted_commit_leaves_no_writes(more, tmp_path):
    start(tmp_path / "run").close()
    if (child := os.fork()) == 0:
        store = RunStore.open(tmp_path / "run")
        with store.step("first"):
            store.put("number", 1)
        with store.together():
            for number in range(3):
                with store.step(f"{number}"):
                    store.add_policy("first", trained(number))
            end_at(tmp_path / "run" / "league.db-wal", more)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGXFSZ
    assert len(list((tmp_path / "run" / "policies").iterdir())) == 2 + 3 * 2
    with RunStore.open(tmp_path / "run") as store:
        assert store.tasks() == ["start", "first"]
        assert len(store.populations["first"]) == 1
        assert len(list((store.path / "policies").iterdir())) == 2
        with store.step("0"):
            assert store.add_policy("first", trained(0)).index == 1


@pytest.mark.slow
def test_killed_run_resumes_with_equal_results(tmp_path):
    command = [sys.executable, str(SCRIPT), "kill", str(tmp_path), "20"]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    killed = int(run.stdout.split()[1])
    assert killed >= 20, run.stdout
    expected = dump(tmp_path / "whole")
    assert len(expected["tasks"]) == 7
    assert len(expected["policies"]) == 6
    assert [row[0] for row in expected["states"]] == [12 * 2]  # "latest" is the last of 12 updates of two states
    named = {name for row in expected["policies"] for name in json.loads(row[-1])}
    assert expected["files"] == {*(f"policies/{name}" for name in named), "states/00000024.safetensors"}
    for point in range(20):
        assert dump(tmp_path / str(point)) == expected


def test_resumed_run_repeats_random_draws(tmp_path):
    loop(tmp_path / "a", iterations=2)
    loop(tmp_path / "b", iterations=1)
    loop(tmp_path / "b", iterations=2)
    assert dump(tmp_path / "a") == dump(tmp_path / "b")
    loop(tmp_path / "a", iterations=2)  # the complete run
    assert dump(tmp_path / "a") == dump(tmp_path / "b")


# ---------------------------------------------------------------- one process writes, others read


@pytest.fixture
def writer(tmp_path):
    """Fork another process that writes a run."""
    start(tmp_path / "run").close()
    fork = multiprocessing.get_context("fork")
    started = fork.Event()
    other = fork.Process(target=write, args=(tmp_path / "run", started))
    other.start()
    assert started.wait(300)
    yield other
    other.kill()
    other.join()


def test_second_process_cannot_write_a_run(writer, tmp_path, quick):
    path, counts = tmp_path / "run", []
    line = rf"^{path}: process {writer.pid} is writing this run; wait for it, or only read: .*write=False\)$"
    with pytest.raises(GpuEnvsError, match=line):
        RunStore.open(path)
    with pytest.raises(GpuEnvsError, match=line):
        RunStore.create(path, GAME, {})
    deadline = time.monotonic() + 300
    while len(counts) < 8 or counts[-1] == counts[0]:  # a reader sees the writes of one step together
        assert time.monotonic() < deadline, counts[0]
        with RunStore.open(path, write=False) as reader:
            number = reader.get("number")
            cells = reader.cells()
            assert cells.count.tolist() == [number + 1]
            assert cells.total.tolist() == [[number + 1, -number - 1]]
            assert reader.tasks() == ["start", *map(str, range(number + 1))]
            counts.append(number)
    assert counts == sorted(counts)
    assert writer.is_alive()
    writer.kill()
    writer.join()
    contents = digests(path)
    with RunStore.open(path, write=False) as reader:  # the log of the killed process is read
        last = reader.get("number")
        assert last >= counts[-1]
        assert digests(path) == contents
    with RunStore.open(path) as store:
        assert store.get("number") == last
        assert store.done(str(last))
        assert not store.done(str(last + 1))


def test_run_is_open_for_writing_once(store, quick):
    with pytest.raises(GpuEnvsError, match=f"process {os.getpid()} is writing"):
        RunStore.open(store.path)
    store.close()
    with RunStore.open(store.path) as reopened, reopened.step("more"):
        pass


def test_reading_a_run_changes_no_file(store):
    path = store.path
    grown(store)
    with RunStore.open(path, write=False) as reader:
        with pytest.raises(GpuEnvsError, match="opened for reading"), reader.step("more"):
            pass
        with store.step("later"):
            store.put("key", 1)
        assert not reader.done("later")  # unchanged
        assert len(reader.populations["first"]) == 2
        reader.populations["first"].policy(1)
    store.close()
    (path / "policies" / "00009-first.json").write_text("{}")  # of a step that was not committed
    contents = digests(path)
    with RunStore.open(path, write=False) as reader:
        assert reader.done("later")
        with pytest.raises(GpuEnvsError, match=r"expected to be inside of store.step"):
            reader.put("key", 2)
    assert digests(path) == contents
