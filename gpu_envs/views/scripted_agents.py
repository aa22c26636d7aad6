"""Agents that a view does not hand to its user: random, scripted, or played by a frozen model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpu_envs.checks import check_tensor
from gpu_envs.core import Core
from gpu_envs.errors import ConfigError, listed, shown
from gpu_envs.joint import put, rows_index
from gpu_envs.views.specs import POLICY


@dataclass(frozen=True)
class _Seat:
    """A scripted group: what it sees and what it answers."""

    group: str
    policy: Callable
    rows: slice | torch.Tensor
    width: int  # of its observation
    choices: int  # width of its action mask
    shape: tuple[int, ...]  # of its actions: (E, n) or (E, n, K)


class Others:
    """The groups that play beside a view's own rows.

    Args:
        core: The worlds.
        others: "random", a callable ``policy(obs) -> action`` on tensors (E, n, D) and (E, n[, K]), with
            ``policy(obs, action_mask)`` where actions can be illegal, or a dict of these by group.
        groups: The groups; who is missing in a dict acts at random.
        live: Policies see the core's own buffers, which the next step overwrites, instead of copies.

    Raises:
        ConfigError: A policy that is none, or of a group that is not there.
    """

    @torch.inference_mode(False)  # the joint actions are written to in place
    def __init__(self, core: Core, others: Any, groups: list[str], live: bool = False) -> None:
        self.core, self.live = core, live
        self._seats = [_seat(core, group, policy) for group, policy in policies(core, others, groups).items()]
        self._some_random = len(self._seats) < len(groups)
        # Not the core's own buffer, so that an error can show the action as it was.
        self._joint = torch.zeros_like(core.action_buffer) if groups else None

    def join(self, rows: slice | torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Everyone's actions, as the core takes them: those of the view's rows, (E, n) or (E, n, K), and the others'.

        Raises:
            ActionError: A policy's answer has another shape, dtype or device; names the group.
        """
        core, joint = self.core, self._joint
        if joint is None:
            return actions
        if self._some_random:
            if core.reuse_buffers:  # the actions may lie in the buffer that the draw goes to
                actions = actions.clone()
            joint.copy_(core.sample_actions())
        for seat in self._seats:
            seen = [core.obs[:, seat.rows, : seat.width]]
            if core.action_mask is not None:
                seen.append(core.action_mask[:, seat.rows, : seat.choices])
            answer = seat.policy(*(seen if self.live else [tensor.clone() for tensor in seen]))
            check_tensor(core.id, f"action of group {seat.group!r}", answer, seat.shape, joint.dtype, core.device)
            put(joint, seat.rows, answer.detach())
        put(joint, rows, actions.detach())
        return joint


def policies(core: Core, others: Any, names: list[str]) -> dict[str, Callable]:
    """Scripted policies by name, of agents or groups; who is missing acts at random.

    Raises:
        ConfigError: A policy that is none, or of a name that is not there.
    """
    given = dict.fromkeys(names, others) if callable(others) or _random(others) else others
    if not isinstance(given, dict):
        raise ConfigError(
            f"{core.id}: others must be 'random', a policy or a dict of these by name, got {_shown(others)}"
        )
    for name, policy in given.items():
        if name not in names:
            raise ConfigError(f"{core.id}: others has no {name!r} to play; it has {listed(names) or 'nobody'}")
        if not _random(policy) and not callable(policy):
            raise ConfigError(f"{core.id}: others[{name!r}] must be 'random' or a policy, got {_shown(policy)}")
    return {name: policy for name, policy in given.items() if callable(policy)}


def _random(policy: Any) -> bool:
    return isinstance(policy, str) and policy == "random"


def _shown(value: Any) -> str:
    """What was given instead of a policy, with what to do where it is the name that a spec of JSON has of one."""
    recorded = isinstance(value, str) and value.startswith(POLICY)
    return shown(value) + ("; JSON keeps only the name of a policy, give others= again" if recorded else "")


def _seat(core: Core, group: str, policy: Callable) -> _Seat:
    rows = core.groups[group]
    first = core.possible_agents[rows[0]]
    return _Seat(
        group,
        policy,
        rows_index(rows, core.device),
        core.observation_spaces[first].shape[0],
        int(core.num_choices[rows[0]].max()),
        (core.num_envs, len(rows), *(core.action_spaces[first].shape or ())),
    )
