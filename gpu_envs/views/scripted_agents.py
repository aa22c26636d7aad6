"""Agents that the user of a view does not control: random, scripted, or played by a frozen model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpu_envs.errors import ConfigError, format_names, shown
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index, scatter_actions
from gpu_envs.utils.tensor_checks import check_tensor
from gpu_envs.views.specs import POLICY

__all__ = ["ScriptedAgents", "scripted_policies"]


@dataclass(frozen=True)
class _ScriptedGroup:
    """Policy of a group, with the part of observations and actions it reads and writes."""

    name: str
    policy: Callable[..., Any]
    rows: slice | torch.Tensor
    width: int  # of the observation
    choices: int  # width of the action mask
    shape: tuple[int, ...]  # of the actions: (E, n) or (E, n, K)


class ScriptedAgents:
    """Policies of the groups that have no rows in a view.

    Args:
        core: Core of the view.
        opponents: "random", a callable ``policy(obs) -> action`` on tensors (E, n, D) and (E, n[, K]), or a dict of
            these by group. If actions can be illegal, the signature is ``policy(obs, action_mask)``.
        groups: Names of the groups; groups that are missing in a dict act at random.
        live: Pass the core's own buffers to the policies, which the next step overwrites, instead of copies.
        argument: Name of the user's argument, for messages.

    Raises:
        ConfigError: A policy is not callable, or its group does not exist.
    """

    @torch.inference_mode(False)  # the joint actions are written to in place
    def __init__(
        self, core: Core, opponents: Any, groups: list[str], live: bool = False, argument: str = "opponents"
    ) -> None:
        self.core: Core = core
        self.live: bool = live
        given = scripted_policies(core, opponents, groups, argument)
        self._groups = [_group(core, group, policy) for group, policy in given.items()]
        self._some_random = len(self._groups) < len(groups)
        # Not the core's own buffer, so that an error can show the action as it was.
        self._joint = torch.zeros_like(core.action_buffer) if groups else None

    def join(self, rows: slice | torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the joint action for the core from the actions of the view's rows, (E, n) or (E, n, K).

        Raises:
            ActionError: The action of a policy has the wrong shape, dtype or device; the message names the group.
        """
        core, joint = self.core, self._joint
        if joint is None:
            return actions
        if self._some_random:
            if core.reuse_buffers:  # the actions may be a view of the buffer that sample_actions overwrites
                actions = actions.clone()
            joint.copy_(core.sample_actions())
        for group in self._groups:
            inputs = [core.obs[:, group.rows, : group.width]]
            if core.action_mask is not None:
                inputs.append(core.action_mask[:, group.rows, : group.choices])
            action = group.policy(*(inputs if self.live else [tensor.clone() for tensor in inputs]))
            check_tensor(core.id, f"action of group {group.name!r}", action, group.shape, joint.dtype, core.device)
            scatter_actions(joint, group.rows, action.detach())
        scatter_actions(joint, rows, actions.detach())
        return joint


def scripted_policies(
    core: Core, opponents: Any, names: list[str], argument: str = "opponents"
) -> dict[str, Callable[..., Any]]:
    """Return the callable policies by name of agent or group; names without a policy act at random.

    Raises:
        ConfigError: A policy is not callable, or its name is unknown.
    """
    given = dict.fromkeys(names, opponents) if callable(opponents) or _random(opponents) else opponents
    if not isinstance(given, dict):
        raise ConfigError(
            f"{core.id}: {argument}: expected 'random', a policy or a dict of these by name, got {_shown(opponents)}"
        )
    for name, policy in given.items():
        if name not in names:
            raise ConfigError(f"{core.id}: {argument} has no {name!r} to play; it has {format_names(names) or 'none'}")
        if not _random(policy) and not callable(policy):
            raise ConfigError(f"{core.id}: {argument}[{name!r}]: expected 'random' or a policy, got {_shown(policy)}")
    return {name: policy for name, policy in given.items() if callable(policy)}


def _random(policy: Any) -> bool:
    return isinstance(policy, str) and policy == "random"


def _shown(value: Any) -> str:
    """Return the repr of an invalid policy, with advice if it is the name of a policy from a JSON spec."""
    recorded = isinstance(value, str) and value.startswith(POLICY)
    return shown(value) + ("; JSON keeps only the name of a policy, give opponents= again" if recorded else "")


def _group(core: Core, group: str, policy: Callable[..., Any]) -> _ScriptedGroup:
    rows = core.groups[group]
    first = core.possible_agents[rows[0]]
    return _ScriptedGroup(
        group,
        policy,
        rows_index(rows, core.device),
        core.observation_spaces[first].shape[0],
        int(core.num_choices[rows[0]].sum()),
        (core.num_envs, len(rows), *(core.action_spaces[first].shape or ())),
    )
