"""Threads of the CPU: who works alone and who together, what comes of errors, and forks."""

import os
import random
import threading
import time

import pytest
import torch
from forks import code_of_fork

import warp_kernels
from gpu_envs.runtime import thread_pool
from gpu_envs.runtime.factory import make_core
from gpu_envs.runtime.kernels import available_cores, limited_cores
from gpu_envs.runtime.thread_pool import MIN_PARALLEL_SECONDS, ThreadingHeuristic


def test_short_runs_use_one_thread():
    heuristic = ThreadingHeuristic()
    for _ in range(1000):
        assert not heuristic.parallel()
        heuristic.record(0.9 * MIN_PARALLEL_SECONDS, parallel=False)


@pytest.mark.parametrize(("single", "parallel"), [(3.0, 2.0), (2.0, 3.0)])
def test_heuristic_chooses_the_faster_mode(single, parallel):
    """The slower mode is tried again at intervals, to notice a change of the load."""
    heuristic, seconds = ThreadingHeuristic(), {False: single * 1e-3, True: parallel * 1e-3}

    def share(runs=640):
        count = 0
        for _ in range(runs):
            mode = heuristic.parallel()
            heuristic.record(seconds[mode], mode)
            count += mode
        return count / runs

    better = share()
    assert (better > 0.9) == (parallel < single)
    assert 0.005 < min(better, 1 - better) < 0.05
    seconds = {False: parallel * 1e-3, True: single * 1e-3}
    share(10 * thread_pool.TRIAL_INTERVAL)
    assert (share() > 0.9) == (parallel > single)


@pytest.mark.parametrize(("share_of_slow_runs", "chosen"), [(0.2, True), (0.6, False)])
def test_heuristic_chooses_by_the_average_where_times_vary(share_of_slow_runs, chosen):
    """Beside a busy program, several threads are fast in some runs and slow in others."""
    heuristic, draw, modes = ThreadingHeuristic(), random.Random(5), []
    for _ in range(4000):
        modes.append(heuristic.parallel())
        slow = draw.random() < share_of_slow_runs
        heuristic.record((1.6e-3 if slow else 0.6e-3) if modes[-1] else 1e-3, modes[-1])
    assert abs(sum(modes) / len(modes) - chosen) < 0.2


@pytest.mark.parametrize(("single", "parallel"), [(3.0, 2.0), (2.0, 3.0)])
@pytest.mark.parametrize("cold", [False, True])
def test_first_run_of_a_mode_does_not_decide(single, parallel, cold):
    """It compiles kernels or starts threads, which takes much longer than the work."""
    heuristic, modes = ThreadingHeuristic(), []
    for _ in range(20):
        mode = heuristic.parallel()
        first = mode == cold and mode not in modes
        heuristic.record(1.0 if first else (parallel if mode else single) * 1e-3, mode)
        modes.append(mode)
    single_runs, parallel_runs = thread_pool.FIRST_RUNS
    assert min(single_runs, parallel_runs) > 1
    assert modes[: single_runs + parallel_runs] == [False] * single_runs + [True] * parallel_runs
    assert {*modes[single_runs + parallel_runs :]} == {parallel < single}


def test_one_slow_run_does_not_change_the_mode():
    heuristic = ThreadingHeuristic()
    for _ in range(20):
        mode = heuristic.parallel()
        heuristic.record(2e-3 if mode else 1e-3, mode)
    heuristic.record(1.0, parallel=False)  # another process had the core
    assert not heuristic.parallel()


@pytest.fixture
def parallel(monkeypatch):
    """Use several threads in every run."""
    monkeypatch.setattr(ThreadingHeuristic, "parallel", lambda self: True)


class Command:
    """A launch that calls a function with the index of its shard."""

    def __init__(self, job, shard):
        self.job, self.shard = job, shard

    def launch(self):
        self.job(self.shard)


def run_on_threads(core, job):
    """Run ``job(shard)`` in place of the launches of a reset."""
    launcher = core._launcher
    launcher._recorded["reset"] = [[Command(job, shard)] for shard in range(len(launcher.shards))]
    launcher.run("reset")


@pytest.mark.parametrize(("threads", "worlds"), [(2, 2), (3, 50), (2, 5000), (4, 40_000)])
def test_parts_cover_all_worlds_once(parallel, threads, worlds):
    core = make_core("CartPole-v1", worlds, "cpu", seed=0, threads=threads, reuse_buffers=True)
    shards = core._launcher.shards
    assert shards[0] == (0, worlds)
    assert [world for first, end in shards[1:] for world in range(first, end)] == list(range(worlds))
    core.reset()
    for steps in range(1, 4):
        core.step(core.sample_actions())
        assert (core.elapsed_steps == steps).all()


def test_several_threads_share_a_run(parallel):
    """The first part ends only after another thread has started one."""
    core = make_core("CartPole-v1", 20_000, "cpu", threads=2)
    threads, joined = set(), threading.Event()

    def job(shard):
        threads.add(threading.get_ident())
        if len(threads) == 2:
            joined.set()
        assert joined.wait(60.0)

    run_on_threads(core, job)
    assert len(threads) == 2


def test_error_of_a_part_is_raised(parallel):
    core = make_core("CartPole-v1", 20_000, "cpu", threads=2)
    done = []

    def job(shard):
        done.append(shard)
        if shard % 3 == 0:
            raise RuntimeError(f"shard {shard}")

    with pytest.raises(RuntimeError, match="shard"):
        run_on_threads(core, job)
    assert sorted(done) == list(range(1, len(core._launcher.shards)))  # the other shards still run
    del core._launcher._recorded["reset"]
    core.reset()
    core.step(core.sample_actions())


def test_cores_on_several_threads_of_the_caller(parallel):
    """Two cores stepped at once play as they do alone."""

    def play(core, out):
        core.reset(seed=5)
        for _ in range(12):
            core.step(core.sample_actions())
        out.append(core.get_state())

    alone, shared = [], []
    play(make_core("CartPole-v1", 6000, "cpu", threads=1), alone)
    cores = [make_core("CartPole-v1", 6000, "cpu", threads=2) for _ in range(2)]
    callers = [threading.Thread(target=play, args=(core, shared)) for core in cores]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(shared) == 2
    for state in shared:
        assert all(torch.equal(state[name], alone[0][name]) for name in state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_starts_its_own_workers(parallel):
    core = make_core("CartPole-v1", 20_000, "cpu", threads=2)
    core.reset()
    core.step(core.sample_actions())
    child = os.fork()
    if child == 0:
        try:
            core.step(core.sample_actions())
        finally:
            os._exit(0 if (core.elapsed_steps == 2).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_compiles_waits_and_leaves_the_lock_free():
    began, ended = threading.Event(), threading.Event()

    def compile_kernels():
        with warp_kernels.building:
            began.set()
            time.sleep(0.2)
            ended.set()

    def build_again():
        with warp_kernels.building:
            return 42 if ended.is_set() else 43

    thread = threading.Thread(target=compile_kernels)
    thread.start()
    assert began.wait(60)
    assert code_of_fork(build_again) == 42
    thread.join()


def test_limit_of_cores_is_that_of_one_thread():
    total, elsewhere = available_cores(), []
    with limited_cores(1):
        assert available_cores() == 1
        with limited_cores(1_000_000):
            assert available_cores() == total
        assert available_cores() == 1
        assert make_core("CartPole-v1", 100_000, "cpu").threads == 1
        other = threading.Thread(target=lambda: elsewhere.append(available_cores()))
        other.start()
        other.join()
    assert [available_cores(), *elsewhere] == [total, total]
