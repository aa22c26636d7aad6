"""Act with several policies in one batch of environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from gpu_envs.utils.observed_turns import ObservedTurns
from gpu_envs.utils.tensor_checks import check_tensor
from trainers.base.agent_group import AgentGroup, agent_rows_of, make_agent_group, make_mixed_group
from trainers.base.decision_clock import DecisionClock
from trainers.models.batched_policies import BatchedPolicies, can_batch
from trainers.models.policy import Policy, PolicyProtocol, fit_inputs

__all__ = ["Players", "PolicyRunner"]

Players = Mapping[str, PolicyProtocol | None]
"""Policy of each group or agent, by its name; agents with None or without an entry take random actions."""


class PolicyRunner:
    """Query policies for the actions of their agents, and keep the hidden states of recurrent policies.

    Policies with equal networks and equally many agents act in one batch, see `trainers.models.batched_policies`.
    """

    def __init__(self, core: Core, players: Players) -> None:
        """Start with zero hidden states, as after a reset of all environments."""
        self.core = core
        batches: list[list[_Member]] = []
        for policy in {id(policy): policy for policy in players.values() if policy is not None}.values():
            names = [name for name, player in players.items() if player is policy]  # all of its agents act at once
            make = make_agent_group if isinstance(policy, Policy) else make_mixed_group
            member = _Member(names, agent_rows_of(core, names), make(core, names), policy)
            for batch in batches:
                if (
                    can_batch(batch[0].policy, policy)
                    and _decision_interval(policy) == 1
                    and len(batch[0].rows) == len(member.rows)
                ):
                    batch.append(member)
                    break
            else:
                batches.append([member])
        self.parts: list[_PolicyGroup] = [_PolicyGroup(core, batch) for batch in batches]

    def act(self, obs: Tensor, info: Mapping[str, Tensor], greedy: bool = False) -> Tensor:
        """Return the actions of all agents, (E, A) or (E, A, K); agents without a policy take random legal actions."""
        action, mask = self.core.sample_actions(), info.get("action_mask")
        begins = self.core.elapsed_steps == 0  # the step counter is 0 at the start of an episode
        for part in self.parts:
            part.act(obs, mask, info.get("to_move"), begins, greedy, action)
        return action


class _Member(NamedTuple):
    """Policy and the agents that it plays."""

    names: list[str]  # of groups or agents
    rows: list[int]
    agents: AgentGroup
    policy: PolicyProtocol


class _PolicyGroup:
    """One policy, or several policies that act in one batch."""

    def __init__(self, core: Core, members: Sequence[_Member]) -> None:
        self.agents = [member.agents for member in members]
        self.names, rows, _, self.policy = members[0]
        policies = [m.policy for m in members if isinstance(m.policy, Policy)] if len(members) > 1 else []
        self.batch = BatchedPolicies(policies) if policies else None
        leading = (len(policies),) if policies else ()
        self.core = core
        self.shape: tuple[int, ...] | None = None  # of the actions of a policy that may return anything
        if not isinstance(self.policy, Policy):
            shapes = [core.action_spaces[core.possible_agents[row]].shape or () for row in rows]
            self.shape = (core.num_envs, len(rows), *max(shapes))
        interval = _decision_interval(self.policy)
        self.clock = DecisionClock(interval, self.agents[0], core) if interval > 1 else None
        self.hidden_state = self.policy.initial_hidden_state(*leading, core.num_envs, len(rows))
        self.turns: ObservedTurns | None = None
        if self.hidden_state is not None and (core.to_move is not None or self.clock is not None):
            self.turns = ObservedTurns((*self.hidden_state.shape[:-1], core.obs_width), core.device)

    def act(
        self, obs: Tensor, mask: Tensor | None, to_move: Tensor | None, begins: Tensor, greedy: bool, into: Tensor
    ) -> None:
        """Write the actions of these agents to the actions of all agents.

        Raises:
            ActionError: The action of a scripted policy has the wrong shape, dtype or device.
        """
        if self.hidden_state is not None:
            self.hidden_state.masked_fill_(begins[:, None, None], 0.0)
        if self.batch is None:
            (group,) = self.agents
            moves = None if to_move is None else to_move[:, group.rows]
            if self.clock is not None:
                moves = self.clock.decides(self.core, group.mask(mask), moves)
            inputs, previous = obs[:, group.rows], self._copy_hidden_state()
            action = self.policy.act(*fit_inputs(self.policy, inputs, group.mask(mask)), greedy, self.hidden_state)
            if self.shape is not None:
                subject = f"scripted: action of {', '.join(self.names)}"
                check_tensor(self.core.id, subject, action, self.shape, into.dtype, self.core.device)
            self._advance(inputs, moves, begins, previous)
            if self.clock is not None and moves is not None:
                action = self.clock.hold(action, moves)
            group.scatter_actions(action, into)
            return
        inputs, previous = torch.stack([obs[:, group.rows] for group in self.agents]), self._copy_hidden_state()
        masks = [legal for group in self.agents if (legal := group.mask(mask)) is not None]
        actions = self.batch.act(inputs, torch.stack(masks) if masks else None, greedy, self.hidden_state)
        moves = None if to_move is None else torch.stack([to_move[:, group.rows] for group in self.agents])
        self._advance(inputs, moves, begins, previous)
        for group, action in zip(self.agents, actions, strict=True):
            group.scatter_actions(action, into)

    def _copy_hidden_state(self) -> Tensor | None:
        return None if self.hidden_state is None or self.turns is None else self.hidden_state.clone()

    def _advance(self, obs: Tensor, moves: Tensor | None, begins: Tensor, previous: Tensor | None) -> None:
        """Restore the hidden states of the agents that take nothing in, see `gpu_envs.utils.observed_turns`."""
        if self.hidden_state is not None and self.turns is not None and moves is not None and previous is not None:
            advances = self.turns.step(obs, moves, begins).unsqueeze(-1)
            self.hidden_state.copy_(torch.where(advances, self.hidden_state, previous))


def _decision_interval(policy: PolicyProtocol) -> int:
    """Return the number of steps between two decisions of a policy."""
    return policy.decide_every if isinstance(policy, Policy) else 1
