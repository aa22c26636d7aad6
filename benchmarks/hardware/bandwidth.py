"""Memory bandwidth of a device by copies of a large tensor. It imports torch only."""

import time
from collections.abc import Iterator

import torch


def copy_rates(device: torch.device | str, size: int | None = None, repeats: int = 10) -> list[float]:
    """Measure how many bytes a second a device reads and writes together, by copying a large tensor.

    Args:
        device: Device; on a CPU ``torch.get_num_threads()`` threads are used.
        size: Bytes of the tensor; None takes 2 GiB on a GPU (at most a quarter of the free memory) and 256 MiB on a
            CPU, many times the size of the caches.
        repeats: Number of timed copies.

    Returns:
        The rate of every copy [bytes/s]: twice the size over its time.
    """
    device = device if isinstance(device, torch.device) else torch.device(device)
    if size is None:
        size = min(2 << 30, torch.cuda.mem_get_info(device)[0] // 4) if device.type == "cuda" else 256 << 20
    source = torch.randint(-(2**31), 2**31 - 1, (size // 4,), dtype=torch.int32, device=device)  # zeros may go faster
    target = torch.empty_like(source)
    for _ in range(3):
        target.copy_(source)
    moved = 2 * source.numel() * source.element_size()
    return [moved / seconds for seconds in _copies(source, target, repeats)]


def _copies(source: torch.Tensor, target: torch.Tensor, repeats: int) -> Iterator[float]:
    """Yield the seconds of every copy."""
    if source.device.type != "cuda":
        for _ in range(repeats):
            begin = time.perf_counter()
            target.copy_(source)
            yield time.perf_counter() - begin
        return
    with torch.cuda.device(source.device):
        for _ in range(repeats):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source)
            end.record()
            end.synchronize()
            yield begin.elapsed_time(end) / 1e3
