"""Agents that the user of a view does not control: random, scripted, or played by a frozen model."""

from collections.abc import Callable
from typing import Any

import torch
from gymnasium import spaces

from gpu_envs.definition.observation_shapes import shape_observation
from gpu_envs.errors import ConfigError, format_names, shown
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import hide_dead, hides_dead, rows_index, scatter_actions
from gpu_envs.utils.observed_turns import ObservedTurns
from gpu_envs.utils.tensor_checks import check_tensor
from gpu_envs.views.specs import POLICY, PolicyName


class _AgentPart:
    """Part of the observations, masks and actions of agents with equal spaces; these are the rows of a group."""

    def __init__(self, core: Core, agents: list[str]) -> None:
        rows = [core.possible_agents.index(agent) for agent in agents]
        self.core: Core = core
        self.rows: slice | torch.Tensor = rows_index(rows, core.device)
        self.width: int = core.observation_spaces[agents[0]].shape[0]
        self.space: spaces.Box | spaces.Dict = core.definition.observation_spaces[agents[0]]
        self.choices: int = int(core.num_choices[rows[0]].sum())
        self.batch: tuple[int, int] = core.num_envs, len(rows)
        self.action_shape: tuple[int, ...] = (*self.batch, *(core.action_spaces[agents[0]].shape or ()))

    def inputs(self) -> list[torch.Tensor]:
        """Return the live observations (E, n, D), and the live masks (E, n, choices) if actions can be illegal."""
        obs, mask = self.core.obs[:, self.rows, : self.width], self.core.action_mask
        return [obs] if mask is None else [obs, mask[:, self.rows, : self.choices]]


class PolicyPlayer:
    """Policy with a method ``act``, such as a trained one, as a callable on all worlds, with its hidden state.

    Args:
        core: The worlds.
        agents: Agents that the policy plays.
        policy: Policy as in ``trainers``, with ``act(obs, mask)``; a recurrent one has
            ``act(obs, mask, hidden_state=...)`` and ``initial_hidden_state(E, n)``.
    """

    def __init__(self, core: Core, agents: list[str], policy: Any) -> None:
        self.core, self.agents, self.policy = core, agents, policy
        self._part = _AgentPart(core, agents)
        initial = getattr(policy, "initial_hidden_state", lambda *shape: None)
        self.hidden_state: torch.Tensor | None = initial(*self._part.batch)
        self.turns: ObservedTurns | None = None
        if self.hidden_state is not None and core.to_move is not None:
            self.turns = ObservedTurns((*self._part.batch, self._part.width), core.device)

    def __call__(self, obs: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return the actions (E, n[, K]) of observations (E, n, D)."""
        core, hidden_state = self.core, self.hidden_state
        if hides_dead(self.policy):
            obs = hide_dead(obs, core.alive[:, self._part.rows])
        if hidden_state is None:
            return self.policy.act(obs, mask)
        begins = core.elapsed_steps == 0
        hidden_state.masked_fill_(begins[:, None, None], 0.0)
        previous = hidden_state.clone()
        action = self.policy.act(obs, mask, hidden_state=hidden_state)
        if self.turns is not None and core.to_move is not None:
            advances = self.turns.step(obs, core.to_move[:, self._part.rows], begins)
            hidden_state.copy_(torch.where(advances.unsqueeze(-1), hidden_state, previous))
        return action

    def by_agent(self) -> dict[str, Any]:
        """Return the actions of the agents in the first world for its present observations, NumPy values by name."""
        return dict(zip(self.agents, self(*self._part.inputs())[0].cpu().numpy(), strict=True))


class ScriptedAgents:
    """Policies of the agents that have no rows in a view.

    Args:
        core: Core of the view.
        opponents: "random", a policy of ``trainers``, a callable ``policy(obs) -> action`` on tensors (E, n, D) and
            (E, n[, K]), or a dict of these by group or agent; n counts the agents of the group without rows in the
            view. Callables get observations in the shapes and dtypes of their space. Agents that are missing in the
            dict act at random. If actions can be illegal, the signature is ``policy(obs, action_mask)``.
        controlled: Agents that have rows in the view.
        live: Pass the core's own buffers to the policies, which the next step overwrites, instead of copies.
        argument: Name of the user's argument, for messages.

    Raises:
        ConfigError: A policy is not callable, or its group does not exist.
    """

    @torch.inference_mode(False)  # the joint actions are written to in place
    def __init__(
        self, core: Core, opponents: Any, controlled: list[str], live: bool = False, argument: str = "opponents"
    ) -> None:
        self.core: Core = core
        self.live: bool = live
        policies, members = scripted_policies(core, opponents, controlled, argument)
        self._parts = [(name, policies[name], _AgentPart(core, agents)) for name, agents in members.items()]
        uncontrolled = core.num_agents - len(controlled)
        self._some_random = sum(map(len, members.values())) < uncontrolled
        # Not the core's own buffer, so that an error can show the action as it was.
        self._joint = torch.zeros_like(core.action_buffer) if uncontrolled else None

    def join(self, rows: slice | torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the joint action for the core from the actions of the view's rows, (E, n) or (E, n, K).

        Raises:
            ActionError: The action of a policy has the wrong shape, dtype or device; the message names whom it plays.
        """
        core, joint = self.core, self._joint
        if joint is None:
            return actions
        if self._some_random:
            if core.reuse_buffers:  # the actions may be a view of the buffer that sample_actions overwrites
                actions = actions.clone()
            joint.copy_(core.sample_actions())
        for name, policy, part in self._parts:
            obs, *masks = part.inputs() if self.live else [tensor.clone() for tensor in part.inputs()]
            flat = isinstance(policy, PolicyPlayer)
            action = policy(obs if flat else shape_observation(obs, part.space), *masks)
            subject = f"action of {'group' if name in core.groups else 'agent'} {name!r}"
            check_tensor(core.id, subject, action, part.action_shape, joint.dtype, core.device)
            scatter_actions(joint, part.rows, action.detach())
        scatter_actions(joint, rows, actions.detach())
        return joint


def scripted_policies(
    core: Core, opponents: Any, controlled: list[str], argument: str = "opponents"
) -> tuple[dict[str, Callable[..., Any]], dict[str, list[str]]]:
    """Return the callable policies by name of agent or group, and the agents that each plays by its name.

    An agent's own policy goes before its group's. Agents without a policy act at random.

    Args:
        core: Core of the view.
        opponents: As for :class:`ScriptedAgents`.
        controlled: Agents that the user of the view controls.
        argument: Name of the user's argument, for messages.

    Raises:
        ConfigError: A policy is not callable, or its name is unknown.
    """
    opponents = opponents.policy if isinstance(opponents, PolicyName) else opponents
    names = [agent for agent in core.possible_agents if agent not in controlled]
    groups = {
        group: [agent for agent in (core.possible_agents[row] for row in rows) if agent in names]
        for group, rows in core.groups.items()
    }
    played = {group: agents for group, agents in groups.items() if agents} | {name: [name] for name in names}
    if callable(opponents) or hasattr(opponents, "act") or _random(opponents):
        by_name = dict.fromkeys((group for group, agents in groups.items() if agents), opponents)
    else:
        by_name = opponents
    if not isinstance(by_name, dict):
        raise ConfigError(
            f"{core.id}: {argument}: expected 'random', a policy or a dict of these by name, got {_describe(opponents)}"
        )
    by_name = {name: policy.policy if isinstance(policy, PolicyName) else policy for name, policy in by_name.items()}
    for name, policy in by_name.items():
        if name not in played:
            has = format_names(played) or "none"
            raise ConfigError(f"{core.id}: {argument} has no {name!r} to play; it has {has}")
        if not _random(policy) and not callable(policy) and not hasattr(policy, "act"):
            raise ConfigError(
                f"{core.id}: {argument}[{name!r}]: expected 'random' or a policy, got {_describe(policy)}"
            )
    separate = [name for name in by_name if name not in groups]  # also those at random
    scripted = [name for name, policy in by_name.items() if not _random(policy)]
    members = {
        name: [agent for agent in played[name] if name in separate or agent not in separate] for name in scripted
    }
    members = {name: agents for name, agents in members.items() if agents}
    policies = {name: by_name[name] for name in members}
    return {
        name: policy if callable(policy) else PolicyPlayer(core, members[name], policy)
        for name, policy in policies.items()
    }, members


def _random(policy: Any) -> bool:
    return isinstance(policy, str) and policy == "random"


def _describe(value: Any) -> str:
    """Return the repr of an invalid policy, with advice if it is the name of a policy from a JSON spec."""
    recorded = isinstance(value, str) and value.startswith(POLICY)
    return shown(value) + ("; JSON keeps only the name of a policy, give opponents= again" if recorded else "")
