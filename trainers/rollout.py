"""On-device storage of one rollout (T x E x n) of one policy's agents."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import GpuEnvsError


class RolloutOverflowError(GpuEnvsError, RuntimeError):
    """More truncated agents in a rollout than its buffer of final observations has room for."""


@dataclass(frozen=True)
class Transition:
    """What one step of the environment gave the n agents of a policy, in E worlds.

    Tensors may be the environment's own buffers: `Learner.observe` copies what it keeps.
    """

    reward: Tensor
    """(E, n) float32."""
    terminated: Tensor
    """(E, n) bool event."""
    truncated: Tensor
    """(E, n) bool event."""
    valid: Tensor
    """(E, n) bool, the agent was alive before the step."""
    next_obs: Tensor
    """(E, n, D) float32, what the agent acts on next; after an autoreset, the next episode's first."""
    final_obs: Tensor
    """(E, n, D) float32, the true last observation; defined only where terminated or truncated."""
    next_to_move: Tensor | None = None
    """(E, n) bool, whose turn is next; None where all agents move at every step."""


def final_rows(length: int, time_limit: int, agents: int, per_agent: float | None = None) -> int:
    """Rows for the final observations of truncated agents in a rollout, out of T * E * n that there can be at most.

    Args:
        length: Steps, T.
        time_limit: Steps after which an episode is cut in any case; 0 if there is no limit.
        agents: E * n.
        per_agent: Truncations per agent to have room for, on average; None: what the limit brings about, and one more.
    """
    if per_agent is None:  # the limit cuts an agent ceil(T / limit) times at most; rules may cut some agents oftener
        per_agent = math.ceil(length / (time_limit or length)) + 1
    return math.ceil(min(per_agent, length) * agents)


class Rollout:
    """Fixed buffers for T steps, filled by `begin` (before a step) and `end` (after it), without a host sync.

    Final observations are kept only for truncated rows, the only ones a critic has to value: each is copied to the next
    free row of a buffer of `capacity` rows, and `final_slot` remembers which. The row after the last is a dump that
    takes all other writes. Where agents take turns none are kept, see `gae_by_turns`.
    """

    def __init__(
        self,
        length: int,
        shape: tuple[int, int],
        obs_width: int,
        action_shape: tuple[int, ...],
        action_dtype: torch.dtype,
        capacity: int,
        device: torch.device,
    ) -> None:
        """Allocates the buffers.

        Args:
            length: Steps per rollout, T.
            shape: (E, n), worlds and agents.
            obs_width: D.
            action_shape: () or (K,), of one agent's action.
            action_dtype: int64 or float32.
            capacity: Truncated rows that fit in one rollout, at most T * E * n.
            device: Where the buffers live.
        """
        steps = (length, *shape)
        self.length, self.capacity, self.t = length, capacity, 0
        self.obs = torch.zeros((*steps, obs_width), device=device)
        self.action = torch.zeros((*steps, *action_shape), dtype=action_dtype, device=device)
        self.log_prob = torch.zeros(steps, device=device)
        self.reward = torch.zeros(steps, device=device)
        self.terminated = torch.zeros(steps, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(steps, dtype=torch.bool, device=device)
        self.valid = torch.zeros(steps, dtype=torch.bool, device=device)
        self.last_obs = torch.zeros((*shape, obs_width), device=device)
        self.mask: Tensor | None = None  # (T, E, n, choices), allocated when the first mask comes
        self.to_move: Tensor | None = None  # (T + 1, E, n), likewise
        self.final_obs = torch.zeros((capacity + 1, obs_width), device=device)
        self.final_slot = torch.full(steps, capacity, dtype=torch.int64, device=device)
        self.final_count = torch.zeros((), dtype=torch.int64, device=device)

    def begin(self, obs: Tensor, mask: Tensor | None, to_move: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Copies what step t is decided on; returns the copies of observation (E, n, D) and mask."""
        self.obs[self.t].copy_(obs)
        if to_move is not None:
            if self.to_move is None:
                self.to_move = torch.ones((self.length + 1, *to_move.shape), dtype=torch.bool, device=to_move.device)
            self.to_move[self.t].copy_(to_move)
        if mask is None:
            return self.obs[self.t], None
        if self.mask is None:
            self.mask = torch.ones((self.length, *mask.shape), dtype=torch.bool, device=mask.device)
        self.mask[self.t].copy_(mask)
        return self.obs[self.t], self.mask[self.t]

    def decide(self, action: Tensor, log_prob: Tensor) -> None:
        """Stores what the policy answered: action (E, n[, K]) and its log-probability (E, n)."""
        self.action[self.t].copy_(action)
        self.log_prob[self.t].copy_(log_prob)

    def end(self, transition: Transition) -> None:
        """Stores what the step gave back and moves on to t + 1."""
        t = self.t
        self.reward[t].copy_(transition.reward)
        self.terminated[t].copy_(transition.terminated)
        self.truncated[t].copy_(transition.truncated)
        self.valid[t].copy_(transition.valid)
        if self.to_move is None:
            cut = (self.truncated[t] & ~self.terminated[t] & self.valid[t]).flatten()
            slot = self.final_count + cut.cumsum(0) - 1
            slot = torch.where(cut, slot.clamp(max=self.capacity), self.capacity)
            self.final_obs.index_copy_(0, slot, transition.final_obs.flatten(0, 1))
            self.final_slot[t].copy_(slot.view_as(self.final_slot[t]))
            self.final_count += cut.sum()
        self.t += 1
        if self.t == self.length:
            self.last_obs.copy_(transition.next_obs)
            if self.to_move is not None and transition.next_to_move is not None:
                self.to_move[self.t].copy_(transition.next_to_move)

    def check(self) -> int:
        """Final observations kept, RolloutOverflowError if some were lost (one host sync, at the rollout's end)."""
        count = int(self.final_count)
        if count > self.capacity:
            raise RolloutOverflowError(
                f"rollout of {self.length} steps had {count} truncated agents, its buffer of final observations holds "
                f"{self.capacity}: raise truncation_capacity (truncations per agent and rollout)"
            )
        return count

    def clear(self) -> None:
        """Starts the next rollout in the same buffers."""
        self.t = 0
        self.final_count.zero_()
