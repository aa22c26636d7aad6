"""Reservoir on the device: a uniform sample of all decisions so far, without a host sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError
from trainers.base.random_streams import SingleStream, uniform
from trainers.base.serialization import check_tensors
from trainers.base.state import State
from trainers.buffers.replay_buffer import Fields, WorldBuffers

if TYPE_CHECKING:
    from trainers.base.shard import Shard


class ReservoirBuffer(WorldBuffers):
    """Reservoirs of L decisions for each of n agents in E worlds, as buffers (L, E, n, ...) by name.

    Source: Vitter 1985, "Random Sampling with a Reservoir", algorithm R, for every agent of every world. Its decision
    number c, from 0, gets slot c while there is room, and later a uniform one of c + 1 slots, of which L exist. `draw`
    chooses agents in proportion to their numbers of decisions, so that all decisions so far are equally likely.
    """

    setting = "learner.reservoir_size"
    prefix = "replay.reservoir."

    def __init__(
        self, capacity: int, shape: tuple[int, int], fields: Fields, device: torch.device, shard: Shard | None = None
    ) -> None:
        """Allocate the reservoirs; other arguments and errors as of `WorldBuffers`.

        Args:
            capacity: Decisions of each agent to keep in all worlds of all ranks, rounded up to equal numbers of worlds.
            shape: (E, n), numbers of worlds and agents.
            fields: Fields of one agent's decision.
            device: Device of the buffers.
            shard: Position of these worlds among the worlds of all ranks; None: a single process.
        """
        envs, agents = shape
        per_world = {name: ((agents, *field), dtype) for name, (field, dtype) in fields.items()}
        super().__init__(capacity, envs, per_world, device, shard=shard)
        self.counts: Tensor = torch.zeros((self.num_envs_total, agents), dtype=torch.int64, device=device)
        """Number of decisions so far, by world of all ranks and by agent."""
        self._index = torch.arange(envs, device=device).unsqueeze(1), torch.arange(agents, device=device)

    def add(self, decisions: Mapping[str, Tensor], valid: Tensor, stream: SingleStream) -> None:
        """Offer decisions to the reservoirs, step by step.

        Args:
            decisions: Tensors (T, E, n, ...) by name.
            valid: (T, E, n) bool, the decisions that count.
            stream: Random stream of the slots, for the worlds of this rank.
        """
        first = 0 if self.shard is None else self.shard.offset
        counts = self.counts[first : first + self.num_envs]
        for t, is_valid in enumerate(valid):
            draws = (uniform(counts.double(), stream) * (counts + 1)).long()
            slot = torch.where(counts < self.length, counts, draws)
            is_kept = is_valid & (slot < self.length)
            # distinct places, so that the order of writes does not matter
            index = (slot.clamp(max=self.length - 1), *self._index)
            for name, buffer in self.buffers.items():
                mask = is_kept.view(*is_kept.shape, *[1] * (buffer.dim() - 3))
                buffer[index] = torch.where(mask, decisions[name][t], buffer[index])
            counts += is_valid
        if self.shard is not None:
            self.counts.copy_(torch.cat(self.shard.all_gather(counts)))

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw places uniformly over all decisions so far of all ranks: (slot, env, agent), all (count,) int64."""
        counts = self.counts.flatten()
        sums = counts.cumsum(0)
        # remainders as in `ReplayBuffer.draw`
        draws = torch.randint(2**62, (2, count), generator=generator, device=self.device)
        row = torch.searchsorted(sums, draws[0] % sums[-1].clamp(min=1), right=True).clamp(max=len(counts) - 1)
        agents = self.counts.shape[1]
        return draws[1] % counts[row].clamp(1, self.length), row // agents, row % agents

    def state_dict(self) -> State:
        """Return the reservoirs, for checkpoints; the host synchronizes with the device."""
        return {**self.saved_rows(self._filled()), "reservoir_counts": self.counts}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError if it does not fit."""
        name = "reservoir_counts"
        counts = check_tensors("learner state", state, {name: self.counts})[name]
        if int(counts.min()) < 0:
            raise CheckpointError(f"learner state {name}: expected numbers from 0, got {int(counts.min())}")
        self.load_rows(state, min(int(counts.max()), self.length))
        self.counts.copy_(counts)

    def _filled(self) -> int:
        """Return the number of slots in use, equal on all ranks."""
        return min(int(self.counts.max()), self.length)
