"""The interface of a core that rollouts with policies use; :mod:`gpu_envs.runtime.core` imports them."""

from typing import Any, Protocol

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition
from gpu_envs.runtime.launcher import KernelLauncher

__all__ = ["RolloutCore"]


class RolloutCore(Protocol):
    """Attributes of :class:`gpu_envs.runtime.core.Core`; see there."""

    # See Core.
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
