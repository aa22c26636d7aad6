"""Groups of agents that share a policy, their rows in a core's tensors, and the steps at which they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_envs.definition.observation_shapes import observation_blocks
from gpu_envs.descriptions import entity_blocks
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils import agent_rows
from gpu_envs.utils.agent_rows import rows_index
from trainers.base.learner_spec import ObservationLayout


@dataclass(frozen=True)
class AgentGroup:
    """n of the A agents of every world that share one action space."""

    rows: slice | Tensor
    """Row indices of the agents, see :func:`gpu_envs.utils.agent_rows.rows_index`."""
    obs_width: int
    """Largest observation width of the agents."""
    space: spaces.Space[Any]
    """Action space of one agent."""
    layout: ObservationLayout = field(default_factory=ObservationLayout)
    """Blocks of the observation of every agent; none if agents differ."""

    @property
    def choices(self) -> int | None:
        """Number of choices of discrete actions, summed over the components; None for continuous actions."""
        if isinstance(self.space, spaces.MultiDiscrete):
            return int(self.space.nvec.sum())
        return int(self.space.n) if isinstance(self.space, spaces.Discrete) else None

    def mask(self, mask: Tensor | None) -> Tensor | None:
        """Return the group's part (E, n, choices) of all agents' action masks (E, A, widest); None for None."""
        if mask is None:
            return None
        return mask[:, self.rows, : self.choices]

    def scatter_actions(self, action: Tensor, into: Tensor) -> None:
        """Write the group's actions (E, n[, k]) into the actions of all agents (E, A[, K]); padding stays unchanged."""
        agent_rows.scatter_actions(into, self.rows, action)


def agent_rows_of(core: Core, members: Sequence[str]) -> list[int]:
    """Return the rows of agents given by the names of groups or of single agents."""
    rows: list[int] = []
    for member in members:
        rows += core.groups[member] if member in core.groups else [core.possible_agents.index(member)]
    return rows


def make_agent_group(core: Core, members: Sequence[str]) -> AgentGroup:
    """Return the group of agents given by the names of groups or of single agents.

    Raises:
        ConfigError: The agents differ in action space.
    """
    rows = agent_rows_of(core, members)
    names = [core.possible_agents[row] for row in rows]
    space = core.action_spaces[names[0]]
    if any(core.action_spaces[name] != space for name in names):
        raise ConfigError(
            f"policies: {', '.join(members)}: expected one action space per policy, got several; split the policy"
        )
    return AgentGroup(
        rows=rows_index(rows, core.device),
        obs_width=max(core.observation_spaces[name].shape[0] for name in names),
        space=space,
        layout=_layout(core, names),
    )


def _layout(core: Core, names: Sequence[str]) -> ObservationLayout:
    """Return the blocks of agents; none if they have vectors only, or differ."""
    spaces_of = [core.definition.observation_spaces[name] for name in names]
    blocks, *more_blocks = [
        {name: tuple(box.shape) for name, box in observation_blocks(space).items()} for space in spaces_of
    ]
    is_vector = not isinstance(spaces_of[0], spaces.Dict) and len(blocks["observation"]) == 1
    if any(list(other.items()) != list(blocks.items()) for other in more_blocks):
        return ObservationLayout()
    if is_vector:
        rows = [core.possible_agents.index(name) for name in names]
        (width,) = blocks["observation"]
        return ObservationLayout(with_entities=partial(_entity_layout, core.id, core.config, rows, width))
    return ObservationLayout(blocks, not core.definition.channels_first)


def _entity_layout(env_id: str, config: Any, rows: Sequence[int], width: int) -> ObservationLayout:
    """Return the blocks that an environment describes for the agents in these rows; none if they differ."""
    first, *others = [entity_blocks(env_id, config, row, width) for row in rows]
    if any(blocks != first or list(blocks.shapes) != list(first.shapes) for blocks in others):
        return ObservationLayout()
    return ObservationLayout(first.shapes, by_feature=first.by_feature, targets=first.targets)


def make_mixed_group(core: Core, members: Sequence[str]) -> AgentGroup:
    """Return the group of agents that may differ in action space, for a policy that knows the space of each.

    The space of such a group is its first agent's.

    Raises:
        ConfigError: The agents differ in action space and have action masks.
    """
    rows = agent_rows_of(core, members)
    names = [core.possible_agents[row] for row in rows]
    space = core.action_spaces[names[0]]
    if all(core.action_spaces[name] == space for name in names):
        return make_agent_group(core, members)
    if core.action_mask is not None:
        raise ConfigError(
            f"{core.id}: {', '.join(members)}: expected one action space for agents with action masks, got several"
        )
    widths = [core.observation_spaces[name].shape[0] for name in names]
    return AgentGroup(rows_index(rows, core.device), max(widths), space)


class DecisionClock:
    """Choose who decides on a step, and hold the actions of the others.

    The first step of an episode and every n-th one after it are decisions. If an environment masks the held action, the
    agent decides earlier. Where agents take turns, only those to move decide.
    """

    def __init__(self, interval: int, agents: AgentGroup, core: Core) -> None:
        """Start without a held action.

        Args:
            interval: Steps between two decisions, n.
            agents: The agents.
            core: The environments.
        """
        self.interval = interval
        rows, shape = core.action_buffer[:, agents.rows], agents.space.shape or ()
        self.held: Tensor = torch.zeros_like(rows[..., : shape[0]] if shape else rows)
        offsets = torch.zeros(0, dtype=torch.int64)
        if agents.choices is not None:
            first = agents.rows.start if isinstance(agents.rows, slice) else int(agents.rows[0])
            sizes = core.num_choices[first] if shape else torch.zeros(1)
            offsets = (sizes.cumsum(0) - sizes)[: math.prod(shape)].long()
        self.offsets: Tensor = offsets.to(core.device)
        """Positions of the first choice of every component in a mask, (K,)."""

    def decides(self, core: Core, mask: Tensor | None, to_move: Tensor | None) -> Tensor:
        """Return who decides on the next step, (E, n) bool.

        Args:
            core: The environments before the step.
            mask: Legal choices of the agents, (E, n, choices), or None.
            to_move: Agents to move, (E, n), or None.
        """
        shape = self.held.shape[:2]
        is_due = (core.elapsed_steps % self.interval == 0).unsqueeze(1).expand(shape)
        if mask is not None:
            is_due = is_due | ~mask.gather(2, self.held.view(*shape, -1) + self.offsets).all(2)
        return is_due if to_move is None else is_due & to_move

    def hold(self, action: Tensor, decides: Tensor) -> Tensor:
        """Hold the actions (E, n) or (E, n, K) of those who decide, and return the actions of all."""
        chosen = decides.view(*decides.shape, *[1] * (action.dim() - 2))
        self.held.copy_(torch.where(chosen, action, self.held))
        return self.held
