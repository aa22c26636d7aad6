"""Groups of policies that act in one call: single policies, and policies of equal shape in one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from league.rollout.policy_weights_cache import PolicyWeightsCache
from trainers.models.batched_policies import BatchedPolicies
from trainers.models.policy import PolicyProtocol, fit_inputs

__all__ = ["LEAST", "SameShapePolicies", "SeatStep", "SinglePolicy"]

LEAST = 16
"""Smallest number of rows of a block if policies have unequal numbers of worlds."""


@dataclass
class SeatStep:
    """The observations of one step of a seat, and the tensor for its actions."""

    obs: Tensor
    """(E, n, D) observations of the seat's agents."""
    mask: Tensor | None
    """(E, n, C) legal actions."""
    greedy: bool
    """True to take the most probable actions."""
    rows: slice | Tensor
    """Rows of the seat's agents, a slice or (n,) int64."""
    into: Tensor
    """Actions of all agents (E, A[, K])."""
    on_move: Tensor | None = None
    """(E,) whether an agent of the seat acts; on a CPU only."""
    advances: Tensor | None = None
    """(E, n) agents that advance their hidden state, see `gpu_envs.utils.observed_turns`; None: all."""
    observing: Tensor | None = None
    """(E,) whether an agent of the seat advances it; on a CPU only."""

    def remembered(self, previous: Tensor, current: Tensor, worlds: Tensor | None = None) -> Tensor:
        """Return the hidden states (R, n, H) after the step, of some worlds (R,) or all."""
        if self.advances is None:
            return current
        advances = self.advances if worlds is None else self.advances[worlds]
        return torch.where(advances.unsqueeze(-1), current, previous)

    def put(self, worlds: Tensor, action: Tensor) -> None:
        """Write the actions (R, n[, k]) of some worlds (R,)."""
        into = self.into if self.into.ndim == 2 else self.into[..., : action.shape[-1]]
        if isinstance(self.rows, slice):
            into[:, self.rows].index_copy_(0, worlds, action)
        else:
            into[worlds[:, None], self.rows] = action

    def put_where(self, plays: Tensor, action: Tensor) -> None:
        """Write the actions (E, n[, k]) of the worlds with `plays` (E,)."""
        into = self.into if self.into.ndim == 2 else self.into[..., : action.shape[-1]]
        plays = plays.view(-1, *[1] * (action.ndim - 1))
        into[:, self.rows] = torch.where(plays, action, into[:, self.rows])


class SinglePolicy:
    """A policy that acts in a separate call."""

    size = 1
    """Number of policies."""

    def __init__(self, core: Core, first: int, hidden_state: Tensor | None, policy: PolicyProtocol) -> None:
        """Create the group of one policy.

        Args:
            core: Worlds.
            first: Slot of the policy.
            hidden_state: (E, n, H), if the policy is recurrent.
            policy: The policy.
        """
        self.first: int = first
        self.hidden_state: Tensor | None = hidden_state
        self.policy: PolicyProtocol = policy
        self.device: torch.device = core.device
        self.reads_core: bool = getattr(policy, "core", None) is core  # it acts for all worlds of its core
        self.worlds: Tensor = torch.empty(0, dtype=torch.int64)
        self.plays: Tensor | None = None

    def assign(self, worlds: Tensor, local: Tensor) -> None:
        """Assign the worlds (R,)."""
        self.worlds = worlds.to(self.device)
        self.plays = None

    def assign_on_device(self, slot: Tensor) -> None:
        """Assign the worlds of the slots (E,) that are this policy's."""
        self.plays = slot == self.first

    def act(self, step: SeatStep) -> None:
        """Write the actions of its worlds."""
        if self.plays is not None:
            step.put_where(self.plays, self._act_everywhere(step))
            return
        worlds, active = self.worlds, step.on_move if self.hidden_state is None else step.observing
        worlds = worlds if active is None else worlds[active[worlds]]
        if not len(worlds):
            return
        if self.reads_core:
            step.put(worlds, self._act_everywhere(step)[worlds])
            return
        hidden_state = None if self.hidden_state is None else self.hidden_state[worlds]
        mask = None if step.mask is None else step.mask[worlds]
        inputs = fit_inputs(self.policy, step.obs[worlds], mask)
        step.put(worlds, self.policy.act(*inputs, step.greedy, hidden_state))
        if self.hidden_state is not None and hidden_state is not None:
            self.hidden_state[worlds] = step.remembered(self.hidden_state[worlds], hidden_state, worlds)

    def _act_everywhere(self, step: SeatStep) -> Tensor:
        """Return the actions (E, n[, k]) of all worlds."""
        previous = None if self.hidden_state is None else self.hidden_state.clone()
        action = self.policy.act(*fit_inputs(self.policy, step.obs, step.mask), step.greedy, self.hidden_state)
        if self.hidden_state is not None and previous is not None:
            self.hidden_state.copy_(step.remembered(previous, self.hidden_state))
        return action


@dataclass
class _Blocks:
    """Rows of a batched call."""

    worlds: Tensor
    """(R,) worlds in the order of their policies."""
    rows: Tensor
    """(R,) row of each world among the rows of all blocks."""
    height: int
    """Number of rows per block."""
    policies: BatchedPolicies
    """One policy per block."""

    def __post_init__(self) -> None:
        """Compute the world of each row of the blocks (blocks * height,); unused rows repeat a world."""
        rows = self.worlds[:1].expand(self.policies.size * self.height + 1).clone()  # the last row is a dump
        self.sources = rows.index_copy_(0, self.rows, self.worlds)[:-1]


class SameShapePolicies:
    """Policies of equal shape, which act in one batched call."""

    def __init__(self, core: Core, first: int, hidden_state: Tensor | None, weights: PolicyWeightsCache) -> None:
        """Create the group of the policies of a cache.

        Args:
            core: Worlds.
            first: Slot of the first policy.
            hidden_state: (E, n, H), if the policies are recurrent.
            weights: Weights of the policies.
        """
        self.first: int = first
        self.hidden_state: Tensor | None = hidden_state
        self.weights: PolicyWeightsCache = weights
        self.size: int = weights.size
        self.on_cpu: bool = core.device.type == "cpu"
        self.worlds = torch.empty(0)
        self.local = torch.empty(0)
        self.edges: Tensor = torch.arange(self.size + 1)
        self.ready: _Blocks | None = None
        self.plays: Tensor | None = None

    def assign(self, worlds: Tensor, local: Tensor) -> None:
        """Assign the worlds (R,) to the policies `local` (R,), ascending; both on the host."""
        self.worlds: Tensor = worlds
        self.local: Tensor = local
        self.plays = None
        self.ready = None
        present = local.unique_consecutive().tolist()
        room = self.weights.room
        self.waves: list[Any] = [present[start : start + room] for start in range(0, len(present), room)]
        if not self.on_cpu and len(self.waves) == 1:
            self.ready = self._blocks(worlds, local, self.waves[0])

    def assign_on_device(self, slot: Tensor) -> None:
        """Assign the worlds of the slots (E,) that are its policies', without host synchronization."""
        local = slot - self.first
        self.plays = (local >= 0) & (local < self.size)
        local, worlds = torch.where(self.plays, local, self.size).sort(stable=True)
        height = max(-(-len(slot) // (4 * self.size)), LEAST)
        counts = torch.zeros(self.size + 1, dtype=torch.int64, device=slot.device)
        counts.index_add_(0, local, torch.ones_like(local))
        blocks = (counts[:-1] + height - 1) // height
        bound = len(slot) // height + self.size
        owner = torch.searchsorted(blocks.cumsum(0), torch.arange(bound, device=slot.device), right=True)
        rows = _block_rows(local, counts, torch.cat([blocks, blocks.new_zeros(1)]), height)
        rows = torch.where(local < self.size, rows, bound * height)  # worlds of other policies go to the dump
        self.ready = _Blocks(worlds, rows, height, self.weights.gather(owner.clamp(max=self.size - 1)))

    def act(self, step: SeatStep) -> None:
        """Write the actions of its worlds."""
        if self.ready is not None:
            self._act(step, self.ready)
            return
        worlds, local = self.worlds, self.local
        active = step.on_move if self.hidden_state is None else step.observing
        if active is not None:
            indices = active.index_select(0, worlds).nonzero()[:, 0]
            worlds, local = worlds.index_select(0, indices), local.index_select(0, indices)
        for wave in self.waves:
            span = slice(None)
            if len(self.waves) > 1:
                ends = torch.searchsorted(local, torch.tensor([wave[0], wave[-1] + 1]))
                span = slice(int(ends[0]), int(ends[1]))
            if len(worlds[span]):
                self._act(step, self._blocks(worlds[span], local[span], wave))

    def _blocks(self, worlds: Tensor, local: Tensor, wave: list[int]) -> _Blocks:
        """Return the blocks of worlds (R,) with policies `local` (R,), ascending, all in one wave; on the host."""
        counts = torch.searchsorted(local, self.edges).diff()
        highest, playing = int(counts.max()), int(counts.count_nonzero())
        mean = len(local) / playing
        height = highest if highest <= 1.25 * mean else max(-(-len(local) // (4 * playing)), LEAST)
        blocks = (counts + height - 1) // height
        owner = torch.repeat_interleave(torch.arange(self.size), blocks)
        rows = _block_rows(local, counts, blocks, height)
        device = self.weights.device
        return _Blocks(worlds.to(device), rows.to(device), height, self.weights.gather(owner, wave))

    def _act(self, step: SeatStep, blocks: _Blocks) -> None:
        def in_blocks(values: Tensor) -> Tensor:
            """Return values (E, n, ...) as (blocks, height, n, ...)."""
            return values.index_select(0, blocks.sources).unflatten(0, (blocks.policies.size, blocks.height))

        policies = blocks.policies
        hidden_state = None if self.hidden_state is None else in_blocks(self.hidden_state)
        mask = None if step.mask is None else in_blocks(step.mask)
        obs = in_blocks(step.obs[..., : policies.obs_width])
        action = policies.act(obs, mask, step.greedy, hidden_state).flatten(0, 1)
        if self.plays is None:
            step.put(blocks.worlds, action.index_select(0, blocks.rows))
            if self.hidden_state is not None and hidden_state is not None:
                current = hidden_state.flatten(0, 1).index_select(0, blocks.rows)
                previous = self.hidden_state.index_select(0, blocks.worlds)
                self.hidden_state.index_copy_(0, blocks.worlds, step.remembered(previous, current, blocks.worlds))
            return
        rows = torch.empty_like(blocks.rows).index_copy_(0, blocks.worlds, blocks.rows).clamp(max=len(action) - 1)
        step.put_where(self.plays, action[rows])
        if self.hidden_state is not None and hidden_state is not None:
            current = step.remembered(self.hidden_state, hidden_state.flatten(0, 1)[rows])
            self.hidden_state.copy_(torch.where(self.plays[:, None, None], current, self.hidden_state))


def _block_rows(local: Tensor, counts: Tensor, blocks: Tensor, height: int) -> Tensor:
    """Return the rows of policies `local` (R,), ascending, among the rows of all blocks; policies start new blocks."""
    shift = (blocks.cumsum(0) - blocks) * height - (counts.cumsum(0) - counts)
    return torch.arange(len(local), device=local.device) + shift[local]
