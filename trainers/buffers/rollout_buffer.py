"""On-device storage of a rollout (T x E x n) of one policy's agents, or of several policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.rollout.trace import RolloutTrace
from gpu_envs.utils.observed_turns import takes_in
from trainers.base.learner_spec import LearnerSpec
from trainers.base.transition import Transition
from trainers.models.action_heads import Head

WITHOUT_TIME = ("final_obs", "final_count", "largest_final_count")  # buffers without a time axis


class RolloutOverflowError(GpuEnvsError, RuntimeError):
    """A rollout has more truncated agents than its buffer of final observations has rows."""


def final_obs_capacity(length: int, time_limit: int, agents: int, per_agent: float | None = None) -> int:
    """Return the number of rows for final observations of truncated agents, the same for every agent, at most T.

    Args:
        length: Steps per rollout, T.
        time_limit: Largest episode length [steps]; 0: no limit.
        agents: Number of agents in all worlds, E * n.
        per_agent: Mean number of truncations per agent and rollout to reserve rows for, rounded up; None: one more than
            the limit causes.
    """
    if per_agent is None:  # the limit cuts an agent at most ceil(T / limit) times; rules may cut more often
        per_agent = math.ceil(length / (time_limit or length)) + 1
    return min(math.ceil(per_agent), length) * agents


class RolloutBuffer:
    """Fixed buffers for T steps, filled by `begin_step` and `end_step` without a host sync.

    Final observations are stored only for truncated rows, the only ones whose value is needed. Each goes to the next
    free row of a buffer of `capacity` rows, and `final_slot` holds its index. All other writes go to free rows or to an
    extra last row. In turn-based games none are stored, see `gae_by_turns`. Final states are stored likewise, by world.
    Buffers that only some learners need (masks, turns, states, ...) are allocated at their first use.
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
        """Allocate the buffers.

        Args:
            length: Steps per rollout, T.
            shape: (E, n), numbers of worlds and agents.
            obs_width: Observation width D.
            action_shape: () or (K,), shape of one agent's action.
            action_dtype: int64 or float32.
            capacity: Largest number of truncated rows per rollout, at most T * E * n, see `final_obs_capacity`.
            device: Device of the buffers.
        """
        steps = (length, *shape)
        self.length: int = length
        self.capacity = capacity
        self.device: torch.device = device
        self.t = 0
        self.all_obs: Tensor = torch.zeros((length + 1, *shape, obs_width), device=device)
        self.action: Tensor = torch.zeros((*steps, *action_shape), dtype=action_dtype, device=device)
        self.log_prob: Tensor = torch.zeros(steps, device=device)
        self.reward: Tensor = torch.zeros(steps, device=device)
        self.terminated: Tensor = torch.zeros(steps, dtype=torch.bool, device=device)
        self.truncated: Tensor = torch.zeros(steps, dtype=torch.bool, device=device)
        self.valid: Tensor = torch.zeros(steps, dtype=torch.bool, device=device)
        self.mask: Tensor | None = None  # (T + 1, E, n, choices)
        self.to_move: Tensor | None = None  # (T + 1, E, n)
        self.state: Tensor | None = None  # (T + 1, E, S)
        self.joint_action: Tensor | None = None  # (T, E, A[, K])
        # (T + 1, E, n), agents that advance their hidden state in step t, see `track_turns`
        self.advances: Tensor | None = None
        # whether step t starts an episode; row T is the first step of the next rollout
        self.episode_starts: Tensor = torch.ones((length + 1, shape[0]), dtype=torch.bool, device=device)
        self.final_obs: Tensor = torch.zeros((capacity + 1, obs_width), device=device)
        self.final_slot: Tensor = torch.full(steps, capacity, dtype=torch.int64, device=device)
        self.final_count: Tensor = torch.zeros((), dtype=torch.int64, device=device)
        self.largest_final_count: Tensor = torch.zeros((), dtype=torch.int64, device=device)  # of all rollouts so far
        self.final_state: Tensor | None = None  # (T, E, S)

    @classmethod
    def for_learner(cls, spec: LearnerSpec, head: Head, length: int, per_agent: float | None) -> RolloutBuffer:
        """Return the buffer of a learner for T steps; `per_agent` as in `final_obs_capacity`."""
        capacity = final_obs_capacity(length, spec.time_limit, spec.num_envs * spec.num_agents, per_agent)
        shape, device = (spec.num_envs, spec.num_agents), torch.device(spec.device)
        return cls(length, shape, spec.obs_width, head.action_shape, head.action_dtype, capacity, device)

    def track_turns(self) -> None:
        """Keep which agents advance the hidden state of a recurrent policy, see `gpu_envs.utils.observed_turns`."""
        self.advances = torch.ones((self.length + 1, *self.valid.shape[1:]), dtype=torch.bool, device=self.device)

    def _track_turns(self, t: int) -> None:
        """Set who advances in step t; step 0 is the last one of the rollout before."""
        if self.advances is not None and self.to_move is not None and t > 0:
            obs, earlier = self.all_obs[t], self.all_obs[t - 1]
            self.advances[t].copy_(takes_in(obs, earlier, self.to_move[t], self.episode_starts[t]))

    def begin_step(
        self, obs: Tensor, mask: Tensor | None = None, to_move: Tensor | None = None, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Store the inputs of step t; return the stored observation (E, n, D) and mask."""
        t = self.t
        self.obs[t].copy_(obs)
        self._keep("to_move", t, to_move)
        self._keep("state", t, state)
        self._keep("mask", t, mask)
        self._track_turns(t)
        return self.obs[t], None if self.mask is None else self.mask[t]

    def store_action(self, action: Tensor, log_prob: Tensor | None = None) -> None:
        """Store the policy's action (E, n[, K]) and, optionally, its log-probability (E, n)."""
        self.action[self.t].copy_(action)
        if log_prob is not None:
            self.log_prob[self.t].copy_(log_prob)

    def end_step(self, transition: Transition) -> None:
        """Store the results of step t and advance to t + 1.

        Raises:
            ConfigError: States are stored, and the transition has no final state.
        """
        t = self.t
        if self.state is not None and transition.final_state is None:
            raise ConfigError("Transition.final_state: expected a state (E, S), as critics of states need, got None")
        self.reward[t].copy_(transition.reward)
        self.terminated[t].copy_(transition.terminated)
        self.truncated[t].copy_(transition.truncated)
        self.valid[t].copy_(transition.valid)
        if transition.restarted is not None:
            self.episode_starts[t + 1].copy_(transition.restarted)
        self._keep("joint_action", t, transition.joint_action)
        self._keep("final_state", t, transition.final_state)
        if self.to_move is None:
            cut = (self.truncated[t] & ~self.terminated[t] & self.valid[t]).flatten(-2)
            slot = self.final_count.unsqueeze(-1) + cut.cumsum(-1) - 1
            slot = torch.where(cut, slot.clamp(max=self.capacity), self.capacity)
            self.final_count += cut.sum(-1)
            self._keep_final(self._rows_to_write(slot), transition.final_obs)
            self.final_slot[t].copy_(slot.view_as(self.final_slot[t]))
        self.t += 1
        if self.t == self.length:
            self.last_obs.copy_(transition.next_obs)
            self._keep("to_move", self.t, transition.next_to_move)
            self._keep("state", self.t, transition.next_state)
            self._keep("mask", self.t, transition.next_mask)
            self._track_turns(self.t)

    def load_trace(self, trace: RolloutTrace, rows: slice | Tensor, choices: int | None = None) -> None:
        """Take the results of a whole rollout in kernels; results of all agents are not copied.

        Final observations have rows for every agent, see `RolloutTrace.final_obs`.

        Args:
            trace: The rollout.
            rows: Rows of this policy's agents.
            choices: Number of their choices, if actions are masked.
        """
        width = self.all_obs.shape[-1]
        is_whole = trace.valid[0, 0, rows].numel() == trace.valid.shape[2] and isinstance(rows, slice)
        per_step = {name: getattr(trace, name) for name in ("log_prob", "reward", "terminated", "truncated", "valid")}
        per_step |= {"all_obs": trace.obs[..., :width], "final_slot": trace.final_slot}
        per_step["action"] = trace.action[..., : self.action.shape[3]] if self.action.dim() > 3 else trace.action
        if self.action.dim() == 3 and trace.action.dim() == 4:
            per_step["action"] = trace.action[..., 0]
        per_step |= {"mask": None if trace.mask is None else trace.mask[..., :choices], "to_move": trace.to_move}
        agents, slots = trace.valid.shape[1] * trace.valid.shape[2], len(trace.final_obs) - 1
        share = slots // agents
        final = trace.final_obs[:, :width]
        if not is_whole:
            slot = trace.final_slot[:, :, rows]
            count = slot.shape[1] * slot.shape[2]
            first_slot = torch.arange(count, device=self.device).view(slot.shape[1:]) * share
            used = slot < slots
            per_step = {name: None if value is None else value[:, :, rows] for name, value in per_step.items()}
            if share:
                per_step["final_slot"] = torch.where(used, first_slot + slot % share, count * share)
            last = final[:slots].view(*trace.valid.shape[1:], share, width)[:, rows].reshape(-1, width)
            final = torch.cat([last, final[-1:]])
        for name, tensor in {**per_step, "final_obs": final}.items():
            self._take(name, tensor, is_whole)
        self.capacity = len(final) - 1
        truncations = trace.final_count[:, rows]
        self.final_count.copy_(truncations.any() * self.capacity)  # rows have gaps: all are used, or none
        self.largest_final_count.copy_(
            torch.maximum(self.largest_final_count, (truncations.max() > share) * (self.capacity + 1))
        )
        self.t = self.length

    def copies(self) -> dict[str, Tensor]:
        """Return copies of the buffers of a complete rollout by name, most of them (T, E, n, ...)."""
        return {
            name: value.clone()
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and name != "largest_final_count"
        }

    def load_copies(self, tensors: Mapping[str, Tensor]) -> None:
        """Take a complete rollout of a buffer of equal shape, as `copies` returned it."""
        for name, tensor in tensors.items():
            buffer = getattr(self, name)
            fits = buffer is not None and buffer.shape == tensor.shape  # a new buffer must not be the given tensor
            self._take(name, tensor.to(self.device, copy=not fits), is_whole=False)
        self.capacity: int = len(self.final_obs) - 1
        self.t: int = self.length

    def _take(self, name: str, tensor: Tensor | None, is_whole: bool) -> None:
        """Use a tensor as buffer if it holds all agents, else copy it; recorded launches need buffers in one place."""
        buffer = getattr(self, name)
        if tensor is None or (is_whole and tensor.is_contiguous()):
            setattr(self, name, tensor)
        elif buffer is not None and buffer.shape == tensor.shape:
            buffer.copy_(tensor)
        else:
            setattr(self, name, tensor.contiguous())

    def _rows_to_write(self, slot: Tensor) -> Tensor:
        """Return the rows to write (..., E * n); on a GPU, agents without a slot write to free rows.

        Writes of all of them to one row would wait for each other there. On a CPU that row stays in the cache.
        """
        if self.device.type != "cuda":
            return slot
        count = self.final_count.unsqueeze(-1)
        agents = torch.arange(slot.shape[-1], device=self.device)
        free = count + agents % (self.capacity - count).clamp(min=1)
        return torch.where(slot < self.capacity, slot, free.clamp(max=self.capacity))

    def _keep_final(self, slot: Tensor, final_obs: Tensor) -> None:
        """Copy final observations (E, n, D) to rows (E * n)."""
        self.final_obs.index_copy_(0, slot, final_obs.flatten(0, 1))

    def _keep(self, name: str, t: int, value: Tensor | None) -> None:
        """Copy a value to step t of its buffer, allocated at first use."""
        if value is None:
            return
        if getattr(self, name) is None:
            self._make(name, value)
        getattr(self, name)[t].copy_(value)

    def _make(self, name: str, like: Tensor) -> None:
        """Allocate a buffer for a value with one entry per step."""
        setattr(self, name, _buffer(self.length, like))

    @property
    def rows_per_step(self) -> int:
        """Number of rows per step, E * n."""
        return self.valid[0].numel()

    @property
    def obs(self) -> Tensor:
        """(T, E, n, D), observations before each step."""
        return self.all_obs[:-1]

    @property
    def last_obs(self) -> Tensor:
        """(E, n, D), observations after the last step."""
        return self.all_obs[-1]

    def next_obs(self) -> Tensor:
        """Return the observations after each step (T, E, n, D), final ones where an agent was truncated."""
        return torch.where(
            (self.final_slot < self.capacity).unsqueeze(-1), self.final_obs[self.final_slot], self.all_obs[1:]
        )

    def next_state(self) -> Tensor:
        """Return the states after each step (T, E, S), final ones where a world was cut."""
        assert self.state is not None
        assert self.final_state is not None
        cut = (self.truncated & self.valid).any(-1, keepdim=True)
        return torch.where(cut, self.final_state[:-1], self.state[1:])

    def check(self) -> int:
        """Return the number of final observations, with one host sync.

        Raises:
            RolloutOverflowError: Some final observations did not fit.
        """
        return self._check_count(int(self.final_count))

    def excess(self) -> Tensor:
        """Return whether a rollout so far had more final observations than can be used, a scalar bool on the device."""
        return self.largest_final_count > self.capacity

    def check_earlier(self) -> None:
        """Raise the error of the earlier rollouts, see `excess`; the host synchronizes with the device.

        Raises:
            RolloutOverflowError: Some final observations did not fit.
        """
        self._check_count(int(self.largest_final_count))

    def _check_count(self, count: int) -> int:
        if count > self.capacity:
            raise RolloutOverflowError(
                f"rollout of {self.length} steps had {count} truncated agents, its buffer of final observations holds "
                f"{self.capacity}: raise truncation_capacity (truncations per agent and rollout)"
            )
        return count

    def slot_rows(self, slots: int) -> Tensor:
        """Return the rows (slots,), among T * E * n, of the first final observations; 0 for unused slots."""
        rows = torch.arange(self.valid.numel(), device=self.device)
        return rows.new_zeros(self.capacity + 1).index_copy_(0, self.final_slot.flatten(), rows)[:slots]

    def rewind(self) -> None:
        """Restart the rollout."""
        self.t = 0
        self.final_count.zero_()

    def clear(self) -> None:
        """Start the next rollout in the same buffers."""
        torch.maximum(self.largest_final_count, self.final_count, out=self.largest_final_count)
        self.rewind()
        self.episode_starts[0].copy_(self.episode_starts[-1])
        if self.advances is not None:
            self.advances[0].copy_(self.advances[-1])


def _buffer(length: int, like: Tensor) -> Tensor:
    """Return a buffer for values before and after every step; masks and turns start as True."""
    return torch.full((length + 1, *like.shape), like.dtype == torch.bool, dtype=like.dtype, device=like.device)


class BatchedRolloutBuffer(RolloutBuffer):
    """Rollouts of P policies of one shape, filled together by `begin_step`, `store_action` and `end_step`.

    Arguments and results have a leading axis P: (P, E, n) instead of (E, n). Buffers are (P, T, E, n, ...) in memory,
    and each policy's rollout is a view of them. Learners use and clear their own rollout.
    """

    def __init__(self, parts: Sequence[RolloutBuffer]) -> None:
        """Move the buffers of rollouts that have not begun into shared memory."""
        first = parts[0]
        self.parts: Sequence[RolloutBuffer] = parts
        self.length: int = first.length
        self.capacity: int = first.capacity
        self.t = 0
        self.device: torch.device = first.device
        self.mask: Tensor | None = None
        self.to_move: Tensor | None = None
        self.state: Tensor | None = None
        self.joint_action: Tensor | None = None
        self.advances: Tensor | None = None
        self.final_state: Tensor | None = None
        for name, value in vars(first).items():
            if isinstance(value, Tensor):
                self._share(name, torch.stack([getattr(part, name) for part in parts]))
        rows = torch.arange(len(parts), device=first.device) * (first.capacity + 1)
        self.first_rows: Tensor = rows.unsqueeze(-1)

    def _share(self, name: str, joined: Tensor) -> None:
        """Make the rollouts' buffers views of a buffer (P, ...), and store it time-major if it has a time axis."""
        for part, share in zip(self.parts, joined, strict=True):
            setattr(part, name, share)
        setattr(self, name, joined if name in WITHOUT_TIME else joined.transpose(0, 1))

    def _make(self, name: str, like: Tensor) -> None:
        self._share(name, torch.stack([_buffer(self.length, x) for x in like]))

    def _keep_final(self, slot: Tensor, final_obs: Tensor) -> None:
        rows = (self.first_rows + slot).flatten()
        self.final_obs.flatten(0, 1).index_copy_(0, rows, final_obs.flatten(0, 2))

    def rewind(self) -> None:
        """Restart the rollout; the policies' rollouts reset their own counters."""
        self.t: int = 0
