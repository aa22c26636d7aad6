"""Launches of fused rollouts: all worlds by one thread, or shards of them by several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import warp as wp

from gpu_envs.runtime.kernels import split_worlds
from gpu_envs.runtime.rollout.trace import RolloutCore
from gpu_envs.runtime.thread_pool import ThreadedRun
from gpu_envs.utils.devices import current_device_kept, warp_array, warp_stream
from warp_kernels.framework.memo import entry_size, memo_entries
from warp_kernels.framework.policies import Acting
from warp_kernels.framework.schedules import FUSED

SPAN = (3, 4, 5, 6)  # arguments of the kernel: first step, steps, greedy, restart
MIN_WORLDS_WITH_MEMO = 128
"""Fewest worlds of a shard where networks have a memo; a launch takes about as long as 30 episodes of Kuhn poker."""


class FusedRollout:
    """Recorded launches of all worlds, and of the shards.

    A memo belongs to one thread at a time, so there are launches with the memo of each.

    Args:
        core: The environments.
        kernel: Fused kernel of a rollout.
        acting: Properties of policies and buffers for which the kernel was built.
        policies: Returns a new struct of the policies, without a memo.
        trace: Struct of the buffers.
        threads: Largest number of CPU threads.
    """

    def __init__(
        self, core: RolloutCore, kernel: Any, acting: Acting, policies: Callable[[], Any], trace: Any, threads: int
    ) -> None:
        self.core: RolloutCore = core
        self.threads: int = threads
        self._span = (0, 0, False, False)
        launcher = core._launcher
        params, state, ios = launcher.arguments
        shards = launcher.rollout_shards if threads > 1 else []
        if acting.memo:
            count = min(len(shards), core.num_envs // MIN_WORLDS_WITH_MEMO)
            shards = split_worlds(core.num_envs, count) if count > 1 else []
        shards = [(0, core.num_envs), *shards]
        tables = (threads if len(shards) > 1 else 1) if acting.memo else 0
        count = memo_entries(core.num_envs)
        self._owners = [np.zeros(count, np.int32) for _ in range(tables)]
        self._commands: list[list[Any]] = []
        rules = core._launcher.rules
        size = entry_size(rules.num_choices * rules.action_size, acting.kinds) if tables else 0
        for table in range(max(tables, 1)):
            struct = policies()
            if tables:
                struct.memo = wp.zeros((count, size), dtype=float, device=launcher.device)
                struct.memo_owners = warp_array(torch.from_numpy(self._owners[table]))
            commands = []
            for (first, end), io in zip(shards, ios, strict=False):
                lanes = 1 if launcher.device.is_cpu else end - first
                inputs = [first, end, lanes, 0, 0, 0, 0, params, state, io, struct, trace]
                commands.append(launcher.record_launch(kernel, (lanes, 1), inputs, FUSED))
            self._commands.append(commands)

    def run(self, num_steps: int, first_step: int, greedy: bool, restart: bool = False) -> None:
        """Play steps, and store them from a step of the buffers on; the host does not wait for a GPU.

        Args:
            num_steps: Number of steps.
            first_step: First step of the buffers.
            greedy: Take the most probable actions.
            restart: Reset the worlds with ``io.restart`` first; for policies with a memo only.
        """
        if self._span != (first_step, num_steps, greedy, restart):
            self._span = (first_step, num_steps, greedy, restart)
            for command in (launch for commands in self._commands for launch in commands):
                for index, value in zip(SPAN, self._span, strict=True):
                    command.set_param_at_index(index, int(value))
        first, launcher = self._commands[0], self.core._launcher
        if launcher.device.is_cuda:
            with current_device_kept(self.core.device):
                first[0].launch(warp_stream(self.core.device))
        elif len(first) == 1:
            for owners in self._owners:
                owners.fill(0)
            first[0].launch()
        else:
            heuristic = launcher.heuristics[f"rollout {num_steps.bit_length()}"]
            ThreadedRun(self._shard_launcher(), len(first) - 1, self.threads, heuristic).run()

    def _shard_launcher(self) -> Callable[[int], None]:
        """Return a function that rolls out a shard in any thread, with a memo that no other thread uses."""
        if not self._owners:
            return lambda part: self._commands[0][part].launch()
        unused = deque(zip(self._commands, self._owners, strict=True))
        free: deque[Sequence[Any]] = deque()

        def launch(part: int) -> None:
            try:
                commands = free.pop()
            except IndexError:
                commands, owners = unused.pop()
                owners.fill(0)  # weights may have changed since the last rollout
            try:
                commands[part].launch()
            finally:
                free.append(commands)

        return launch
