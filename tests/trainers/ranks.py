"""Simulated ranks of a training in one process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch


class Together:
    """Ranks as threads of this process, for sums only."""

    def __init__(self, ranks: int) -> None:
        self.local, self.barrier = threading.local(), threading.Barrier(ranks, timeout=300)
        self.values: dict[int, torch.Tensor] = {}

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Replace `trainers.base.shard.all_reduce_sum`."""
        self.values[self.local.rank] = values
        self.barrier.wait()
        summed = sum(self.values[rank] for rank in sorted(self.values))
        self.barrier.wait()
        return summed

    def map(self, do, of) -> list[Any]:
        """Run a function on one item per thread and rank."""

        def begin(rank):
            self.local.rank = rank
            try:
                return do(of[rank])
            except BaseException:
                self.barrier.abort()
                raise

        with ThreadPoolExecutor(len(of)) as pool:
            return list(pool.map(begin, range(len(of))))
