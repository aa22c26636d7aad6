"""Launches: which kernels, over which worlds, on which threads or stream. Knows nothing of episodes or names."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import warp as wp

import warp_kernels
from warp_kernels.schedules import FUSED, WORLD, Program, Rules, Stage, build

Rounds = list[list[list[wp.Launch]]]
"""Recorded launches: rounds one after the other, in each a list per CPU thread."""

FEW_AGENTS = 8
"""Up to this many agents a GPU thread plays a whole world; more agents get a thread each."""
ROWS_PER_THREAD = 4096
"""Fewer agent rows than this are not worth waking a second CPU thread."""


@cache
def program(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """The kernels of a specialisation, built once per process."""
    return build(rules, schedule, fuse_fp)


def choose_schedule(num_envs: int, num_agents: int, threads: int, device: torch.device) -> str:
    """Fused on a CPU, and with few agents on a GPU; phased else, and where CPU threads share worlds of many agents."""
    if device.type == "cpu":
        return "phased" if threads > num_envs and num_agents >= ROWS_PER_THREAD else "fused"
    return "fused" if num_agents <= FEW_AGENTS else "phased"


def choose_threads(num_envs: int, num_agents: int, device: torch.device) -> int:
    """CPU threads that the batch can feed, at most the cores this process may use."""
    if device.type != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, num_envs * num_agents // ROWS_PER_THREAD))


def choose_search(num_agents: int, num_nearest: int) -> str:
    """How to find the K nearest: "brute", among all, while they are few; else in a "grid" of cells.

    Measured on a CPU, where the two cost the same at about 40 + 10 K agents.
    """
    return "grid" if 0 < num_nearest and num_agents > 40 + 10 * num_nearest else "brute"


class _Pool:
    """Worker threads shared by every environment of the process, made at first use and anew after a fork."""

    def __init__(self) -> None:
        self.executor: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        if self.executor is None:
            self.executor = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), thread_name_prefix="gpu_envs")
        return self.executor

    def forget(self) -> None:
        self.executor = None


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


class Runner:
    """Recorded launches of one batch of worlds.

    Args:
        rules: The environment's rules.
        schedule: "fused" or "phased".
        fuse_fp: Allow contracted multiply-adds.
        num_envs: E.
        threads: CPU threads. The worlds are split between them; where there are fewer worlds than threads, which only
            the phased schedule allows, the agents of every world are, phase by phase.
        device: Where the tensors live.
    """

    def __init__(
        self, rules: Rules, schedule: str, fuse_fp: bool, num_envs: int, threads: int, device: torch.device
    ) -> None:
        warp_kernels.start()
        self.rules = rules
        self.program = program(rules, schedule, fuse_fp)
        self.device = wp.device_from_torch(device)
        self.num_envs, self.threads = num_envs, threads
        self._split_agents = threads > num_envs
        lead = (slice(None),) if self._split_agents else ()
        edges = _edges(rules.num_agents if self._split_agents else num_envs, threads)
        self.shards = [(*lead, slice(*edge)) for edge in edges]  # of a tensor (E, A, ...), by thread
        self._streams: dict[int, wp.Stream] = {}
        self._torch_device = device

    def record(self, params: wp.array, state: Any, ios: list[Any]) -> None:
        """Record every launch over these arguments; they must not be reassigned afterwards.

        Args:
            params: Warp array of the rules' Params, one row or one per world.
            state: The rules' State.
            ios: One IO per thread, alike but for the error slot.
        """
        self.step_launches = self._record(self.program.step, params, state, ios)
        self.reset_launches = self._record(self.program.reset, params, state, ios)
        self.sample_launches = self._record(self.program.sample, params, state, ios)
        self.global_state_launches = self._record(self.program.global_state, params, state, ios)

    def _record(self, stages: tuple[Stage, ...], params: wp.array, state: Any, ios: list[Any]) -> Rounds:
        def launch(stage: Stage, envs: tuple[int, int], indices: tuple[int, int], io: Any) -> Any:
            (first, end), (begin, stop), on_cpu = envs, indices, self.device.is_cpu
            if stage.over == FUSED:
                threads = 1 if on_cpu else end - first
                dim, bounds = (threads, 1), [first, end, threads]
            elif stage.over == WORLD:
                dim, bounds = (end - first, 1), [first]
            else:
                threads = 1 if on_cpu else stop - begin
                dim, bounds = (end - first, threads), [first, begin, stop, threads]
            inputs = [*bounds, params, state, io]
            return wp.launch(stage.kernel, dim, inputs=inputs, device=self.device, record_cmd=True)

        def indices(stage: Stage, parts: int) -> list[tuple[int, int]]:
            return _edges(stage.over if isinstance(stage.over, int) else parts, parts)

        if not self._split_agents:
            shares = zip(_edges(self.num_envs, self.threads), ios, strict=True)
            return [[[launch(stage, envs, indices(stage, 1)[0], io) for stage in stages] for envs, io in shares]]
        rounds = []
        for stage in stages:
            parts = 1 if stage.counts or stage.over == WORLD else self.threads
            shares = zip(indices(stage, parts), ios, strict=False)
            rounds.append([[launch(stage, (0, self.num_envs), share, io)] for share, io in shares])
        return rounds

    def run(self, rounds: Rounds) -> None:
        """Run recorded launches: on torch's current stream on a GPU, on the CPU threads else."""
        if self.device.is_cuda:
            stream = self._stream()
            for command in rounds[0][0]:
                command.launch(stream)
            return
        for part in rounds:
            self._on_threads(partial(_run_all, part), len(part))

    def bind(self, buffer: torch.Tensor, results: list[torch.Tensor]) -> None:
        """Say where kernels read actions and what a step writes, each led by the worlds."""
        self._buffer, self._buffer_at, self._results = buffer, buffer.data_ptr(), results
        if self.device.is_cpu:
            self._buffer_array, self._result_arrays = buffer.numpy(), [result.numpy() for result in results]

    def step(self, action: torch.Tensor, reuse: bool) -> list[torch.Tensor]:
        """Bring the action into the kernels' buffer, unless it lies there already; run a step; clone its results.

        Args:
            action: As given by the caller, of the buffer's shape, dtype and device.
            reuse: Give back the result buffers instead of clones.
        """
        given = action.data_ptr() != self._buffer_at
        if self.device.is_cuda:
            if given:
                self._buffer.copy_(action.detach())
            self.run(self.step_launches)
            return self._results if reuse else [result.clone() for result in self._results]
        # NumPy copies on the thread that reads or has written those worlds: torch's copies would wake a pool of their
        # own to fight ours over the cores.
        source = (action.detach() if action.requires_grad else action).numpy() if given else None
        rounds = self.step_launches
        if self.threads == 1:  # few worlds: every microsecond counts
            if source is not None:
                self._buffer_array[:] = source
            _run_all(rounds[0], 0)
            return self._results if reuse else [torch.from_numpy(array.copy()) for array in self._result_arrays]
        clones = [] if reuse else [np.empty_like(array) for array in self._result_arrays]

        def one(round: int, thread: int) -> None:
            """The first round reads actions, the last one writes what has not been written; both are everyone's."""
            share = self.shards[thread]
            if round == 0 and source is not None:
                self._buffer_array[share] = source[share]
            _run_all(rounds[round], thread)
            if round == len(rounds) - 1:
                for target, array in zip(clones, self._result_arrays, strict=False):
                    target[share] = array[share]

        for round, part in enumerate(rounds):
            self._on_threads(partial(one, round), len(part))
        return self._results if reuse else [torch.from_numpy(target) for target in clones]

    def _on_threads(self, job: Callable[[int], None], threads: int) -> None:
        """Run job(thread) on so many threads, the first one this."""
        others = [_pool.get().submit(job, thread) for thread in range(1, threads)]
        job(0)
        for other in others:
            other.result()

    def _stream(self) -> wp.Stream:
        """Torch's current stream as Warp's, wrapped once."""
        current = torch.cuda.current_stream(self._torch_device)
        stream = self._streams.get(current.cuda_stream)
        if stream is None:
            stream = self._streams[current.cuda_stream] = wp.stream_from_torch(current)
        return stream


def _edges(count: int, parts: int) -> list[tuple[int, int]]:
    """Even shares of 0 .. count - 1, as (first, end)."""
    return list(pairwise(count * part // parts for part in range(parts + 1)))


def _run_all(part: list[list[wp.Launch]], thread: int) -> None:
    for command in part[thread]:
        command.launch()
