"""Buffers that rollouts with policies in kernels fill: steps of all worlds, or the results of one episode each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from gpu_envs.definition.environment import WorldView
from gpu_envs.definition.struct_buffers import check_start
from gpu_envs.runtime.launcher import KernelLauncher
from gpu_envs.utils.devices import host_view, warp_array
from gpu_envs.utils.settings import MAX_INT
from warp_kernels.framework.policies import Trace
from warp_kernels.framework.wide_words import word_of


class RolloutCore(WorldView, Protocol):
    """The part of :class:`gpu_envs.runtime.core.Core` that rollouts read and call, see there."""

    possible_agents: tuple[str, ...]
    """Names of the agents."""
    groups: dict[str, tuple[int, ...]]
    """Rows of the agents by group."""
    observation_spaces: dict[str, spaces.Box]
    """Flat observation space by agent."""
    action_spaces: dict[str, spaces.Space[Any]]
    """Action space by agent."""
    obs_width: int
    """Width D of the widest observation."""
    action_kind: str
    """"discrete", "multi_discrete" or "continuous"."""
    action_mask: torch.Tensor | None
    """Legal actions, (E, A, n) bool; None if all are legal."""
    schedule: str
    """"fused", "block" or "phased"."""
    fuse_fp: bool
    """Whether the compiler may contract multiply-adds."""
    _launcher: KernelLauncher
    _started: bool

    @property
    def action_buffer(self) -> torch.Tensor:
        """Actions of all agents, (E, A) or (E, A, K)."""
        ...

    @property
    def is_recording(self) -> bool:
        """Whether episodes are recorded."""
        ...

    def raise_pending_errors(self) -> None:
        """Raise the error of an earlier illegal action."""
        ...

    def _mark_reset(self, keys: torch.Tensor | int | None, clock: torch.Tensor | int) -> None: ...

    def _check_open(self) -> None: ...

    def _begin_change(self) -> None: ...


@dataclass(frozen=True)
class RolloutTrace:
    """Results of T steps of E worlds with A agents; see :meth:`gpu_envs.runtime.core.Core.rollout`."""

    obs: Tensor
    """(T + 1, E, A, D) float32, observations before every step, and after the last one."""
    action: Tensor
    """(T, E, A) or (T, E, A, K) int64, or (T, E, A, K) float32: actions as the policies sampled them.
    Continuous actions are those before scaling, squashing and clipping to the box, except those of policies that
    explore, see `PolicyKind.explores`."""
    log_prob: Tensor
    """(T, E, A) float32, log-probability of the action; 0 without a policy, and for policies that explore."""
    reward: Tensor
    """(T, E, A) float32."""
    terminated: Tensor
    """(T, E, A) bool."""
    truncated: Tensor
    """(T, E, A) bool."""
    valid: Tensor
    """(T, E, A) bool, the agent was alive before the step."""
    restarted: Tensor
    """(T, E) bool, the step has started an episode of the world."""
    episode_return: Tensor
    """(T, E, A) float32, return of the agent's last finished episode."""
    episode_length: Tensor
    """(T, E, A) int32, length of the agent's last finished episode [steps]."""
    episode_results: Tensor
    """(T, E, A, R) float32, declared results (`EnvDefinition.results`) of the agent's last finished episode."""
    final_obs: Tensor
    """(E * A * C + 1, D) float32, last observations of truncated agents, C per agent; the last row is unused."""
    final_slot: Tensor
    """(T, E, A) int64, row of `final_obs` where an agent was truncated, and the last row elsewhere."""
    final_count: Tensor
    """(E, A) int32, truncations of every agent; those above C have no row."""
    matchup: Tensor
    """(T, E) int32, matchup of the step; empty unless worlds draw matchups."""
    mask: Tensor | None = None
    """(T + 1, E, A, n) bool, legal actions; None if all actions are always legal."""
    to_move: Tensor | None = None
    """(T + 1, E, A) bool, agents that decide; None if all agents act at every step."""

    @classmethod
    def allocate(cls, core: RolloutCore, num_steps: int, final_capacity: int, matchups: bool = False) -> RolloutTrace:
        """Allocate the buffers.

        Args:
            core: The environments.
            num_steps: Number of steps T.
            final_capacity: Rows for final observations per agent, C.
            matchups: Worlds draw matchups.
        """
        layout = trace_layout(core, num_steps, final_capacity, matchups)
        device = core.device
        tensors = {
            name: torch.zeros(form[0], dtype=form[1], device=device)
            for name, form in layout.items()
            if form is not None
        }
        tensors["final_slot"].fill_(len(tensors["final_obs"]) - 1)
        for name in tensors.keys() & {"mask", "to_move"}:
            tensors[name].fill_(True)
        return cls(**tensors)

    @property
    def num_steps(self) -> int:
        """Number of steps T."""
        return len(self.reward)

    def struct(self) -> Any:
        """Return Warp's struct over the buffers."""
        trace = Trace()
        for field in fields(self):
            tensor = getattr(self, field.name)
            if field.name == "action":
                name = "choice" if tensor.dtype == torch.int64 else "control"
                setattr(trace, name, warp_array(tensor.view(*tensor.shape[:3], -1), name="trace.action"))
            elif tensor is not None:
                if field.name == "obs":
                    check_start("trace.obs", tensor, word_of(tensor.shape[-1]))
                setattr(trace, field.name, warp_array(tensor, name=f"trace.{field.name}"))
        return trace


_Layout = dict[str, tuple[tuple[int, ...], torch.dtype] | None]


def trace_layout(core: RolloutCore, num_steps: int, final_capacity: int, matchups: bool) -> _Layout:
    """Return shape and dtype of the buffers of a `RolloutTrace`, by name; arguments as of its `allocate`."""
    shape, action = (num_steps, core.num_envs, core.num_agents), core.action_buffer
    turns, mask, after = core.to_move is not None, core.action_mask, (num_steps + 1, *shape[1:])
    rows = 0 if turns else core.num_envs * core.num_agents * final_capacity
    width, real, flag = core.obs_width, torch.float32, torch.bool
    return {
        "obs": ((*after, width), real),
        "action": ((num_steps, *action.shape), action.dtype),
        "log_prob": (shape, real),
        "reward": (shape, real),
        "terminated": (shape, flag),
        "truncated": (shape, flag),
        "valid": (shape, flag),
        "restarted": (shape[:2], flag),
        "episode_return": (shape, real),
        "episode_length": (shape, torch.int32),
        "episode_results": ((*shape, len(core.definition.results)), real),
        "final_obs": ((rows + 1, width), real),
        "final_slot": (shape, torch.int64),
        "final_count": (shape[1:], torch.int32),
        "matchup": (shape[:2] if matchups else (0, 0), torch.int32),
        "mask": None if mask is None else ((*after, mask.shape[2]), flag),
        "to_move": (after, flag) if turns else None,
    }


@dataclass(frozen=True)
class EpisodeResults:
    """Results of the first episode of E worlds with A agents."""

    finished: Tensor
    """(E, A) bool, the episode of the agent has ended. Worlds do not play if it is set for all their agents."""
    terminated: Tensor
    """(E, A) bool, the rules ended it; otherwise a limit truncated it."""
    episode_return: Tensor
    """(E, A) float32."""
    episode_length: Tensor
    """(E, A) int32 [steps]."""
    episode_results: Tensor
    """(E, A, R) float32, declared results (`EnvDefinition.results`) at the end of the agent."""

    @classmethod
    def allocate(cls, core: RolloutCore) -> EpisodeResults:
        """Allocate the buffers."""
        shape = (core.num_envs, core.num_agents)

        def zeros(dtype: torch.dtype, *more: int) -> Tensor:
            return torch.zeros((*shape, *more), dtype=dtype, device=core.device)

        results = zeros(torch.float32, len(core.definition.results))
        return cls(zeros(torch.bool), zeros(torch.bool), zeros(torch.float32), zeros(torch.int32), results)

    @property
    def num_steps(self) -> int:
        """Largest number of steps, which the buffers do not limit."""
        return MAX_INT

    @cached_property
    def _rows(self) -> Any:
        return host_view(self.finished)

    @cached_property
    def _return_rows(self) -> Any:
        return host_view(self.episode_return)

    def start(self, count: int) -> None:
        """Let the first ``count`` worlds play an episode, and no others."""
        self._rows[:count], self._rows[count:] = False, True

    def num_finished(self, count: int) -> int:
        """Return the number of worlds among the first ``count`` whose episode is over, after waiting for a GPU."""
        ended = self._rows[:count]
        if isinstance(ended, np.ndarray) and np.count_nonzero(ended) == ended.size:  # the fastest check
            return count
        return count if bool(ended.all()) else int(ended.all(1).sum())

    def returns(self, count: int) -> np.ndarray:
        """Return the returns of the first ``count`` worlds on the host, (count, A) float32; on a CPU without a copy."""
        rows = self._return_rows[:count]
        return rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()

    def struct(self) -> Any:
        """Return Warp's struct over the buffers."""
        trace = Trace()
        trace.finished = warp_array(self.finished)
        for name in ("terminated", "episode_return", "episode_length", "episode_results"):
            setattr(trace, name, warp_array(getattr(self, name).unsqueeze(0)))
        return trace
