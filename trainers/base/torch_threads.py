"""The number of PyTorch's threads within a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let PyTorch use `count` threads within the block.

    After an operation its other threads wait for the next one in a loop, which takes their cores from kernels.
    """
    previous = torch.get_num_threads()
    if count == previous:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(previous)
