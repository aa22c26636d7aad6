"""One run over several processes (ranks): each plays a share of the worlds, and all learn what one process would.

    torchrun --nproc-per-node 2 train.py            # with Trainer(config, out, shard=Shard.from_env(config.num_envs))

What makes it equal, but for how sums round: a world has the same seeds and the same noise on whichever rank it is; all
ranks draw the same minibatches of the rows of all, and each computes the part of a minibatch that is of its worlds;
what a loss, an advantage or a normaliser divides by counts the rows of all; gradients are added up before they are
clipped; schedules count the steps of all; whatever else decides, the end of the training included, is decided by all.
Every rank holds the same weights, bit for bit. The first rank evaluates and writes, and its checkpoints are those of
one process: a run goes on from them in any number of processes.

It holds for all algorithms. Of a rollout a minibatch is dealt by `ShardDeck`. A replay is in parts, each rank holds the
steps of its own worlds: places are drawn among those of all, see `Replay.here`, and only priorities are everywhere.
Where a gradient is zero but for rounding, Adam follows the rounding: so it is for weights of a joint critic that cancel
out, such as those on the code of an agent that is the only one of its policy. They may differ; what the critic says
does not. GPUs have to be of one kind, see `check_alike`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, distributed

from gpu_envs import errors
from gpu_envs.errors import ConfigError, GpuEnvsError
from trainers.learner import ALONE, Deck, Descent
from trainers.replay import free_memory

if TYPE_CHECKING:
    from trainers.rollout import Rollout

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """The worlds of a rank: `num_envs` from `offset` on, of `num_envs_total`; the first ranks have one more."""

    rank: int
    """Of this process, in [0, ranks)."""
    ranks: int
    """Processes that learn together."""
    num_envs_total: int
    """Worlds of all ranks."""
    offset: int
    """Global index of this rank's first world."""
    num_envs: int
    """Worlds of this rank."""
    device: torch.device
    """Of its worlds and learners."""
    room: float = math.inf
    """Bytes that every rank can allocate on its device, with all others of the same device or machine."""

    @classmethod
    def of(cls, rank: int, ranks: int, num_envs_total: int, device: torch.device | str = "cpu") -> Shard:
        """The share of a rank, which has met no other (see `from_env`); ConfigError: more ranks than worlds."""
        check_ranks(ranks, num_envs_total)
        each, more = divmod(num_envs_total, ranks)
        offset = rank * each + min(rank, more)
        return cls(rank, ranks, num_envs_total, offset, each + (rank < more), torch.device(device))

    @classmethod
    def from_env(cls, num_envs_total: int, device: torch.device | str = "cpu") -> Shard:
        """The share of this process among those that torchrun started, or else all worlds.

        Joins the process group if nobody did, with NCCL where the device is a GPU; "cuda" is the rank's own GPU then.

        Raises:
            ConfigError: There are more ranks than worlds, or GPUs of unlike kinds.
        """
        device = torch.device(device)
        if "LOCAL_RANK" in os.environ and device.type == "cuda" and device.index is None:
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if not distributed.is_initialized() and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            if device.type == "cuda":
                torch.cuda.set_device(device)
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        if not distributed.is_initialized():
            return cls.of(0, 1, num_envs_total, device)
        return cls.of(distributed.get_rank(), distributed.get_world_size(), num_envs_total, device)._met()

    def _met(self) -> Shard:
        """With the room that ranks leave each other, as all tell before any allocates; ConfigError as `check_alike`."""
        kinds, places, free = zip(*self.told((*_kind_and_place(self.device), free_memory(self.device))), strict=True)
        check_alike(kinds)
        room = min(bytes_ / places.count(place) for bytes_, place in zip(free, places, strict=True))
        return dataclasses.replace(self, room=room)

    @property
    def first(self) -> bool:
        """Whether this rank evaluates and writes."""
        return self.rank == 0

    @property
    def descent(self) -> Descent:
        """What learners follow their gradients by."""
        return ShardDescent(self) if self.ranks > 1 else ALONE

    @property
    def offset_setting(self) -> dict[str, int]:
        """For the factory of cores."""
        return {"env_offset": self.offset} if self.ranks > 1 else {}

    def sizes(self) -> list[int]:
        """Worlds of every rank."""
        return [Shard.of(rank, self.ranks, self.num_envs_total).num_envs for rank in range(self.ranks)]

    # What ranks tell each other; of one process it is what went in

    def sum(self, values: Tensor) -> Tensor:
        """Over all ranks, the same tensor, of the values' shape, on each."""
        if self.ranks == 1:
            return values
        return total(values)

    def everyone(self, values: Tensor) -> list[Tensor]:
        """Tensors (N, ...) of all ranks, on each; N may differ."""
        if self.ranks == 1:
            return [values]
        counts = self.sum(_only(len(values), self.rank, self.ranks, values.device)).tolist()
        whole = torch.zeros((sum(counts), *values.shape[1:]), dtype=values.dtype, device=values.device)
        before = sum(counts[: self.rank])
        whole[before : before + len(values)] = values
        return list(self.sum(whole).split(counts))

    def told(self, said: Any) -> list[Any]:
        """What all ranks say, in values that JSON can hold, on each."""
        text = torch.tensor(list(json.dumps(said).encode()), dtype=torch.uint8, device=self.device)
        return [json.loads(bytes(each.tolist())) for each in self.everyone(text)]

    def agreed(self, make: Callable[[], T]) -> T:
        """What is made here, if all ranks can make theirs: what stops one (GpuEnvsError) is raised on all.

        Whoever raised alone would leave the others waiting for it.
        """
        if self.ranks == 1:
            return make()
        made: list[T] = []
        failed: GpuEnvsError | None = None
        try:
            made.append(make())
        except GpuEnvsError as error:
            failed = error
        told = self.told(failed and [type(failed).__name__, str(failed)])
        if (first := next(filter(None, told), None)) is not None:
            raise failed or getattr(errors, first[0], GpuEnvsError)(first[1])
        return made[0]

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first rank makes, on each; what stops it is raised on each, see `agreed`."""
        if self.ranks == 1:
            return make()
        said: list[Any] = [self.agreed(lambda: make() if self.first else None)]
        distributed.broadcast_object_list(said, src=0, device=wire(self.device))
        return said[0]

    def largest(self, number: int) -> int:
        """Of the numbers of all ranks."""
        if self.ranks == 1:
            return number
        most = torch.tensor(number, device=wire(self.device))
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
        return int(most)


def check_ranks(ranks: int, num_envs: int) -> None:
    """Raises ConfigError where there is not at least one world for each."""
    if not 1 <= ranks <= num_envs:
        raise ConfigError(f"shards = {ranks}: expected 1 to {num_envs}, as every shard needs a world of num_envs")


def check_alike(kinds: Sequence[str]) -> None:
    """Raises ConfigError where ranks have devices of unlike kinds.

    How a GPU's random numbers fall on the elements of a large tensor depends on how many multiprocessors it has.
    """
    other = next((rank for rank, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        raise ConfigError(
            f"device: expected GPUs of one kind, as others draw other random numbers; rank 0 has {kinds[0]}, rank "
            f"{other} has {kinds[other]}: choose machines with the same GPUs, or fewer shards"
        )


def _kind_and_place(device: torch.device) -> tuple[str, str]:
    """What random numbers depend on, and whose memory it is."""
    machine = socket.gethostname()
    if device.type != "cuda":
        return "a CPU", machine
    gpu = torch.cuda.get_device_properties(device)
    return f"{gpu.name} ({gpu.multi_processor_count} multiprocessors)", f"{machine} {gpu.uuid}"


def total(values: Tensor) -> Tensor:
    """Sum over all processes of the group, the same tensor, of the values' shape, on each."""
    summed = values.to(wire(values.device), copy=True)
    distributed.all_reduce(summed)
    return summed.to(values.device)


def wire(device: torch.device) -> torch.device:
    """Where what is sent has to be: gloo sends from the host, NCCL from the GPU."""
    if device.type == "cuda" and distributed.get_backend() != "gloo":
        return device
    if "nccl" in distributed.get_backend():  # a tensor of the host
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def _only(number: int, rank: int, ranks: int, device: torch.device) -> Tensor:
    """A rank's number among zeros."""
    return torch.tensor([number if each == rank else 0 for each in range(ranks)], device=device)


class AmongRanks(Descent):
    """Gradient steps that all processes of a group make together, by the mean of their gradients."""

    def __init__(self, ranks: int) -> None:
        """`ranks` is how many there are."""
        self.ranks = ranks

    def average(self, gradients: list[Tensor]) -> None:
        """One message for all of them."""
        if self.ranks > 1:
            flat = self.mean(torch.cat([gradient.flatten() for gradient in gradients]))
            for gradient, mean in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
                gradient.copy_(mean.view_as(gradient))

    def sum(self, values: Tensor) -> Tensor:
        """Over all ranks."""
        return total(values) if self.ranks > 1 else values

    def mean(self, values: Tensor) -> Tensor:
        """Over all ranks."""
        return self.sum(values) / self.ranks if self.ranks > 1 else values


class ShardDescent(AmongRanks):
    """Of shards: what one process would do with the rows of all."""

    def __init__(self, shard: Shard) -> None:
        """For the learners of a shard."""
        super().__init__(shard.ranks)
        self.shard = shard

    def count(self, where: Tensor) -> Tensor:
        """The mean over ranks of sums by this is the mean over all rows."""
        return self.sum(where.sum()).clamp(min=1) / self.ranks

    def deck(self, batch: dict[str, Tensor], rollout: Rollout) -> Deck:
        """Those of all ranks, of which this one computes its own."""
        return ShardDeck(batch, rollout, self.shard)

    def normalized(self, values: Tensor) -> Tensor:
        """By mean and deviation of all ranks' values."""
        mean, variance = self._moments(values)
        return (values - mean) / (variance.sqrt() + 1e-8)

    def variance(self, values: Tensor) -> Tensor:
        """Of all ranks' values."""
        return self._moments(values)[1]

    def in_time(self, places: Tensor, values: Tensor) -> Tensor:
        """All ranks' values, by time and world."""
        shard = self.shard
        step, world = places // shard.num_envs, places % shard.num_envs
        order = torch.cat(shard.everyone(step * shard.num_envs_total + shard.offset + world)).argsort()
        return torch.cat(shard.everyone(values))[order]

    def _moments(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance, in two passes."""
        count, whole = self.sum(torch.stack([torch.full_like(values.sum(), values.numel()), values.sum()]))
        mean = whole / count
        return mean, self.sum((values - mean).square().sum()) / count


class ShardDeck(Deck):
    """The rows of all ranks, in the order in which one process has them: by step, then by world."""

    def __init__(self, batch: dict[str, Tensor], rollout: Rollout, shard: Shard) -> None:
        """Tells the others how many rows there are here at each step, and hears it of them."""
        rows, valid = batch["rows"], batch.get("valid")
        self.shard, self.device = shard, rows.device
        step = rows // rollout.valid[0].numel()
        here = torch.bincount(step, minlength=rollout.length)
        each = torch.stack(shard.everyone(here)).view(shard.ranks, -1)
        at_step = each.sum(0)
        # where the first of a step's rows of this rank stands among all, and where here
        there = at_step.cumsum(0) - at_step + each[: shard.rank].sum(0)
        place = torch.arange(len(rows), device=self.device) + (there - (here.cumsum(0) - here))[step]
        self.size = self.most = int(at_step.sum())
        self.own = torch.full((self.size,), -1, device=self.device).index_copy_(
            0, place, torch.arange(len(rows), device=self.device)
        )
        self.weight: Tensor | None = None
        self.known: int = self.size
        if valid is not None:  # of sequences: decisions in them
            weight = torch.zeros(self.size, dtype=torch.int64, device=self.device)
            self.weight = shard.sum(weight.index_copy_(0, place, valid.sum(1)))
            self.known = int(self.weight.sum())
        # the mean over ranks of sums by this is the mean over all rows
        self.count = self.known / shard.ranks

    def deal(self, number: int, generator: torch.Generator) -> list[tuple[Tensor, Tensor | float | None]]:
        """As `Deck.deal`. The host waits for the device here, to learn how many rows of a minibatch are this rank's."""
        order = torch.randperm(self.size, generator=generator, device=self.device)
        own = self.own[order]
        here = own >= 0
        drawn = own[here].split(torch.stack([each.sum() for each in here.tensor_split(number)]).tolist())
        counts: list[Tensor | float | None] = []
        for chunk in order.tensor_split(number):
            whole = len(chunk) if self.weight is None else self.weight[chunk].sum().clamp(min=1)
            counts.append(whole / self.shard.ranks)
        return list(zip(drawn, counts, strict=True))
