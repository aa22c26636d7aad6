"""Recorded launches: kernels, the worlds they run over, and the threads or stream they run on."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import warp as wp

import warp_kernels
from gpu_envs.definition.rules_errors import record_kernel
from gpu_envs.runtime.kernels import (
    BLOCK_DIMS,
    MIN_ROWS_PER_SHARD,
    MIN_WORLDS_PER_ROLLOUT_SHARD,
    SHARDS_PER_THREAD,
    choose_block_dim,
    kernel_program,
    rollout_kernel,
    split_worlds,
    threads_of_world,
)
from gpu_envs.runtime.thread_pool import ThreadedRun, ThreadingHeuristic
from gpu_envs.utils.devices import current_device_kept, warp_stream
from gpu_envs.utils.spare_arrays import SpareArrays
from warp_kernels.framework.schedules import BLOCK, FUSED, LaunchStage, Program
from warp_kernels.rules import WORLD, Rules

Copies = Sequence[tuple[np.ndarray, np.ndarray]]  # target and source, each led by the worlds


class KernelLauncher:
    """Recorded launches over one batch of worlds.

    Args:
        rules: The environment's rules.
        schedule: "fused", "block" or "phased".
        fuse_fp: Allow contracted multiply-adds.
        num_envs: Number of worlds E.
        threads: Maximum number of CPU threads. Shorter runs use one thread.
        rollout_threads: The same for rollouts with policies, which take longer.
        device: Device of the tensors.
        block_dim: Threads per block of every GPU launch; None chooses by launch and GPU.

    Attributes:
        arguments: Params, State and IO structs of all launches; they keep the memory of their arrays.
        shards: First and last world of every launch. Shard 0 is the whole batch; the others are parts of it for
            several threads.
        rollout_shards: Parts of the batch for several threads in rollouts with policies; [] for one thread.
    """

    def __init__(
        self,
        rules: Rules,
        schedule: str,
        fuse_fp: bool,
        num_envs: int,
        threads: int,
        rollout_threads: int,
        device: torch.device,
        block_dim: int | None = None,
    ) -> None:
        self.rules = rules
        with warp_kernels.building:
            warp_kernels.start()
            self.program: Program = kernel_program(rules, schedule, fuse_fp)
        self._schedule, self._fuse_fp = schedule, fuse_fp
        self.device: wp.Device = wp.device_from_torch(device)
        self.threads = threads
        count = 1
        if threads > 1:
            rows = num_envs * rules.num_agents
            count = max(threads, min(SHARDS_PER_THREAD * threads, rows // MIN_ROWS_PER_SHARD))
            if count > threads:  # one more for this thread, which begins before the others have woken
                count = (count - 1) // threads * threads + 1
        count = min(count, num_envs)
        self.shards: list[tuple[int, int]] = [(0, num_envs)]
        if count > 1:
            self.shards += split_worlds(num_envs, count)
        self.rollout_threads = rollout_threads
        self.rollout_shards: list[tuple[int, int]] = []
        count = min(num_envs // MIN_WORLDS_PER_ROLLOUT_SHARD, SHARDS_PER_THREAD * rollout_threads)
        if rollout_threads > 1 and count > 1:
            self.rollout_shards = split_worlds(num_envs, count)
        self.heuristics: defaultdict[str, ThreadingHeuristic] = defaultdict(ThreadingHeuristic)  # by kind of run
        self._torch_device = device
        self._block_dim = block_dim

    def keep_final_state(self) -> None:
        """Use kernels that write the final state; the arguments must be set again."""
        self.rules = replace(self.rules, keeps_final_state=True)
        with warp_kernels.building:
            self.program = kernel_program(self.rules, self._schedule, self._fuse_fp)

    def set_arguments(self, params: Any, state: Any, ios: list[Any]) -> None:
        """Set the arguments of all launches. A launch is recorded at its first run, which compiles its module.

        The arguments must not be reassigned afterwards.

        Args:
            params: Warp array of the rules' Params, (1,) or (E,).
            state: State of the rules.
            ios: One IO per error slot, equal except for it.
        """
        self.arguments: tuple[Any, Any, list[Any]] = (params, state, ios)
        self._recorded: dict[str, list[list[Any]]] = {}

    @property
    def block_dims(self) -> dict[str, tuple[int, ...]]:
        """Threads per block of every kernel, by kind of launch; empty on a CPU."""
        if self.device.is_cpu:
            return {}
        names = ("step", "reset", "sample", "global_state")
        sizes = {name: tuple(self._block_dim_of(stage.over) for stage in getattr(self.program, name)) for name in names}
        if self._schedule == "fused":
            sizes["play"] = (self._block_dim_of(FUSED),)
        return {name: dims for name, dims in sizes.items() if dims}

    def _block_dim_of(self, over: str | int) -> int:
        """Return the threads per block of a kernel that runs over an index set of every world."""
        if self._block_dim is not None:
            return self._block_dim
        if over == BLOCK:
            return threads_of_world(self.rules.num_agents)
        num_envs = self.shards[0][1]
        multiprocessors = torch.cuda.get_device_properties(self._torch_device).multi_processor_count
        return choose_block_dim(num_envs * (over if isinstance(over, int) else 1), multiprocessors)

    def launches(self, name: str) -> list[list[Any]]:
        """Return the launches of one kind, by shard and in order; they are recorded at their first use."""
        if name not in self._recorded:
            with warp_kernels.building:  # several threads may ask at the same time
                if name not in self._recorded:
                    self._recorded[name] = self._record(name)
        return self._recorded[name]

    def _record(self, name: str) -> list[list[Any]]:
        """Record the launches of one kind, by shard and in order."""
        if name == "play":
            stages: tuple[LaunchStage, ...] = (LaunchStage(rollout_kernel(self.rules, self._fuse_fp)[0], FUSED, (0,)),)
        else:
            stages = getattr(self.program, name)
        with current_device_kept(self._torch_device):  # recording loads the kernels
            return self._record_stages(stages)

    def _record_stages(self, stages: Sequence[LaunchStage]) -> list[list[Any]]:
        params, state, ios = self.arguments
        launches = []
        for (first, end), io in zip(self.shards, ios, strict=False):
            commands = []
            for kernel, over, more in stages:
                count = end - first
                threads = 1 if self.device.is_cpu else count
                items: Any = 1 if over == WORLD else over
                if over == BLOCK:
                    items = 1 if self.device.is_cpu else self._block_dim_of(over)
                dim = (threads, 1) if over == FUSED else (count, items)
                bounds = [first, end, threads] if over == FUSED else [first]
                inputs = [*bounds, *more, params, state, io]
                commands.append(self.record_launch(kernel, dim, inputs, over))
            launches.append(commands)
        return launches

    def record_launch(self, kernel: Any, dim: tuple[int, int], inputs: Sequence[Any], over: str | int) -> Any:
        """Record a launch of a kernel that runs over an index set of every world, in blocks of the size for it."""
        # A kernel of the block schedule depends on its blocks: the launch says that it has some, of Warp's usual size.
        compiled_dim = BLOCK_DIMS[-1] if over == BLOCK and self.device.is_cuda else None
        command = record_kernel(kernel, dim, inputs, self.device, compiled_dim)
        if self.device.is_cuda:
            # wp.launch(block_dim=) would compile the module once per size, into equal code: only tile operations depend
            # on the size, and rules have none. Kernels compiled for the largest blocks run in smaller ones.
            command.block_dim = self._block_dim_of(over)
        return command

    def run(self, name: str, steps: int = 1) -> None:
        """Run recorded launches on torch's current stream of the GPU, or on CPU threads.

        Args:
            name: "step", "reset", "sample", "global_state" or "play".
            steps: Number of steps that one launch plays.
        """
        if self.device.is_cuda:
            with current_device_kept(self._torch_device):
                stream = warp_stream(self._torch_device)
                for command in self.launches(name)[0]:
                    command.launch(stream)
            return
        launches = self.launches(name)
        if len(self.shards) == 1:
            for command in launches[0]:
                command.launch()
        else:
            self._run_shards(f"{name} {steps.bit_length()}", launches)

    def play(self, steps: int) -> None:
        """Sample actions and step, ``steps`` times. Observations are undefined until the step that must follow."""
        if self._schedule != "fused":
            for _ in range(steps):
                self.run("sample")
                self.run("step")
            return
        for (command,) in self.launches("play"):
            command.set_param_at_index(3, steps)
        self.run("play", steps)

    @property
    def num_slots(self) -> int:
        """Number of error slots, one for every shard."""
        return max(len(self.shards), 1 + len(self.rollout_shards))

    def bind(self, buffer: torch.Tensor, results: list[torch.Tensor]) -> None:
        """Set the buffer that kernels read actions from, (E, A[, K]), and the results of a step, (E, ...) each."""
        self._buffer, self._buffer_address, self._results = buffer, buffer.data_ptr(), results
        if self.device.is_cpu:
            self._buffer_array, self._result_arrays = buffer.numpy(), [result.numpy() for result in results]
            self._spares = [SpareArrays(array) for array in self._result_arrays]

    def step(self, action: torch.Tensor, reuse: bool) -> list[torch.Tensor]:
        """Copy the actions into the kernels' buffer, run a step, and return its results.

        Args:
            action: Actions, of the buffer's shape, dtype and device; not copied if they are the buffer.
            reuse: Return the result buffers instead of clones.
        """
        copied = action.data_ptr() != self._buffer_address
        if self.device.is_cuda:
            if copied:
                self._buffer.copy_(action.detach())
            self.run("step")
            return self._results if reuse else [result.clone() for result in self._results]
        # NumPy copies on the thread that reads or has written those worlds. Torch's copies would start another thread
        # pool, which would compete for the cores.
        source = (action.detach() if action.requires_grad else action).numpy() if copied else None
        launches = self.launches("step")
        if len(self.shards) == 1:  # few worlds: every microsecond counts
            if source is not None:
                self._buffer_array[:] = source
            for command in launches[0]:
                command.launch()
            return self._results if reuse else [torch.from_numpy(array.copy()) for array in self._result_arrays]
        clones = [] if reuse else [spares.take() for spares in self._spares]
        inputs = [] if source is None else [(self._buffer_array, source)]
        outputs = list(zip(clones, self._result_arrays, strict=False))
        self._run_shards("step", launches, inputs, outputs)
        return self._results if reuse else [torch.from_numpy(clone) for clone in clones]

    def _run_shards(self, name: str, launches: list[list[Any]], inputs: Copies = (), outputs: Copies = ()) -> None:
        """Run launches by shard on the threads that the times of earlier runs of this name recommend.

        Args:
            name: Key of those times.
            launches: Commands by shard.
            inputs: Arrays to copy before the launches of a shard.
            outputs: Arrays to copy after them.
        """

        def perform(part: int) -> None:
            first, end = self.shards[part]
            for target, source in inputs:
                target[first:end] = source[first:end]
            for command in launches[part]:
                command.launch()
            for target, source in outputs:
                target[first:end] = source[first:end]

        ThreadedRun(perform, len(launches) - 1, self.threads, self.heuristics[name]).run()
