"""On-device storage of one rollout (T x E x n) of one policy's agents, or of several policies at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    next_mask: Tensor | None = None
    """(E, n, choices) bool, the legal actions of the next step; None: all are."""
    restarted: Tensor | None = None
    """(E,) bool, the next step begins an episode of this world; None where no learner remembers anything."""
    next_state: Tensor | None = None
    """(E, S) global state of the next step, for learners that asked for it (`Learner.central`)."""
    final_state: Tensor | None = None
    """(E, S) state that the step led to, before an autoreset; defined only where some agent was truncated."""
    joint_action: Tensor | None = None
    """(E, A) or (E, A, K), what all agents of the world did, for learners whose critics judge it."""


PER_WORLD = ("restarted", "next_state", "final_state", "joint_action")
"""What a transition holds of worlds; all else is of agents."""


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
    takes all other writes. Where agents take turns none are kept, see `gae_by_turns`. Final states likewise, by world.
    What not every learner needs (masks, turns, states, ...) has buffers from the first time that it comes.
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
        self.length, self.capacity, self.device, self.t = length, capacity, device, 0
        self.all_obs = torch.zeros((length + 1, *shape, obs_width), device=device)
        self.action = torch.zeros((*steps, *action_shape), dtype=action_dtype, device=device)
        self.log_prob = torch.zeros(steps, device=device)
        self.reward = torch.zeros(steps, device=device)
        self.terminated = torch.zeros(steps, dtype=torch.bool, device=device)
        self.truncated = torch.zeros(steps, dtype=torch.bool, device=device)
        self.valid = torch.zeros(steps, dtype=torch.bool, device=device)
        self.mask: Tensor | None = None  # (T + 1, E, n, choices)
        self.to_move: Tensor | None = None  # (T + 1, E, n)
        self.state: Tensor | None = None  # (T + 1, E, S)
        self.joint_action: Tensor | None = None  # (T, E, A[, K])
        # whether step t is the first of an episode; the row of step T is where the next rollout goes on
        self.begins = torch.ones((length + 1, shape[0]), dtype=torch.bool, device=device)
        self.final_obs = torch.zeros((capacity + 1, obs_width), device=device)
        self.final_slot = torch.full(steps, capacity, dtype=torch.int64, device=device)
        self.final_count = torch.zeros((), dtype=torch.int64, device=device)
        self.final_state: Tensor | None = None  # (T, E, S)

    def begin(
        self, obs: Tensor, mask: Tensor | None = None, to_move: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Copies what step t is decided on; returns the copies of observation (E, n, D) and mask."""
        t = self.t
        self.obs[t].copy_(obs)
        self._keep("to_move", t, to_move)
        self._keep("state", t, state)
        self._keep("mask", t, mask)
        return self.obs[t], None if self.mask is None else self.mask[t]

    def decide(self, action: Tensor, log_prob: Tensor | None = None) -> None:
        """Stores what the policy answered: action (E, n[, K]) and, if it is of use, its log-probability (E, n)."""
        self.action[self.t].copy_(action)
        if log_prob is not None:
            self.log_prob[self.t].copy_(log_prob)

    def end(self, transition: Transition) -> None:
        """Stores what the step gave back and moves on to t + 1."""
        t = self.t
        self.reward[t].copy_(transition.reward)
        self.terminated[t].copy_(transition.terminated)
        self.truncated[t].copy_(transition.truncated)
        self.valid[t].copy_(transition.valid)
        if transition.restarted is not None:
            self.begins[t + 1].copy_(transition.restarted)
        self._keep("joint_action", t, transition.joint_action)
        self._keep("final_state", t, transition.final_state)
        if self.to_move is None:
            cut = (self.truncated[t] & ~self.terminated[t] & self.valid[t]).flatten(-2)
            slot = self.final_count.unsqueeze(-1) + cut.cumsum(-1) - 1
            slot = torch.where(cut, slot.clamp(max=self.capacity), self.capacity)
            self._keep_final(slot, transition.final_obs)
            self.final_slot[t].copy_(slot.view_as(self.final_slot[t]))
            self.final_count += cut.sum(-1)
        self.t += 1
        if self.t == self.length:
            self.last_obs.copy_(transition.next_obs)
            self._keep("to_move", self.t, transition.next_to_move)
            self._keep("state", self.t, transition.next_state)
            self._keep("mask", self.t, transition.next_mask)

    def _keep_final(self, slot: Tensor, final_obs: Tensor) -> None:
        """Copies final observations (E, n, D) to rows (E * n)."""
        self.final_obs.index_copy_(0, slot, final_obs.flatten(0, 1))

    def _keep(self, name: str, t: int, value: Tensor | None) -> None:
        """Copies a value to step t of its buffer, which is made when the first one comes."""
        if value is None:
            return
        if getattr(self, name) is None:
            self._make(name, value)
        getattr(self, name)[t].copy_(value)

    def _make(self, name: str, like: Tensor) -> None:
        """Makes the buffer of what is like this at every step."""
        setattr(self, name, _buffer(self.length, like))

    @property
    def obs(self) -> Tensor:
        """(T, E, n, D), what was decided on."""
        return self.all_obs[:-1]

    @property
    def last_obs(self) -> Tensor:
        """(E, n, D), what the last step led to."""
        return self.all_obs[-1]

    def next_obs(self) -> Tensor:
        """(T, E, n, D), what every step led to: the final observation where an agent was truncated."""
        return torch.where(
            (self.final_slot < self.capacity).unsqueeze(-1), self.final_obs[self.final_slot], self.all_obs[1:]
        )

    def next_state(self) -> Tensor:
        """(T, E, S), what every step led to: the final state where a world was cut."""
        assert self.state is not None
        if self.final_state is None:
            return self.state[1:]
        cut = (self.truncated & self.valid).any(-1, keepdim=True)
        return torch.where(cut, self.final_state[:-1], self.state[1:])

    def check(self) -> int:
        """Final observations kept, RolloutOverflowError if some were lost (one host sync, at the rollout's end)."""
        count = int(self.final_count)
        if count > self.capacity:
            raise RolloutOverflowError(
                f"rollout of {self.length} steps had {count} truncated agents, its buffer of final observations holds "
                f"{self.capacity}: raise truncation_capacity (truncations per agent and rollout)"
            )
        return count

    def rewind(self) -> None:
        """Starts the rollout again."""
        self.t = 0
        self.final_count.zero_()

    def clear(self) -> None:
        """Starts the next rollout in the same buffers."""
        self.rewind()
        self.begins[0].copy_(self.begins[-1])


def _buffer(length: int, like: Tensor) -> Tensor:
    """One for what there is before and after every step; of masks and turns, what is never written is legal."""
    return torch.full((length + 1, *like.shape), like.dtype == torch.bool, dtype=like.dtype, device=like.device)


class Rollouts(Rollout):
    """Rollouts of P policies of one shape that are filled as one, by `begin`, `decide` and `end`.

    What these get and give is led by P: (P, E, n) where a rollout has (E, n). Buffers are (P, T, E, n, ...) in memory,
    each rollout's the part of it that it had: it looks to its learner as if it were alone, which also starts it again.
    """

    def __init__(self, parts: Sequence[Rollout]) -> None:
        """Moves the buffers of rollouts that have not begun."""
        first = parts[0]
        self.parts, self.length, self.capacity, self.t = parts, first.length, first.capacity, 0
        self.device, self.mask, self.to_move, self.state = first.device, None, None, None
        self.joint_action, self.final_state = None, None
        for name, value in vars(first).items():
            if isinstance(value, Tensor):
                self._share(name, torch.stack([getattr(part, name) for part in parts]))
        rows = torch.arange(len(parts), device=first.device) * (first.capacity + 1)
        self.first_rows = rows.unsqueeze(-1)

    def _share(self, name: str, whole: Tensor) -> None:
        """Gives every rollout its part of a buffer (P, ...), and this one the whole, led by time where that leads."""
        for part, own in zip(self.parts, whole, strict=True):
            setattr(part, name, own)
        setattr(self, name, whole if name in ("final_obs", "final_count") else whole.transpose(0, 1))

    def _make(self, name: str, like: Tensor) -> None:
        self._share(name, torch.stack([_buffer(self.length, each) for each in like]))

    def _keep_final(self, slot: Tensor, final_obs: Tensor) -> None:
        rows = (self.first_rows + slot).flatten()
        self.final_obs.flatten(0, 1).index_copy_(0, rows, final_obs.flatten(0, 2))

    def rewind(self) -> None:
        """Starts again; what its parts count they set back themselves."""
        self.t = 0
