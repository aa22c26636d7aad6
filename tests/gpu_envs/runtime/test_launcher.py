"""Threads of the CPU: who works alone and who together, what comes of errors, and forks."""

import os
import threading

import pytest
import torch

from gpu_envs import runner
from gpu_envs.factory import make_core
from gpu_envs.runner import WORTH_WAKING, Pace


def test_small_work_is_done_alone():
    pace = Pace()
    for _ in range(1000):
        assert not pace.together()
        pace.took(0.9 * WORTH_WAKING, together=False)


@pytest.mark.parametrize(("alone", "joint"), [(3.0, 2.0), (2.0, 3.0)])
def test_the_faster_way_is_taken(alone, joint):
    """And now and then the other, so that it is found out when things have changed."""
    pace, took = Pace(), {False: alone * 1e-3, True: joint * 1e-3}

    def share(runs=640):
        count = 0
        for _ in range(runs):
            together = pace.together()
            pace.took(took[together], together)
            count += together
        return count / runs

    better = share()
    assert (better > 0.9) == (joint < alone)
    assert 0.005 < min(better, 1 - better) < 0.05
    took = {False: joint * 1e-3, True: alone * 1e-3}
    share(10 * runner.TRIALS)
    assert (share() > 0.9) == (joint > alone)


def test_one_slow_run_changes_nothing():
    pace = Pace()
    for _ in range(20):
        together = pace.together()
        pace.took(2e-3 if together else 1e-3, together)
    pace.took(1.0, together=False)  # somebody else had the core
    assert not pace.together()


@pytest.fixture
def together(monkeypatch):
    """Always on several threads."""
    monkeypatch.setattr(Pace, "together", lambda self: True)


@pytest.mark.parametrize(("threads", "worlds"), [(2, 2), (3, 50), (2, 5000), (4, 40_000)])
def test_parts_cover_all_worlds_once(together, threads, worlds):
    core = make_core("CartPole-v1", worlds, "cpu", seed=0, threads=threads, reuse_buffers=True)
    shards = core._runner.shards
    assert shards[0] == (0, worlds)
    assert [world for first, end in shards[1:] for world in range(first, end)] == list(range(worlds))
    core.reset()
    for steps in range(1, 4):
        core.step(core.sample_actions())
        assert (core.steps == steps).all()


def test_others_join_in(together):
    """The first part ends only after another thread has begun one."""
    core = make_core("CartPole-v1", 20_000, "cpu", threads=2)
    who, joined = set(), threading.Event()

    def job(shard):
        who.add(threading.get_ident())
        if len(who) == 2:
            joined.set()
        assert joined.wait(60.0)

    core._runner.on_threads("step", job)
    assert len(who) == 2


def test_errors_of_parts_come_out(together):
    core = make_core("CartPole-v1", 20_000, "cpu", threads=2)
    done = []

    def job(shard):
        done.append(shard)
        if shard % 3 == 0:
            raise RuntimeError(f"shard {shard}")

    with pytest.raises(RuntimeError, match="shard"):
        core._runner.on_threads("step", job)
    assert sorted(done) == list(range(1, len(core._runner.shards)))  # nobody is left behind
    core.reset()
    core.step(core.sample_actions())


def test_cores_on_several_threads_of_the_caller(together):
    """Two cores stepped at once play as they do alone."""

    def play(core, out):
        core.reset(seed=5)
        for _ in range(30):
            core.step(core.sample_actions())
        out.append(core.get_state())

    alone, both = [], []
    play(make_core("CartPole-v1", 6000, "cpu", threads=1), alone)
    cores = [make_core("CartPole-v1", 6000, "cpu", threads=2) for _ in range(2)]
    callers = [threading.Thread(target=play, args=(core, both)) for core in cores]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(both) == 2
    for state in both:
        assert all(torch.equal(state[name], alone[0][name]) for name in state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_gets_workers_of_its_own(together):
    core = make_core("CartPole-v1", 20_000, "cpu", threads=2)
    core.reset()
    core.step(core.sample_actions())
    child = os.fork()
    if child == 0:
        try:
            core.step(core.sample_actions())
        finally:
            os._exit(0 if (core.steps == 2).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
