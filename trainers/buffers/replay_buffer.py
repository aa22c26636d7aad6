"""Replay buffer on the device: a ring of steps of all worlds, sampled without a host sync.

With several ranks each holds the steps of its worlds. All ranks draw the same places of all worlds, and each looks
up its own, see `ReplayBuffer.local_places`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.base.prefix_sum import cumulative_weights
from trainers.base.shard import free_memory
from trainers.base.state import State

if TYPE_CHECKING:
    from trainers.base.shard import Shard

Fields: TypeAlias = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""Shape and dtype of the fields stored per world and step, by name."""
PRIORITY = "priority"
"""Field () with the sampling priorities; every rank stores them for all worlds."""


class WorldBuffers:
    """Buffers (L, E, ...) by name: L rows for each of E worlds, on the device."""

    setting: str = "learner.replay_size"
    """Setting of the capacity, for error messages."""
    prefix: str = "replay."
    """Start of the buffers' names in checkpoints."""

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        fields: Fields,
        device: torch.device,
        least: int = 1,
        shard: Shard | None = None,
    ) -> None:
        """Allocate the buffers.

        Args:
            capacity: Rows of worlds to keep on all ranks together, rounded up to whole rows of all worlds.
            num_envs: Number of worlds E.
            fields: Fields to store.
            device: Device of the buffers.
            least: Smallest number of rows per world that must fit: a rollout, or a window that is sampled.
            shard: Position of these worlds among the worlds of all ranks; None: a single process.

        Raises:
            ConfigError: The capacity is too small, or the buffers exceed the free memory or this rank's share of it.
                The message states the bytes needed.
        """
        self.shard: Shard | None = shard if shard is not None and shard.ranks > 1 else None
        self.num_envs: int = num_envs
        self.device: torch.device = device
        self.num_envs_total: int = num_envs if self.shard is None else self.shard.num_envs_total
        self.length: int = -(-capacity // self.num_envs_total)
        if self.length < least:
            raise ConfigError(
                f"{self.setting}: expected at least {least * self.num_envs_total}, that is {least} "
                f"steps of {self.num_envs_total} worlds, got {capacity}"
            )
        self._check_fits(capacity, fields)
        self.buffers: dict[str, Tensor] = {
            name: torch.zeros(self._shape(name, shape, num_envs), dtype=dtype, device=device)
            for name, (shape, dtype) in fields.items()
        }

    def _shape(self, name: str, shape: tuple[int, ...], num_envs: int) -> tuple[int, ...]:
        return self.length, self.num_envs_total if name == PRIORITY else num_envs, *shape

    def _check_fits(self, capacity: int, fields: Fields) -> None:
        """Raise ConfigError, alike on all ranks, if the buffers of the largest rank do not fit."""
        free, num_envs, whom = free_memory(self.device), self.num_envs, ""
        if self.shard is not None and self.shard.memory_budget < free:
            free, num_envs, whom = self.shard.memory_budget, max(self.shard.sizes()), " to each rank"
        needed = sum(
            math.prod(self._shape(name, shape, num_envs)) * dtype.itemsize for name, (shape, dtype) in fields.items()
        )
        if needed > free:
            raise ConfigError(
                f"{self.setting} = {capacity}: needs {needed:,} bytes on {self.device}, {free:,.0f} are "
                f"free{whom}; at most {int(self.length * free / needed) * self.num_envs_total:,} steps of worlds fit"
            )

    def local_places(self, time: Tensor, env: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the drawn places in this rank's worlds, (time, env), and their indices; the indices are None for all.

        The returned `env` counts this rank's worlds. With several ranks the host synchronizes with the device to count
        the places, of which there may be none.
        """
        if self.shard is None:
            return time, env, None
        env = env - self.shard.offset
        indices = ((env >= 0) & (env < self.num_envs)).nonzero().squeeze(-1)
        return time[indices], env[indices], indices

    def saved_rows(self, filled: int) -> State:
        """Return the first rows of the buffers, (filled, E, ...), for checkpoints."""
        return {f"{self.prefix}{name}": buffer[:filled] for name, buffer in self.buffers.items()}

    def load_rows(self, state: State, filled: int) -> None:
        """Restore the result of `saved_rows`; raise CheckpointError if it does not fit."""
        for name, buffer in self.buffers.items():
            tensor, shape = state.get(f"{self.prefix}{name}"), (filled, *buffer.shape[1:])
            if not isinstance(tensor, Tensor) or tensor.shape != shape:
                actual = tuple(tensor.shape) if isinstance(tensor, Tensor) else "nothing"
                raise CheckpointError(f"learner state {self.prefix}{name}: expected shape {shape}, got {actual}")
            buffer[:filled].copy_(tensor)


class ReplayBuffer(WorldBuffers):
    """The last L steps of E worlds, as buffers (L, E, ...) by name.

    Consecutive steps of a world stay adjacent, so that windows of several steps can be sampled for n-step returns or
    recurrent networks. The host tracks the ring's position, so nothing is read from the device. A copy on the device
    serves draws, which can be captured as a CUDA graph.
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
        """Allocate the buffers; arguments and errors as of `WorldBuffers`, with steps as rows."""
        super().__init__(capacity, num_envs, fields, device, least, shard)
        self.position, self.filled = 0, 0
        self.oldest: Tensor
        self.num_steps: Tensor
        self.oldest, self.num_steps = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))
        """Row of the oldest step, and number of steps per world, on the device."""

    def add(self, steps: Mapping[str, Tensor]) -> None:
        """Append T steps, tensors (T, E, ...) by name, over the oldest; raise ConfigError if T is too large."""
        count = next(iter(steps.values())).shape[0]
        if count > self.length:
            raise ConfigError(
                f"learner.replay_size: a rollout of {count} steps does not fit; expected at least "
                f"{count * self.num_envs_total} for {self.num_envs_total} worlds"
            )
        if self.shard is not None and PRIORITY in steps:
            steps = {**steps, PRIORITY: torch.cat(self.shard.all_gather(steps[PRIORITY].T)).T}
        first = min(count, self.length - self.position)
        for name, buffer in self.buffers.items():
            buffer[self.position : self.position + first].copy_(steps[name][:first])
            buffer[: count - first].copy_(steps[name][first:])
        self._set_position((self.position + count) % self.length, min(self.filled + count, self.length))

    def _set_position(self, position: int, filled: int) -> None:
        """Set the row of the next step and the number of steps per world."""
        self.position: int = position
        self.filled: int = filled
        self.oldest.fill_(position if filled == self.length else 0)
        self.num_steps.fill_(filled)

    def draw(self, count: int, generator: torch.Generator, window: int = 1) -> tuple[Tensor, Tensor]:
        """Draw places uniformly: (time, env), both (count,) int64, such that `window` steps follow in order.

        Places are among the worlds of all ranks; `local_places` selects this rank's.
        """
        # a remainder of 2^62 values: their number is on the device, and its probabilities differ by less than 2^-30
        drawn = torch.randint(2**62, (count,), generator=generator, device=self.device)
        age = drawn % self._starts(window)
        env = torch.randint(self.num_envs_total, (count,), generator=generator, device=self.device)
        return (self.oldest + age) % self.length, env

    def _starts(self, window: int) -> Tensor:
        """Return the number of steps per world that `window - 1` steps follow, at least 1, a scalar."""
        return (self.num_steps - window + 1).clamp(min=1)

    def draw_prioritized(
        self, count: int, generator: torch.Generator, beta: Tensor, window: int = 1
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw places with probabilities proportional to the field `PRIORITY`, and importance weights.

        Source: Schaul et al. 2016, "Prioritized Experience Replay", sections 3.3 (stratified draws) and 3.4.

        Args:
            count: Number of places.
            generator: Generator of the draws.
            beta: Strength of the correction, a scalar in [0, 1]: weights are `P^-beta` of the probabilities P, divided
                by the largest.
            window: As in `draw`.

        Returns:
            (time, env, weight), all (count,). Places of priority 0 are drawn only if all are 0.
        """
        priority = self.buffers[PRIORITY]
        age = (torch.arange(self.length, device=self.device) - self.oldest) % self.length
        allowed = (age < self._starts(window)).unsqueeze(1)
        below = cumulative_weights(priority.masked_fill(~allowed, 0.0).flatten().double())
        strata = torch.arange(count, device=self.device)
        draws = torch.rand(count, generator=generator, device=self.device, dtype=torch.float64)
        point = torch.minimum((strata + draws) / count * below[-1], below[-1].nextafter(torch.zeros_like(below[-1])))
        index = torch.searchsorted(below, point, right=True).clamp_(max=below.numel() - 1)
        chosen = priority.flatten()[index].clamp(min=1e-12)
        return index // self.num_envs_total, index % self.num_envs_total, (chosen / chosen.min()) ** -beta

    def update_priorities(self, time: Tensor, env: Tensor, indices: Tensor | None, priority: Tensor) -> None:
        """Set the priorities of drawn places; each rank passes those (B,) that `local_places` selects."""
        if self.shard is not None and indices is not None:
            priority = self.shard.sum(torch.zeros_like(time, dtype=priority.dtype).index_copy_(0, indices, priority))
        self.buffers[PRIORITY][time, env] = priority

    def at(self, time: Tensor, env: Tensor) -> dict[str, Tensor]:
        """Return the fields at places, tensors (count, ...) by name, except priorities."""
        return {name: buffer[time, env] for name, buffer in self.buffers.items() if name != PRIORITY}

    def windows(self, time: Tensor, env: Tensor, length: int, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return windows of steps from places on, tensors (length, count, ...) by name; None: as `at`."""
        steps = (time + torch.arange(length, device=self.device).unsqueeze(1)) % self.length
        return {name: self.buffers[name][steps, env] for name in names or self.buffers.keys() - {PRIORITY}}

    def state_dict(self) -> State:
        """Return the whole buffer, for checkpoints."""
        return {**self.saved_rows(self.filled), "replay_position": self.position, "replay_filled": self.filled}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError if it does not fit."""
        position = _count(state, "replay_position", self.length - 1)
        filled = _count(state, "replay_filled", self.length)
        self.load_rows(state, filled)
        self._set_position(position, filled)


def _count(state: State, name: str, limit: int) -> int:
    """Return an integer of a state; raise CheckpointError unless it is in [0, limit]."""
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
        raise CheckpointError(f"learner state {name}: expected an int in [0, {limit}], got {value!r:.80}")
    return value
