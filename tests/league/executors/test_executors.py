"""Worker processes: the same results as this process, whatever dies meanwhile."""

import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import calls_made
import pytest
import toy_league
from calls_made import alive, gathered, plain

from gpu_envs.definition import id_modules
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError, MissingExtraError
from league.executors.coordinator import Coordinator
from league.executors.process import ProcessExecutor
from league.executors.tasks import LocalExecutor, RemoteTask


@pytest.fixture(scope="module")
def processes():
    executor = ProcessExecutor(2)
    yield executor
    executor.close()


@pytest.mark.parametrize("number", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_worker_processes_return_the_results_of_this_process(number, processes):
    """The last two calls learn, for which each worker imports the compiler of PyTorch."""
    calls = calls_made.calls()[:number]
    assert gathered(processes, calls) == gathered(LocalExecutor(), calls)


def test_workers_import_a_network_of_a_user_by_its_name(processes):
    id_modules.allow_import("own_network")
    call = dataclasses.replace(
        calls_made.calls()[0],
        policies={"player": [calls_made.network(seed, "own_network:OwnNetwork") for seed in range(4)]},
    )
    assert gathered(processes, [call]) == gathered(LocalExecutor(), [call])


def test_workers_have_one_thread(processes):
    assert set(gathered(processes, [RemoteTask(f"{n}", calls_made.threads) for n in range(4)]).values()) == {(1, "1")}


def test_free_worker_runs_the_next_task(processes, tmp_path):
    """All other tasks end while one worker waits for what this process does after them."""
    arguments = {"file": str(tmp_path / "go"), "seconds": 60.0}
    processes.submit(RemoteTask("long", calls_made.wait_for_file, arguments=arguments))
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


@pytest.mark.parametrize("make", ["play", pytest.param("learn", marks=pytest.mark.slow)])
def test_killed_worker_does_not_change_results(processes, tmp_path, make):
    calls = calls_made.calls()
    of = next(call for call in calls if call.key.startswith(make))
    arguments = {"marker": str(tmp_path / "died"), "after": 0.2, "make": of.function, **of.arguments}
    results = gathered(processes, [*calls[:2], RemoteTask("killed", calls_made.killed_once, of.policies, arguments)])
    assert (tmp_path / "died").exists()
    assert results["killed"] == plain(calls_made.run(of))


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


@pytest.mark.slow
def test_cancelled_calls_end_and_workers_run_later_calls(processes, tmp_path):
    for n in range(4):
        arguments = {"file": str(tmp_path / str(n)), "seconds": 600.0}
        processes.submit(RemoteTask(f"long/{n}", calls_made.sleep_after_touch, arguments=arguments))
    wait_until(lambda: any(tmp_path.iterdir()))  # a worker is in the middle of a call
    processes.cancel()
    assert processes.pending == 0
    assert gathered(processes, [RemoteTask("next", calls_made.add, arguments={"a": 1, "b": 2})]) == {"next": 3}


@pytest.fixture
def interruptible():
    """Restore the handler of interrupts, which background processes may ignore."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def test_interrupt_leaves_no_task_and_no_process(processes, tmp_path, interruptible):
    with toy_league.start(tmp_path / "run") as store:
        coordinator = Coordinator(store, processes)
        pids: list[int] = []
        for number in range(2):
            arguments = {"seconds": 0.5}  # each worker is busy with one
            coordinator.submit(RemoteTask(f"pid/{number}", calls_made.process, arguments=arguments), pids.append)
        coordinator.wait()
        marker = tmp_path / "begun"
        arguments = {"file": str(marker), "seconds": 600.0}
        coordinator.submit(RemoteTask("long", calls_made.sleep_after_touch, arguments=arguments), print)
        wait_until(marker.exists)
        following = coordinator.executor.next

        def interrupted(within=None):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            return following(within)

        coordinator.executor.next = interrupted
        with pytest.raises(KeyboardInterrupt):
            coordinator.wait()
        assert coordinator.executor.pending == 0
        coordinator.executor.close()
        assert not any(map(alive, pids))


@pytest.mark.slow
def test_workers_end_with_a_coordinator_that_is_killed(tmp_path):
    script = tmp_path / "coordinator.py"
    script.write_text(
        "import calls_made, os, time\n"
        "from league.executors.process import ProcessExecutor\n"
        "from league.executors.tasks import RemoteTask\n"
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


def test_numbers_of_workers_are_checked():
    assert ProcessExecutor().workers >= 1
    for wrong in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(ConfigError, match="expected at least 1"):
            ProcessExecutor(**wrong)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_the_extra_is_named():
    from league.executors.ray import RayExecutor

    with pytest.raises(
        MissingExtraError, match=r"^RayExecutor needs ray: pip install .*('ray\[.*\]>=[\d.]+|\[ray\])'$"
    ):
        RayExecutor()
