"""Launches of kernels over items, on the threads of a CPU or on a GPU."""

from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

import warp_kernels
from gpu_envs.definition.rules_errors import record_kernel
from gpu_envs.runtime.thread_pool import ThreadedRun, ThreadingHeuristic
from gpu_envs.utils.devices import current_device_kept, warp_stream

PARTS_PER_THREAD = 4
"""Parts per CPU thread that items are split into; a late thread runs fewer of them."""
GPU_BLOCK_DIM = 128
"""Threads per block on a GPU."""


class ItemLaunch:
    """A recorded launch of a kernel whose first arguments are first item, end and stride.

    Args:
        kernel: Warp kernel over two dimensions, of which the first are threads.
        inputs: Its other arguments. Their memory must stay in place.
        device: Device of the tensors.
        num_parts: Number of parts for several CPU threads; 0 for one thread.
        tile_threads: Threads of a block, for kernels in which a block of a GPU computes an item; 0 for other kernels.
    """

    def __init__(
        self, kernel: Any, inputs: Sequence[Any], device: torch.device, num_parts: int = 0, tile_threads: int = 0
    ) -> None:
        self._device, self._items, self._tile_threads = device, -1, tile_threads
        with warp_kernels.building, current_device_kept(device):
            warp_kernels.start()
            target = wp.device_from_torch(device)
            self._commands: list[Any] = [
                record_kernel(kernel, (1, tile_threads or 1), [0, 0, 1, *inputs], target, tile_threads or None)
                for _ in range(1 + num_parts)
            ]

    def set_items(self, items: int) -> None:
        """Set the number of items of the next runs."""
        if items == self._items:
            return
        self._items, (command, *parts) = items, self._commands
        if self._device.type == "cuda":
            command.set_dim((items, self._tile_threads or 1))
            command.block_dim = self._tile_threads or GPU_BLOCK_DIM
            command.set_param_at_index(2, items)
        command.set_param_at_index(1, items)
        for number, part in enumerate(parts):
            part.set_param_at_index(0, items * number // len(parts))
            part.set_param_at_index(1, items * (number + 1) // len(parts))

    def set_param(self, index: int, value: int) -> None:
        """Set an argument of the next runs."""
        for command in self._commands:
            command.set_param_at_index(index, value)

    def launch(self, part: int = 0) -> None:
        """Launch a part; part 0 is all items, on torch's current stream of a GPU."""
        if self._device.type == "cuda":
            with current_device_kept(self._device):
                self._commands[0].launch(warp_stream(self._device))
        else:
            self._commands[part].launch()


class ItemLaunches:
    """Launches that do not depend on each other, whose items CPU threads share.

    Args:
        launches: Kernel and inputs of each launch, see :class:`ItemLaunch`.
        device: Device of the tensors.
        threads: Largest number of CPU threads.
        tile_threads: See :class:`ItemLaunch`.
    """

    def __init__(
        self,
        launches: Sequence[tuple[Any, Sequence[Any]]],
        device: torch.device,
        threads: int,
        tile_threads: int = 0,
    ) -> None:
        self._threads = threads if device.type == "cpu" else 1
        self._num_parts = PARTS_PER_THREAD * threads if self._threads > 1 else 0
        self.launches: list[ItemLaunch] = [
            ItemLaunch(kernel, inputs, device, self._num_parts, tile_threads) for kernel, inputs in launches
        ]
        self._heuristic = ThreadingHeuristic()

    def set_param(self, index: int, value: int) -> None:
        """Set an argument of all launches."""
        for launch in self.launches:
            launch.set_param(index, value)

    def run(self, *items: int, parallel: bool | None = None) -> None:
        """Run all launches, each over its number of items.

        Args:
            items: Number of items of each launch.
            parallel: Use several threads; None: if earlier runs were faster so.
        """
        for launch, count in zip(self.launches, items, strict=True):
            launch.set_items(count)
        if self._threads == 1:
            for launch in self.launches:
                launch.launch()
            return

        def perform(part: int) -> None:
            if part == 0:
                for launch in self.launches:
                    launch.launch()
                return
            index, number = divmod(part - 1, self._num_parts)
            self.launches[index].launch(1 + number)

        num_parts = self._num_parts * len(self.launches)  # in one queue, launch by launch
        ThreadedRun(perform, num_parts, self._threads, self._heuristic, parallel).run()
