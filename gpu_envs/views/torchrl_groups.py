"""Groups of agents in TorchRL: their members, and the specs of observations and actions."""
# TorchRL is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.observation_shapes import DTYPES, observation_blocks
from gpu_envs.errors import ConfigError, format_names, missing_extra, packages
from gpu_envs.runtime.core import Core
from gpu_envs.utils.agent_rows import rows_index

try:
    from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded
    from torchrl.envs.utils import MarlGroupMapType
except ModuleNotFoundError as error:
    libraries = ("tensordict", "torchrl")
    raise missing_extra(error, "gpu_envs.views.torchrl_groups", libraries, packages("torchrl")) from None

__all__ = ["FLAGS", "Group", "choices_of", "group_of", "named_groups", "specs"]

FLAGS = ("done", "terminated", "truncated")  # entries that every group has
_RESERVED = ("state", "next", "_reset", *FLAGS)


@dataclass(frozen=True)
class Group:
    """Group of agents, and its part of every tensor."""

    agents: list[str]
    """Names, in the order of rows."""
    rows: slice | torch.Tensor
    """Rows among the agents of a core; a tensor is (agents,) int64."""
    space: spaces.Box | spaces.Dict  # of the observation
    choices: int  # width of the action mask; 0 if all actions are always legal


def named_groups(core: Core, group_map: Any) -> dict[str, list[str]]:
    """Return the names of agents by group.

    Raises:
        ConfigError: The value is not such a dict, the name of a group is reserved, or an agent is unknown or not in
            exactly one group.
    """
    agents = core.possible_agents
    if group_map is None:
        return {name: [agents[row] for row in rows] for name, rows in core.groups.items()}
    if isinstance(group_map, MarlGroupMapType):
        group_map = group_map.get_group_map(list(agents))
    if not isinstance(group_map, Mapping) or not all(
        isinstance(names, Sequence) and not isinstance(names, str) for names in group_map.values()
    ):
        raise ConfigError(f"{core.id}: group_map: expected a dict of lists of agents by group, got {group_map!r}")
    for group in group_map:
        if group in _RESERVED or not isinstance(group, str):
            raise ConfigError(f"{core.id}: group_map cannot have a group named {group!r}: choose another name")
    pairs = [name for names in group_map.values() for name in names]
    if sorted(map(str, pairs)) != sorted(agents) or not all(group_map.values()):
        raise ConfigError(
            f"{core.id}: group_map must have each of its agents once and no empty group; "
            f"the agents are {format_names(agents)}, got {format_names(pairs)}"
        )
    return {group: list(names) for group, names in group_map.items()}


def group_of(core: Core, name: str, agents: list[str]) -> Group:
    """Return a group with its rows and widths.

    Raises:
        ConfigError: The agents have different spaces.
    """
    pairs = [(core.definition.observation_spaces[agent], core.action_spaces[agent]) for agent in agents]
    for agent, pair in zip(agents, pairs, strict=True):
        if pair is not pairs[0] and pair != pairs[0]:
            raise ConfigError(
                f"{core.id}: group_map puts {agents[0]} and {agent} into group {name!r}, but their spaces differ: "
                f"{pairs[0]} and {pair}; put them into separate groups"
            )
    order = {agent: row for row, agent in enumerate(core.possible_agents)}
    rows = [order[agent] for agent in agents]
    choices = 0 if core.action_mask is None else int(core.num_choices[rows[0]].sum())
    return Group(agents, rows_index(rows, core.device), pairs[0][0], choices)


def specs(core: Core, groups: Mapping[str, Group], categorical: bool, state: bool) -> tuple[Composite, ...]:
    """Return the specs of observations, actions, rewards and ends of one world.

    Args:
        core: Core of the view.
        groups: Groups by name.
        categorical: Discrete actions are indices, not one-hot vectors.
        state: The global state (S,) is part of the observation.
    """
    device = core.device
    observations, acts, earns, ends = {}, {}, {}, {}
    for name, group in groups.items():
        n, first = len(group.agents), group.agents[0]
        part = {"observation": _observation(group.space, n, device), "alive": _flag((n,), device)}
        if group.choices:
            part["action_mask"] = _flag((n, group.choices), device)
        if core.to_move is not None:
            part["to_move"] = _flag((n,), device)
        if core.definition.info:
            extra = {label: core.world_state[field][0] for label, field in core.definition.info.items()}
            extra = {label: _free((n, *value.shape[1:]), value.dtype, device) for label, value in extra.items()}
            part["info"] = Composite(extra, shape=(n,))
        observations[name] = Composite(part, shape=(n,))
        acts[name] = Composite({"action": _action(core.action_spaces[first], n, categorical, device)}, shape=(n,))
        earns[name] = Composite({"reward": _free((n, 1), torch.float32, device)}, shape=(n,))
        ends[name] = Composite({label: _flag((n, 1), device) for label in FLAGS}, shape=(n,))
    if state:
        widths = [space.shape[0] for space in core.observation_spaces.values()]
        observations["state"] = _free((core.definition.global_state_size or sum(widths),), torch.float32, device)
    ends |= {label: _flag((1,), device) for label in FLAGS}
    return tuple(Composite(part, device=device) for part in (observations, acts, earns, ends))


def choices_of(spec: OneHot | MultiOneHot, action: torch.Tensor) -> torch.Tensor:
    """Return the choices (E, n) or (E, n, K) of one-hot vectors; -1, an invalid action, for other vectors."""
    is_multi = isinstance(spec, MultiOneHot)
    hot = (action.detach() > 0.5).split([box.n for box in spec.space] if is_multi else [spec.space.n], -1)
    choices = torch.stack([torch.where(part.sum(-1) == 1, part.long().argmax(-1), -1) for part in hot], -1)
    return choices if is_multi else choices[..., 0]


def _flag(shape: tuple[int, ...], device: torch.device) -> Any:
    return Categorical(2, shape=shape, dtype=torch.bool, device=device)


def _free(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Any:
    return Unbounded(shape=shape, dtype=dtype, device=device)


def _observation(space: spaces.Box | spaces.Dict, n: int, device: torch.device) -> Any:
    """Return the spec of a group's observation; a Dict is nested by the names of its blocks."""
    if isinstance(space, spaces.Dict):
        boxes = observation_blocks(space).items()
        return Composite({name: _box(box, n, device) for name, box in boxes}, shape=(n,))
    return _box(space, n, device)


def _box(space: spaces.Box, n: int, device: torch.device) -> Any:
    """Return the spec (n, D) of a group's continuous space, unbounded if a limit is infinite."""
    shape, dtype = (n, *space.shape), DTYPES[np.dtype(space.dtype)]
    if dtype == torch.bool:
        return _flag(shape, device)
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return _free(shape, dtype, device)
    low, high = (torch.as_tensor(bound, device=device).expand(shape) for bound in (space.low, space.high))
    return Bounded(low, high, shape=shape, dtype=dtype, device=device)


def _action(space: spaces.Space[Any], n: int, categorical: bool, device: torch.device) -> Any:
    """Return the spec of a group's action, (n,) or (n, K)."""
    if isinstance(space, spaces.Box):
        return _box(space, n, device)
    if isinstance(space, spaces.MultiDiscrete):
        counts = torch.as_tensor(space.nvec, device=device)
        if categorical:
            return MultiCategorical(counts, shape=(n, len(counts)), device=device)
        return MultiOneHot(counts.tolist(), shape=(n, int(counts.sum())), device=device)
    choices = int(space.n)  # type: ignore[attr-defined]
    if categorical:
        return Categorical(choices, shape=(n,), dtype=torch.int64, device=device)
    return OneHot(choices, shape=(n, choices), device=device)
