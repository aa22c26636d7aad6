"""Agents that act as one: where they stand among all agents of a core, and what of its tensors is theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gymnasium import spaces
from torch import Tensor

from gpu_envs import joint
from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from gpu_envs.joint import rows_index


@dataclass(frozen=True)
class Agents:
    """Some of the A agents of every world, n of them, all with one action space."""

    rows: slice | Tensor
    """Their rows, see :func:`gpu_envs.joint.rows_index`."""
    width: int
    """Widest observation among them."""
    space: spaces.Space
    """Their action space."""

    def mask(self, mask: Tensor | None) -> Tensor | None:
        """Their part (E, n, choices) of all agents' action masks (E, A, widest), cut to their own choices."""
        if mask is None:
            return None
        assert isinstance(self.space, spaces.Discrete)  # `agents_of` has seen to it
        return mask[:, self.rows, : int(self.space.n)]

    def put(self, action: Tensor, into: Tensor) -> None:
        """Writes their actions (E, n[, k]) into those of all agents (E, A[, K]), whose padding stays as it is."""
        joint.put(into, self.rows, action)


def members_of(core: Core, members: Sequence[str]) -> list[int]:
    """Rows of all agents of some groups, or single agents, by their names."""
    rows: list[int] = []
    for member in members:
        rows += core.groups[member] if member in core.groups else [core.possible_agents.index(member)]
    return rows


def agents_of(core: Core, members: Sequence[str]) -> Agents:
    """The agents of some groups, or single agents, by their names.

    Raises:
        ConfigError: They differ in action space, or have action masks for anything but Discrete actions.
    """
    rows = members_of(core, members)
    names = [core.possible_agents[row] for row in rows]
    space = core.action_spaces[names[0]]
    if any(core.action_spaces[name] != space for name in names):
        raise ConfigError(
            f"policies: {', '.join(members)} differ in action space, they cannot share a policy; give each its own"
        )
    if core.action_mask is not None and not isinstance(space, spaces.Discrete):
        raise ConfigError(f"{core.id}: {', '.join(members)}: action masks need Discrete actions, got {space}")
    return Agents(
        rows=rows_index(rows, core.device),
        width=max(core.observation_spaces[name].shape[0] for name in names),
        space=space,
    )
