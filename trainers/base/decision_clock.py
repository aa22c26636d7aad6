"""Decisions of agents at every n-th step, whose actions are held in between."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from trainers.base.agent_group import AgentGroup

__all__ = ["DecisionClock"]


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
        places = torch.zeros(0, dtype=torch.int64)
        if agents.choices is not None:
            sizes = core.num_choices[core.possible_agents.index(_first(core, agents))] if shape else torch.zeros(1)
            places = (sizes.cumsum(0) - sizes)[: math.prod(shape)].long()
        self.places: Tensor = places.to(core.device)
        """Places of the first choice of every component in a mask, (K,)."""

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
            is_due = is_due | ~mask.gather(2, self.held.view(*shape, -1) + self.places).all(2)
        return is_due if to_move is None else is_due & to_move

    def hold(self, action: Tensor, decides: Tensor) -> Tensor:
        """Hold the actions (E, n) or (E, n, K) of those who decide, and return the actions of all."""
        chosen = decides.view(*decides.shape, *[1] * (action.dim() - 2))
        self.held.copy_(torch.where(chosen, action, self.held))
        return self.held


def _first(core: Core, agents: AgentGroup) -> str:
    """Return the name of the first agent of a group."""
    rows = agents.rows
    return core.possible_agents[rows.start if isinstance(rows, slice) else int(rows[0])]
