"""Descriptions of environments: what every observation entry, action and reward term is.

The description of ``gpu_envs/envs/GROUP/NAME.py`` is ``gpu_envs/descriptions/GROUP/NAME.py``. The tables of the
documentation page are generated from it, and the viewer labels observations and actions with it.
``tests/pages/test_pages.py`` compares it with the running environment. Such a module has

- ``observation_blocks(config, row)``: the list of :class:`ObservationBlock` of the agent in this row,
- ``action_names(config, row)``: a name per discrete action of that agent, or a list of names per component; empty if
  the actions have numbers only,
- ``action_parts(config, row)``: a name per component of a continuous action; without it, those of the table of
  ``action_tables()`` whose first column is "component",
- ``action_tables()``, ``OBSERVATIONS``, ``REWARDS``: tables of the documentation page.

``gpu_envs.register(..., description=)`` takes the import path of such a module for an environment of another package.
It needs ``observation_blocks``, ``action_names`` or both.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition import registry
from gpu_envs.definition.observation_shapes import observation_blocks
from gpu_envs.errors import ConfigError

if TYPE_CHECKING:
    from gpu_envs.runtime.core import Core

__all__ = [
    "ANY",
    "ObservationBlock",
    "RewardTerm",
    "Table",
    "World",
    "copy_world",
    "describe_action_parts",
    "describe_actions",
    "describe_observations",
    "description_module",
    "expected_observation",
]


ANY = float("inf")
"""Bound of an unbounded value."""


@dataclass(frozen=True)
class World:
    """Copy of one world of a core, as NumPy arrays without the axis of worlds."""

    config: Any
    """Settings of the environment."""
    params: dict[str, float]
    """Environment parameters of this world."""
    state: dict[str, np.ndarray]
    """Fields of the rules' State, whose shapes lack the axis of worlds."""
    time: float
    """Elapsed steps divided by the time limit."""


@dataclass(frozen=True)
class ObservationBlock:
    """Consecutive entries of an observation with a common meaning."""

    meaning: str
    """Meaning of the entries."""
    unit: str
    """Unit of the values, "" for none; names of settings are in backticks."""
    low: float
    """Lower bound."""
    high: float
    """Upper bound."""
    read: Callable[[World, int], Any]
    """Function ``read(world, row)`` that returns the expected values for the agent in this row."""
    width: int = 1
    """Number of entries."""
    parts: Sequence[str] = ()
    """Names of the entries, such as ("x", "y"), repeated over the width; without names the entries are numbered."""

    def entries(self) -> list[str]:
        """Return a name per entry: "x", or "3 x" if the names repeat."""
        count = len(self.parts)
        if not count:
            return [str(index) for index in range(self.width)]
        names = [self.parts[index % count] for index in range(self.width)]
        return names if self.width <= count else [f"{index // count} {name}" for index, name in enumerate(names)]


@dataclass(frozen=True)
class Table:
    """Table of the documentation page."""

    title: str
    """Caption."""
    head: tuple[str, ...]
    """Column titles."""
    rows: tuple[tuple[Any, ...], ...]
    """Rows of cells."""

    def column(self, index: int) -> tuple[Any, ...]:
        """Return the cells of a column."""
        return tuple(row[index] for row in self.rows)


@dataclass(frozen=True)
class RewardTerm:
    """One term of the reward."""

    receivers: str
    """Agents that receive it."""
    condition: str
    """Event that causes it."""
    amount: str
    """Name of a setting or environment parameter, preceded by "-" if it is subtracted; or a formula."""


def description_module(id: str) -> ModuleType | None:
    """Return the description module of an environment, or None if it has none.

    Raises:
        UnknownEnvironmentError: The id is not registered.
    """
    entry = registry.find(id)
    module, own = entry.description, "gpu_envs.envs."
    if module is None and entry.module is not None and entry.module.startswith(own):
        module = entry.module.replace(own, "gpu_envs.descriptions.", 1)
    return None if module is None else importlib.import_module(module)


def describe_observations(core: Core) -> dict[str, list[dict[str, Any]]] | None:
    """Return the meaning of every observation entry.

    Returns:
        The blocks in order, by group, or by agent if the agents of a group differ. A block has ``meaning``, ``unit``
        and ``entries``, a name per entry. Without a description they are the blocks of a Dict, or an image, with the
        indices of every number; None for a vector.

    Raises:
        ConfigError: The description and the observation have different numbers of entries.
    """
    blocks = getattr(description_module(core.id), "observation_blocks", None)
    if blocks is None:
        declared = core.definition.observation_spaces
        is_vector = all(len(space.shape or ()) == 1 for space in declared.values())
        return None if is_vector else _by_group(core, lambda row: _shapes(declared[core.possible_agents[row]]))

    def describe(row: int) -> list[dict[str, Any]]:
        found = [
            {"meaning": _plain(block.meaning), "unit": _plain(block.unit), "entries": block.entries()}
            for block in blocks(core.config, row)
        ]
        count = sum(len(block["entries"]) for block in found)
        _check_count(core, row, "entries of the observation", count, _width(core, row))
        return found

    return _by_group(core, describe)


def describe_actions(core: Core) -> dict[str, list[Any]] | None:
    """Return the names of discrete actions.

    Returns:
        Names by group, or by agent if the agents of a group differ: a name per action, or a list of names per
        component of a multi-discrete action; empty if the actions have numbers only. None if actions are continuous
        or the environment has no such description.

    Raises:
        ConfigError: The description and the action space have different numbers of actions.
    """
    choices = getattr(description_module(core.id), "action_names", None)
    kinds = {type(space) for space in core.action_spaces.values()}
    if choices is None or not kinds <= {spaces.Discrete, spaces.MultiDiscrete}:
        return None

    def describe(row: int) -> list[Any]:
        names, space = choices(core.config, row), core.action_spaces[core.possible_agents[row]]
        if not len(names):
            return []
        if isinstance(space, spaces.MultiDiscrete):
            _check_count(core, row, "components of the action", len(names), len(space.nvec))
            for part, size in zip(names, space.nvec, strict=True):
                _check_count(core, row, "choices of a component", len(part), int(size))
            return [[_plain(name) for name in part] for part in names]
        assert isinstance(space, spaces.Discrete)
        _check_count(core, row, "actions", len(names), int(space.n))
        return [_plain(name) for name in names]

    return _by_group(core, describe)


def describe_action_parts(core: Core) -> dict[str, list[str]] | None:
    """Return the names of the components of continuous actions.

    They are those of ``action_parts(config, row)`` of the description, or else of its table of components with as many
    rows: ``action_tables()``.

    Returns:
        Names by group, or by agent if the agents of a group differ; empty if there is no such table. None if actions
        are not continuous or the environment has no description.

    Raises:
        ConfigError: The description and the action space have different numbers of components.
    """
    module = description_module(core.id)
    parts, tables = getattr(module, "action_parts", None), getattr(module, "action_tables", None)
    if not all(isinstance(space, spaces.Box) for space in core.action_spaces.values()):
        return None
    if parts is None and tables is None:
        return None

    def describe(row: int) -> list[str]:
        count = spaces.flatdim(core.action_spaces[core.possible_agents[row]])
        if parts is not None:
            names = [_plain(name) for name in parts(core.config, row)]
            _check_count(core, row, "components of the action", len(names), count)
            return names
        found = [
            table for table in (tables() if tables else ()) if table.head[0] == "component" and len(table.rows) == count
        ]
        if not found:
            return []
        if count == 1:  # the row has the direction, and the head the quantity
            return [_plain(found[0].head[1]).partition(" [")[0]]
        return [_plain(name).partition(",")[0] for name in found[0].column(1)]

    return _by_group(core, describe)


def _by_group(core: Core, describe: Callable[[int], list[Any]]) -> dict[str, list[Any]]:
    found = {}
    for group, rows in core.groups.items():
        names = {core.possible_agents[row]: describe(row) for row in rows}
        first = next(iter(names.values()))
        found |= {group: first} if all(each == first for each in names.values()) else names
    return found


def _shapes(space: spaces.Space[Any]) -> list[dict[str, Any]]:
    """Return a block of :func:`describe_observations` for every Box, with its shape and the indices of its numbers."""
    return [
        {
            "meaning": f"{name} {' x '.join(map(str, box.shape))}",
            "unit": "",
            "entries": [", ".join(map(str, index)) for index in np.ndindex(box.shape)],
        }
        for name, box in observation_blocks(space).items()
    ]


def _width(core: Core, row: int) -> int:
    return spaces.flatdim(core.observation_spaces[core.possible_agents[row]])


def _check_count(core: Core, row: int, what: str, count: int, expected: int) -> None:
    if count != expected:
        agent = core.possible_agents[row]
        raise ConfigError(f"{core.id}: description of {agent}: expected {expected} {what}, got {count}")


def _plain(text: str) -> str:
    return text.replace("`", "")


def copy_world(core: Core, env: int) -> World:
    """Return a copy of one world of a core."""
    state = {name: tensor[env].cpu().numpy().copy() for name, tensor in core.world_state.items()}
    params = {name: float(value[min(env, len(value) - 1)]) for name, value in core.get_params().items()}
    return World(core.config, params, state, int(core.elapsed_steps[env]) / core.definition.max_episode_steps)


def expected_observation(blocks: Sequence[ObservationBlock], world: World, row: int) -> np.ndarray:
    """Return the observation that the blocks describe: (D,) float32."""
    parts = [np.broadcast_to(np.asarray(block.read(world, row), np.float32), block.width) for block in blocks]
    return np.concatenate(parts)
