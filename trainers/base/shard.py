"""Data-parallel training of one run by several processes (ranks), each with a share of the worlds.

    torchrun --nproc-per-node 2 train.py            # with Trainer(config, out, shard=Shard.from_env(config.num_envs))

The result equals a single process's, except for the rounding of sums:

- A world has the same seeds and the same noise on any rank.
- All ranks draw the same minibatches from the rows of all ranks. Each rank computes the rows of its worlds.
- Divisors of losses, advantages and normalizers count the rows of all ranks. Gradients are summed before clipping.
- Schedules count the steps of all ranks. Decisions, such as the end of training, are taken by all ranks together.

Every rank holds the same weights, bit for bit. Rank 0 evaluates and writes. Its checkpoints equal the ones of a
single process, and a run resumes from them with any number of processes.

This holds for all algorithms. `ShardedMinibatchSampler` splits rollouts into minibatches. Each rank's replay holds the
steps of its worlds, and all ranks draw the same places of all worlds, see `ReplayBuffer.local_places`. Only
priorities are stored on every rank.

Where a gradient is zero except for rounding, Adam amplifies the rounding, and weights may differ from a single process.
This concerns weights of a joint critic that cancel out, such as those on the action code of a policy's only agent. The
critic's values stay equal. All GPUs must be of one kind, see `check_same_hardware`. A single process with
`cuda_graph=True` on a GPU draws other minibatches, because captured updates keep rows without decisions.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import math
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed.nn.functional  # its default arguments would keep a group that exists when it is imported
from torch import Tensor, distributed

from gpu_envs import errors
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.kernels import split_worlds

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Share of one rank in the worlds of a run: `num_envs` worlds from `offset` on.

    If the division leaves a remainder, the first ranks have one world more.
    """

    rank: int
    """Index of this process, in [0, ranks)."""
    ranks: int
    """Number of processes that train together."""
    num_envs_total: int
    """Number of worlds of all ranks."""
    offset: int
    """Global index of this rank's first world."""
    num_envs: int
    """Number of worlds of this rank."""
    device: torch.device
    """Device of this rank's worlds and learners."""
    memory_budget: float = math.inf
    """Bytes that each rank can allocate while the other ranks on its device or machine allocate the same."""

    @classmethod
    def split(cls, rank: int, ranks: int, num_envs_total: int, device: torch.device | str = "cpu") -> Shard:
        """Return the share of a rank without contact to other ranks.

        Raises:
            ConfigError: There are more ranks than worlds.
        """
        check_ranks(ranks, num_envs_total)
        first, end = split_worlds(num_envs_total, ranks)[rank]
        return cls(rank, ranks, num_envs_total, first, end - first, torch.device(device))

    @classmethod
    def from_env(cls, num_envs_total: int, device: torch.device | str = "cpu") -> Shard:
        """Return the share of this process among those started by torchrun; all worlds for a single process.

        Joins the process group if there is none yet: NCCL for a GPU, else gloo. Device "cuda" becomes the rank's own
        GPU. This starts CUDA: with `deterministic=True` call `TrainConfig.prepare` first.

        Raises:
            ConfigError: There are more ranks than worlds, or the GPUs are of different kinds.
        """
        device = torch.device(device)
        if "LOCAL_RANK" in os.environ and device.type == "cuda" and device.index is None:
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if not distributed.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            if device.type == "cuda":
                torch.cuda.set_device(device)
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
            if device.type != "cuda":
                atexit.register(_leave_group)
        if not distributed.is_initialized():
            return cls.split(0, 1, num_envs_total, device)
        shard = cls.split(distributed.get_rank(), distributed.get_world_size(), num_envs_total, device)
        return shard._with_memory_budget()

    def _with_memory_budget(self) -> Shard:
        """Return this shard with the memory budget of all ranks; raise as `check_same_hardware`."""
        kinds, places, free = zip(
            *self.all_gather_json((*_kind_and_place(self.device), free_memory(self.device))), strict=True
        )
        check_same_hardware(kinds)
        budget = min(bytes_ / places.count(location) for bytes_, location in zip(free, places, strict=True))
        return dataclasses.replace(self, memory_budget=budget)

    @property
    def is_rank0(self) -> bool:
        """Whether this is rank 0, which evaluates and writes files."""
        return self.rank == 0

    @property
    def core_settings(self) -> dict[str, int]:
        """Settings of this rank's core."""
        return {"env_offset": self.offset} if self.ranks > 1 else {}

    def sizes(self) -> list[int]:
        """Return the number of worlds of every rank."""
        return [Shard.split(rank, self.ranks, self.num_envs_total).num_envs for rank in range(self.ranks)]

    # Collectives; with a single process they return their argument.

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over ranks, of the shape of `values`."""
        if self.ranks == 1:
            return values
        return all_reduce_sum(values)

    def all_gather(self, values: Tensor) -> list[Tensor]:
        """Return the tensors (N, ...) of all ranks; N may differ between ranks."""
        if self.ranks == 1:
            return [values]
        local_counts = torch.zeros(self.ranks, dtype=torch.int64, device=values.device)
        local_counts[self.rank] = len(values)
        counts = self.sum(local_counts).tolist()
        joined = torch.zeros((sum(counts), *values.shape[1:]), dtype=values.dtype, device=values.device)
        begin = sum(counts[: self.rank])
        joined[begin : begin + len(values)] = values
        return list(self.sum(joined).split(counts))

    def all_gather_json(self, value: Any) -> list[Any]:
        """Return the JSON values of all ranks."""
        text = torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8, device=self.device)
        return [json.loads(bytes(part.tolist())) for part in self.all_gather(text)]

    def run_on_all(self, make: Callable[[], T]) -> T:
        """Call `make` on all ranks and return this rank's result; raise the first rank's GpuEnvsError on all ranks.

        An error raised on one rank alone would leave the other ranks waiting.
        """
        if self.ranks == 1:
            return make()
        results: list[T] = []
        failed: GpuEnvsError | None = None
        try:
            results.append(make())
        except GpuEnvsError as error:
            failed = error
        failures = self.all_gather_json(failed and [type(failed).__name__, str(failed)])
        if (first := next(filter(None, failures), None)) is not None:
            raise failed or getattr(errors, first[0], GpuEnvsError)(first[1])
        return results[0]

    def broadcast_from_rank0(self, make: Callable[[], T]) -> T:
        """Call `make` on rank 0 and return its result on all ranks; raise its GpuEnvsError on all ranks."""
        if self.ranks == 1:
            return make()
        value: list[Any] = [self.run_on_all(lambda: make() if self.is_rank0 else None)]
        distributed.broadcast_object_list(value, src=0, device=transport_device(self.device))
        return value[0]

    def all_reduce_max(self, number: int) -> int:
        """Return the largest number of all ranks."""
        if self.ranks == 1:
            return number
        maximum = torch.tensor(number, device=transport_device(self.device))
        distributed.all_reduce(maximum, distributed.ReduceOp.MAX)
        return int(maximum)


def check_ranks(ranks: int, num_envs: int) -> None:
    """Raise ConfigError unless every rank has at least one world."""
    if not 1 <= ranks <= num_envs:
        raise ConfigError(f"num_workers: expected 1 to {num_envs}, one world per worker or more, got {ranks}")


def check_same_hardware(kinds: Sequence[str]) -> None:
    """Raise ConfigError if ranks have devices of different kinds.

    A GPU's random numbers for a large tensor depend on its number of multiprocessors.
    """
    other = next((rank for rank, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        raise ConfigError(
            f"device: expected GPUs of one kind for equal random numbers, got {kinds[0]} on rank 0 and {kinds[other]} "
            f"on rank {other}; choose machines with equal GPUs, or fewer shards"
        )


def _leave_group() -> None:
    """Leave the process group, because threads of gloo that run while Python exits can abort the process."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _kind_and_place(device: torch.device) -> tuple[str, str]:
    """Return what random numbers depend on (a description of the device) and the name of the memory it uses."""
    machine = socket.gethostname()
    if device.type != "cuda":
        return "a CPU", machine
    gpu = torch.cuda.get_device_properties(device)
    return f"{gpu.name} ({gpu.multi_processor_count} multiprocessors)", f"{machine} {gpu.uuid}"


def free_memory(device: torch.device) -> float:
    """Return the number of bytes that can still be allocated on a device; infinity if the system does not report it."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    meminfo = Path("/proc/meminfo")
    for line in meminfo.read_text(encoding="ascii").splitlines() if meminfo.exists() else ():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return min(int(value.split()[0]) * 1024, _container_limit())
    return math.inf


def _container_limit() -> float:
    """Return the number of bytes that a container (cgroup v2) may still use; infinity without a limit."""
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if not limit.exists() or (size := limit.read_text(encoding="ascii").strip()) == "max":
        return math.inf
    return max(int(size) - int(used.read_text(encoding="ascii")), 0)


def all_reduce_sum(values: Tensor) -> Tensor:
    """Return the sum over all processes of the group, of the shape of `values`, on each process."""
    summed = values.to(transport_device(values.device), copy=True)
    distributed.all_reduce(summed)
    return summed.to(values.device)


def transport_device(device: torch.device) -> torch.device:
    """Return the device that messages are sent from: the host for gloo, the GPU for NCCL."""
    if device.type == "cuda" and distributed.get_backend() != "gloo":
        return device
    if "nccl" in distributed.get_backend():  # `device` is the host
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
