"""The interface of a core that rollouts with policies use; :mod:`gpu_envs.runtime.core` imports them."""

from typing import Any, Protocol

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.runtime.launcher import KernelLauncher

__all__ = ["RolloutCore"]


class RolloutCore(Protocol):
    """The part of :class:`gpu_envs.runtime.core.Core` that rollouts read and call.

    Attributes:
        id: ID of the environment, for messages.
        definition: Configured environment.
        device: Device of all tensors and kernels.
        num_envs: Number of worlds E.
        num_agents: Number of agents A.
        possible_agents: Names of the agents.
        groups: Rows of the agents by group.
        observation_spaces: Observation spaces by agent.
        action_spaces: Action spaces by agent.
        obs_width: Width D of the widest observation.
        action_kind: Kind of all actions.
        num_choices: (A, K) int32 on the CPU, sizes of the discrete action components; 0 pads.
        action_mask: (E, A, n) bool, legal actions; None if all are legal.
        to_move: (E, A) bool, agents that decide on the next step; None without turns.
        schedule: "fused" or "phased".
        fuse_fp: Whether the compiler may contract multiply-adds.
    """

    id: str
    definition: EnvDefinition
    device: torch.device
    num_envs: int
    num_agents: int
    possible_agents: tuple[str, ...]
    groups: dict[str, tuple[int, ...]]
    observation_spaces: dict[str, spaces.Box]
    action_spaces: dict[str, spaces.Space[Any]]
    obs_width: int
    action_kind: str
    num_choices: torch.Tensor
    action_mask: torch.Tensor | None
    to_move: torch.Tensor | None
    schedule: str
    fuse_fp: bool
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
