"""Ranks of a training in one process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch


class Together:
    """Ranks that are threads of this process, as far as sums go."""

    def __init__(self, ranks: int) -> None:
        self.own, self.barrier = threading.local(), threading.Barrier(ranks, timeout=60)
        self.values: dict[int, torch.Tensor] = {}

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """In place of `sharding.total`."""
        self.values[self.own.rank] = values
        self.barrier.wait()
        summed = sum(self.values[rank] for rank in sorted(self.values))
        self.barrier.wait()
        return summed

    def each(self, do, of) -> list[Any]:
        """What threads, one per rank, make of one thing each."""

        def begin(rank):
            self.own.rank = rank
            try:
                return do(of[rank])
            except BaseException:
                self.barrier.abort()
                raise

        with ThreadPoolExecutor(len(of)) as pool:
            return list(pool.map(begin, range(len(of))))
