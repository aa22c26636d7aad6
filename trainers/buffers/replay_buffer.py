"""Replay on the device: a ring of steps of all worlds, sampled without a host sync.

Of several processes (ranks) that learn together each holds the steps of its own worlds. All draw the same places of all
worlds, of which each looks up its own, see `Replay.here`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.learner import State, part_of

if TYPE_CHECKING:
    from trainers.sharding import Shard

Fields: TypeAlias = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""What is kept of a world's step: shape and dtype by name."""
PRIORITY = "priority"
"""Field () that places are drawn by; every rank knows that of all worlds."""


class Replay:
    """The last L steps of E worlds, as buffers (L, E, ...) by name.

    Steps of a world that follow each other stay neighbours, so that windows of several steps can be sampled, for n-step
    returns or recurrent networks. Where the ring stands the host knows, hence nothing is read from the device.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        fields: Fields,
        device: torch.device,
        least: int = 1,
        shard: Shard | None = None,
    ) -> None:
        """Allocates the buffers.

        Args:
            capacity: Steps of worlds to keep, those of all ranks, rounded up to whole steps of all worlds.
            num_envs: E.
            fields: What is kept.
            device: Where the buffers live.
            least: Steps of each world that there has to be room for: a rollout, or a window of what is learned from.
            shard: Which of all ranks' worlds these are; None: all.

        Raises:
            ConfigError: There is less room, or the buffers do not fit into the free memory, or this rank's part of
                it; the line tells how many bytes they need.
        """
        self.shard = shard if shard is not None and shard.ranks > 1 else None
        self.num_envs, self.device = num_envs, device
        self.num_envs_total = num_envs if self.shard is None else self.shard.num_envs_total
        self.length = -(-capacity // self.num_envs_total)
        if self.length < least:
            raise ConfigError(
                f"learner.replay_size = {capacity}: expected at least {least * self.num_envs_total}, that is {least} "
                f"steps of {self.num_envs_total} worlds"
            )
        self._check_fits(capacity, fields)
        self.buffers = {
            name: torch.zeros(self._shape(name, shape, num_envs), dtype=dtype, device=device)
            for name, (shape, dtype) in fields.items()
        }
        self.position, self.filled = 0, 0

    def _shape(self, name: str, shape: tuple[int, ...], num_envs: int) -> tuple[int, ...]:
        return self.length, self.num_envs_total if name == PRIORITY else num_envs, *shape

    def _check_fits(self, capacity: int, fields: Fields) -> None:
        """Raises ConfigError where the buffers do not: of ranks that have met on all alike, as most need elsewhere."""
        free, most, whom = free_memory(self.device), self.num_envs, ""
        if self.shard is not None and self.shard.room < free:
            free, most, whom = self.shard.room, max(self.shard.sizes()), " to each rank"
        needed = sum(
            math.prod(self._shape(name, shape, most)) * dtype.itemsize for name, (shape, dtype) in fields.items()
        )
        if needed > free:
            raise ConfigError(
                f"learner.replay_size = {capacity}: needs {needed:,} bytes on {self.device}, {free:,.0f} are "
                f"free{whom}; at most {int(self.length * free / needed) * self.num_envs_total:,} steps of worlds fit"
            )

    def add(self, steps: Mapping[str, Tensor]) -> None:
        """Appends T steps, tensors (T, E, ...) by name; what is oldest leaves. ConfigError where it holds fewer."""
        count = next(iter(steps.values())).shape[0]
        if count > self.length:
            raise ConfigError(
                f"learner.replay_size: a rollout of {count} steps does not fit; expected at least "
                f"{count * self.num_envs_total} for {self.num_envs_total} worlds"
            )
        if self.shard is not None and PRIORITY in steps:
            steps = {**steps, PRIORITY: torch.cat(self.shard.everyone(steps[PRIORITY].T)).T}
        first = min(count, self.length - self.position)
        for name, buffer in self.buffers.items():
            buffer[self.position : self.position + first].copy_(steps[name][:first])
            buffer[: count - first].copy_(steps[name][first:])
        self.position = (self.position + count) % self.length
        self.filled = min(self.filled + count, self.length)

    def draw(self, count: int, generator: torch.Generator, window: int = 1) -> tuple[Tensor, Tensor]:
        """Draws places uniformly: (time, env), both (count,) int64, such that `window` steps follow in order.

        They are of all ranks' worlds, as what `draw_prioritized` gives: `here` tells which of them are here.
        """
        starts = self.filled - window + 1
        age = torch.randint(max(starts, 1), (count,), generator=generator, device=self.device)
        env = torch.randint(self.num_envs_total, (count,), generator=generator, device=self.device)
        return (self.oldest + age) % self.length, env

    def draw_prioritized(
        self, count: int, generator: torch.Generator, beta: float, window: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draws places with probabilities proportional to the field `PRIORITY`, with importance weights.

        Source: Schaul et al. 2016, "Prioritized Experience Replay", sections 3.3 (stratified draws) and 3.4.

        Args:
            count: Places to draw.
            generator: Of the draws.
            beta: How far weights make up for the probabilities P, in [0, 1]: `P^-beta`, over the largest of the draw.
            window: As `draw`.

        Returns:
            (time, env, weight), all (count,). Places of priority 0 are not drawn unless all are 0.
        """
        priority = self.buffers[PRIORITY]
        age = (torch.arange(self.length, device=self.device) - self.oldest) % self.length
        allowed = (age < max(self.filled - window + 1, 1)).unsqueeze(1)
        below = priority.masked_fill(~allowed, 0.0).flatten().cumsum(0, dtype=torch.float64)
        strata = torch.arange(count, device=self.device)
        draws = torch.rand(count, generator=generator, device=self.device, dtype=torch.float64)
        point = torch.minimum((strata + draws) / count * below[-1], below[-1].nextafter(torch.zeros_like(below[-1])))
        place = torch.searchsorted(below, point, right=True).clamp_(max=below.numel() - 1)
        drawn = priority.flatten()[place].clamp(min=1e-12)
        return place // self.num_envs_total, place % self.num_envs_total, (drawn / drawn.min()) ** -beta

    def here(self, time: Tensor, env: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Of places that were drawn those of this rank's worlds: (time, env), and their indices; None: all.

        `env` then counts this rank's worlds, as all that looks something up expects it. The host waits for the device
        here where there are other ranks, to learn how many places these are: there may be none.
        """
        if self.shard is None:
            return time, env, None
        env = env - self.shard.offset
        own = ((env >= 0) & (env < self.num_envs)).nonzero().squeeze(-1)
        return time[own], env[own], own

    def prioritize(self, time: Tensor, env: Tensor, own: Tensor | None, priority: Tensor) -> None:
        """Changes the priorities of places that were drawn; each rank brings those of its own, (B,), as `here` says."""
        if self.shard is not None and own is not None:
            priority = self.shard.sum(torch.zeros_like(time, dtype=priority.dtype).index_copy_(0, own, priority))
        self.buffers[PRIORITY][time, env] = priority

    @property
    def oldest(self) -> int:
        """Row of the oldest step."""
        return self.position if self.filled == self.length else 0

    def at(self, time: Tensor, env: Tensor) -> dict[str, Tensor]:
        """What stands at places, tensors (count, ...) by name; priorities, which are of all ranks' worlds, aside."""
        return {name: buffer[time, env] for name, buffer in self.buffers.items() if name != PRIORITY}

    def windows(self, time: Tensor, env: Tensor, length: int, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """What stands at places and in the steps behind them, tensors (length, count, ...) by name (None: as `at`)."""
        steps = (time + torch.arange(length, device=self.device).unsqueeze(1)) % self.length
        return {name: self.buffers[name][steps, env] for name in names or self.buffers.keys() - {PRIORITY}}

    def state_dict(self) -> State:
        """Everything, for checkpoints."""
        kept = {f"replay.{name}": buffer[: self.filled] for name, buffer in self.buffers.items()}
        return {**kept, "replay_position": self.position, "replay_filled": self.filled}

    def load_state_dict(self, state: State) -> None:
        """Puts back what `state_dict` gave; CheckpointError where it does not fit."""
        position = _count(state, "replay_position", self.length - 1)
        filled = _count(state, "replay_filled", self.length)
        given = part_of(state, "replay.")
        for name, buffer in self.buffers.items():
            each, shape = given.get(name), (filled, *buffer.shape[1:])
            if not isinstance(each, Tensor) or each.shape != shape:
                got = tuple(each.shape) if isinstance(each, Tensor) else "nothing"
                raise CheckpointError(f"learner state replay.{name}: expected shape {shape}, got {got}")
            buffer[:filled].copy_(each)
        self.position, self.filled = position, filled


def _count(state: State, name: str, most: int) -> int:
    """Return an integer of a state; raise CheckpointError unless it is one in [0, most]."""
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise CheckpointError(f"learner state {name}: expected an int in [0, {most}], got {value!r:.80}")
    return value


def free_memory(device: torch.device) -> float:
    """Bytes that can still be allocated on a device, whole ones; infinite where the system does not tell."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    told = Path("/proc/meminfo")
    for line in told.read_text(encoding="ascii").splitlines() if told.exists() else ():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return min(int(value.split()[0]) * 1024, _of_container())
    return math.inf


def _of_container() -> float:
    """Bytes that a container (cgroup, version 2) may still use; infinite where there is no limit."""
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if not limit.exists() or (most := limit.read_text(encoding="ascii").strip()) == "max":
        return math.inf
    return max(int(most) - int(used.read_text(encoding="ascii")), 0)
