"""The block schedule: a block of threads per world, with barriers between phases, in one launch a step."""

import ctypes
import threading
from dataclasses import replace

import pytest
import torch
import toy
import turns
import warp as wp
from many_agents import SMALL as CELLS
from pretended_gpu import activate
from pretended_gpu.warp_launches import Launch
from small_environments import SMALL

from gpu_envs.runtime.factory import configured_definition, make_core
from gpu_envs.runtime.kernels import MAX_BLOCK_AGENTS, choose_schedule
from gpu_envs.testing.reference_checks import Subject
from warp_kernels.framework import schedules
from warp_kernels.framework.step import step_phases
from warp_kernels.framework.thread_orders import PERMUTATIONS, REVERSED, USUAL, permutation

TAG = "TagContinuous-v0"
SLOW = pytest.mark.slow


def test_gpus_play_worlds_of_many_agents_in_blocks():
    cuda = torch.device("cuda")
    sizes = {agents: choose_schedule(agents, cuda) for agents in (8, 9, MAX_BLOCK_AGENTS, MAX_BLOCK_AGENTS + 1)}
    assert list(sizes.values()) == ["fused", "block", "block", "phased"]
    assert choose_schedule(105, torch.device("cpu")) == "fused"


@pytest.mark.parametrize(
    "env_id",
    [
        TAG,
        *(pytest.param(name, marks=SLOW) for name in ("SimpleTag-v0", "SMAX-v0", "GatherTradeBuild-v0")),
        "TicTacToe-v0",
    ],
)
def test_schedules_agree_over_many_episodes(env_id):
    fused, block, phased = cores = [
        make_core(env_id, 5, "cpu", seed=3, schedule=schedule, **SMALL[env_id])
        for schedule in ("fused", "block", "phased")
    ]
    with activate():
        pretended = make_core(env_id, 5, "cuda", seed=3, schedule="block", fuse_fp=False, **SMALL[env_id])
        for core in (*cores, pretended):
            core.reset()
        for _ in range(200):
            for core in (*cores, pretended):
                core.step(core.sample_actions())
            state = fused.get_state()
            for core in (block, phased, pretended):
                for name, tensor in core.get_state().items():
                    assert torch.equal(tensor.cpu(), state[name]), (core.device, core.schedule, name)
    assert (fused.get_state()["io.episode"] > 1).all()


def test_step_of_105_agents_is_one_launch(monkeypatch):
    launched, launch = [], Launch.launch
    monkeypatch.setattr(Launch, "launch", lambda *arguments: launched.append(arguments) or launch(*arguments))
    with activate():
        core = make_core(TAG, 3, "cuda", seed=0)
        core.reset()
        assert (core.num_agents, core.schedule) == (105, "block")
        assert core.block_dims["step"] == core.block_dims["reset"] == (128,)
        launched.clear()
        core.step(core.action_buffer)
        assert len(launched) == 1
        core.random_rollout(10)
        assert len(launched) == 1 + 2 * 10


@pytest.mark.parametrize(("agents", "size"), [(7, 32), (32, 32), (33, 64), (105, 128), (256, 256), (1000, 256)])
def test_blocks_have_a_thread_per_agent_up_to_the_largest_block(agents, size):
    """Kernels with any number of registers fit into a block of 256 threads."""
    subject = Subject("Toy-v0", config := toy.Config(num_agents=agents), toy.build(config))
    with activate():
        core = subject.core(device=torch.device("cuda", 0), schedule="block")
        (command,) = core._launcher.launches("step")[0]
        assert core.block_dims["step"] == (command.block_dim,) == (size,)


# ---------------------------------------------------------------- many threads


class Lanes:
    """Threads that play a block on the CPU, one at a time: each runs up to the next barrier, then the following one."""

    def __init__(self):
        self._thread = threading.local()

    def run(self, play, count, order):
        """Let threads run a function, and return the number of barriers that each has passed.

        Args:
            play: Function.
            count: Number of threads.
            order: Order in which they run between barriers, of ``thread_orders``.
        """
        factor, shift = permutation(order, count)
        self.count, self._passed = count, [0] * count
        self._lanes = [(turn * factor + shift) % count for turn in range(count)]
        self._waiting = [threading.Semaphore(0) for _ in self._lanes]

        def run_lane(turn):
            self._thread.turn = turn
            self._wait(turn)
            play()
            self._waiting[(turn + 1) % self.count].release()

        threads = [threading.Thread(target=run_lane, args=(turn,)) for turn in range(self.count)]
        for thread in threads:
            thread.start()
        self._waiting[0].release()
        for thread in threads:
            thread.join()
        self._wait(0)  # the last one has released the first
        return self._passed

    def _wait(self, turn):
        assert self._waiting[turn].acquire(timeout=10)

    def lane(self):
        """Return the index of this thread in the block."""
        return self._lanes[self._thread.turn] if hasattr(self._thread, "turn") else 0

    def lanes(self):
        """Return the number of threads of the block."""
        return self.count if hasattr(self._thread, "turn") else 1

    def barrier(self):
        """Let the other threads run up to here; 0."""
        if hasattr(self._thread, "turn"):
            turn = self._thread.turn
            self._passed[turn] += 1
            self._waiting[(turn + 1) % self.count].release()
            self._wait(turn)
        return 0


BLOCK = Lanes()
CALLBACKS = [ctypes.CFUNCTYPE(ctypes.c_int)(function) for function in (BLOCK.lane, BLOCK.lanes, BLOCK.barrier)]
CALLS = [f"((signed (*)()){ctypes.cast(callback, ctypes.c_void_p).value}ull)();" for callback in CALLBACKS]


@wp.func_native(f"return {CALLS[0]}")
def lane() -> int: ...


@wp.func_native(f"return {CALLS[1]}")
def lanes() -> int: ...


@wp.func_native(CALLS[2])
def barrier(): ...


def subject_of(host, **settings):
    config = host.Config(**settings)
    return Subject("Small-v0", config, host.build(config), worlds=2, steps=40)


BLOCKS = ((2, USUAL), (3, REVERSED), (4, REVERSED), *((8, order) for order in PERMUTATIONS))
"""Sizes of blocks, and the order in which their threads run."""
CASES = {
    "toy": lambda: subject_of(toy, num_agents=5),
    "turns": lambda: subject_of(turns),
    "cells": lambda: Subject(*configured_definition(TAG, None, SMALL[TAG] | CELLS), worlds=2, steps=40),
}


@pytest.mark.parametrize("case", ["toy", *(pytest.param(name, marks=SLOW) for name in ("turns", "cells"))])
def test_no_order_of_threads_between_barriers_matters(case, monkeypatch, tmp_path):
    """All threads of a block pass the same barriers, and nothing that one writes is read before the next barrier."""
    for name, function in (("_lane", lane), ("_lanes", lanes), ("_barrier", barrier)):
        monkeypatch.setattr(schedules, name, function)
    subject = CASES[case]()
    d = subject.definition
    in_lanes = replace(d, rules=replace(d.rules, key=f"{d.rules.key} in lanes"))
    fused, core = subject.core(schedule="fused"), subject.core(definition=in_lanes, schedule="block")
    fused.reset()
    with monkeypatch.context() as patch:
        patch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))  # the addresses of CALLS change with every process
        core.reset()
    (step,) = core._launcher.launches("step")[0]
    phases = step_phases(d.rules, in_slots=True)
    starts = 0
    for t in range(subject.steps):
        for batch in (fused, core):
            batch.sample_actions()
        fused._launcher.run("step")
        barriers = BLOCK.run(step.launch, *BLOCKS[t % len(BLOCKS)])
        restarts = int(core._io["restart"].sum())
        starts += restarts
        assert set(barriers) == {subject.worlds * len(phases.play) + restarts * len(phases.start)}
        state = core.get_state()
        for name, tensor in fused.get_state().items():
            assert torch.equal(tensor, state[name]), (t, name)
    assert 0 < starts < subject.worlds * subject.steps
