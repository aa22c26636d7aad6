"""Launches: which kernels, over which worlds, on which threads or stream. Knows nothing of episodes or names."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import warp as wp

import warp_kernels
from warp_kernels.schedules import FUSED, WORLD, Program, Rules, build, build_play

FEW_AGENTS = 8
"""Up to this many agents a GPU thread plays a whole world; more agents get a thread each."""
ROWS_PER_THREAD = 4096
"""Fewer agent rows than this are not worth waking a second CPU thread."""


@cache
def program(rules: Rules, schedule: str, fuse_fp: bool) -> Program:
    """The kernels of a specialisation, built once per process."""
    return build(rules, schedule, fuse_fp)


@cache
def play_kernel(rules: Rules, fuse_fp: bool) -> tuple[Any, Any]:
    """The kernel of random play and its module, built once per process; apart, for most never play blindly."""
    return build_play(rules, fuse_fp)


def choose_schedule(num_agents: int, device: torch.device) -> str:
    """Fused on a CPU, and with few agents on a GPU; phased else."""
    return "fused" if device.type == "cpu" or num_agents <= FEW_AGENTS else "phased"


def choose_threads(num_envs: int, num_agents: int, device: torch.device) -> int:
    """CPU threads that the batch can feed, at most the cores this process may use."""
    if device.type != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, num_envs, num_envs * num_agents // ROWS_PER_THREAD))


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
        threads: CPU threads; the worlds are split between them.
        device: Where the tensors live.
    """

    def __init__(
        self, rules: Rules, schedule: str, fuse_fp: bool, num_envs: int, threads: int, device: torch.device
    ) -> None:
        warp_kernels.start()
        self.rules = rules
        self.program = program(rules, schedule, fuse_fp)
        self._schedule, self._fuse_fp = schedule, fuse_fp
        self.device = wp.device_from_torch(device)
        edges = [num_envs * part // threads for part in range(threads + 1)]
        self.shards = list(pairwise(edges))
        self._streams: dict[int, wp.Stream] = {}
        self._torch_device = device

    def record(self, params: wp.array, state: Any, ios: list[Any]) -> None:
        """Record every launch over these arguments; they must not be reassigned afterwards.

        Args:
            params: Warp array of the rules' Params, one row or one per world.
            state: The rules' State.
            ios: One IO per shard, alike but for the error slot.
        """
        self.step_launches = self._record(self.program.step, params, state, ios)
        self.reset_launches = self._record(self.program.reset, params, state, ios)
        self.sample_launches = self._record(self.program.sample, params, state, ios)
        self.global_state_launches = self._record(self.program.global_state, params, state, ios)
        self._play_launches: list[list[wp.Launch]] = []
        self._arguments = (params, state, ios)

    def _record(self, kernels: Any, params: wp.array, state: Any, ios: list[Any], *more: int) -> list[list[wp.Launch]]:
        launches = []
        for (first, end), io in zip(self.shards, ios, strict=True):
            commands = []
            for kernel, over in kernels:
                count = end - first
                threads = 1 if self.device.is_cpu else count
                dim: Any = {FUSED: threads, WORLD: count}.get(over, (count, over))
                bounds = [first, end, threads] if over == FUSED else [first]
                inputs = [*bounds, *more, params, state, io]
                commands.append(wp.launch(kernel, dim, inputs=inputs, device=self.device, record_cmd=True))
            launches.append(commands)
        return launches

    def run(self, launches: list[list[wp.Launch]]) -> None:
        """Run recorded launches: on torch's current stream on a GPU, on the CPU threads else."""
        if self.device.is_cuda:
            stream = self._stream()
            for command in launches[0]:
                command.launch(stream)
            return
        self.on_threads(lambda shard: _run_all(launches[shard]))

    def play(self, steps: int) -> None:
        """Draw actions and step, so many times. What agents see afterwards is defined by the step that must follow."""
        if self._schedule == "phased":
            for _ in range(steps):
                self.run(self.sample_launches)
                self.run(self.step_launches)
            return
        if not self._play_launches:
            kernel, _ = play_kernel(self.rules, self._fuse_fp)
            self._play_launches = self._record([(kernel, FUSED)], *self._arguments, 0)
        for ((command),) in self._play_launches:
            command.set_param_at_index(3, steps)
        self.run(self._play_launches)

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
        if len(self.shards) == 1:  # few worlds: every microsecond counts
            if source is not None:
                self._buffer_array[:] = source
            _run_all(self.step_launches[0])
            return self._results if reuse else [torch.from_numpy(array.copy()) for array in self._result_arrays]
        clones = [] if reuse else [np.empty_like(array) for array in self._result_arrays]

        def one(shard: int) -> None:
            first, end = self.shards[shard]
            if source is not None:
                self._buffer_array[first:end] = source[first:end]
            _run_all(self.step_launches[shard])
            for target, array in zip(clones, self._result_arrays, strict=False):
                target[first:end] = array[first:end]

        self.on_threads(one)
        return self._results if reuse else [torch.from_numpy(target) for target in clones]

    def on_threads(self, job: Callable[[int], None]) -> None:
        """Run job(shard) for every shard, the first on this thread."""
        others = [_pool.get().submit(job, shard) for shard in range(1, len(self.shards))]
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


def _run_all(commands: list[wp.Launch]) -> None:
    for command in commands:
        command.launch()
