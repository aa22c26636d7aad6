"""Names of observations and actions, for the viewer, ``gpu-envs check``, networks of entities and the documentation.

The host module of an environment describes them beside ``Config`` and ``build``, by any of these functions:

- ``observation_blocks(config, row)``: the list of :class:`ObservationBlock` of the agent in this row,
- ``action_names(config, row)``: a name per discrete action of that agent, or a list of names per component; empty if
  the actions have numbers only,
- ``action_parts(config, row)``: a name per component of a continuous action; without it, the names of
  ``action_names`` if there is one per component.

``gpu_envs.register(..., description=)`` takes the import path of another module with these functions.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition import registry
from gpu_envs.definition.observation_shapes import observation_blocks
from gpu_envs.errors import ConfigError

if TYPE_CHECKING:
    from gpu_envs.definition.environment import WorldView

ANY = float("inf")
"""Bound of an unbounded value."""


@dataclass(frozen=True)
class Entities:
    """Entities that consecutive blocks describe by the same numbers each, such as "enemies"."""

    name: str
    """Name in the plural; it is unique among those of an observation."""
    count: int
    """Number of entities n."""
    by_feature: bool = False
    """The first number of all entities, then the second, ...; False: all numbers of the first entity, then ..."""
    first_action: int | None = None
    """The n discrete actions from this one on choose an entity each, such as its attack, in their order."""


@dataclass(frozen=True)
class NamedBlocks:
    """The numbers of an observation by name, for networks that attend to entities."""

    shapes: dict[str, tuple[int, ...]]
    """Shapes in order: (n, d) of n entities with d numbers each, (d, n) of those by feature, (d,) of other numbers."""
    by_feature: tuple[str, ...] = ()
    """Names of the entities by feature."""
    targets: dict[str, int] = field(default_factory=dict)
    """First action that chooses an entity, by the name of the entities."""


@dataclass(frozen=True)
class ObservationBlock:
    """Consecutive entries of an observation with a common meaning."""

    meaning: str
    """Meaning of the entries."""
    unit: str = ""
    """Unit of the values, "" for none; names of settings are in backticks."""
    low: float = 0.0
    """Lower bound."""
    high: float = 1.0
    """Upper bound."""
    width: int = 1
    """Number of entries; a block without entries is left out."""
    parts: Sequence[str] = ()
    """Names of the entries, such as ("x", "y"), repeated over the width; without names the entries are numbered."""
    entities: Entities | None = None
    """Entities that this block and its neighbors describe, whose order has no meaning, see :func:`entity_blocks`."""

    def entries(self) -> list[str]:
        """Return a name per entry: "x", or "3 x" if the names repeat."""
        count = len(self.parts)
        if not count:
            return [str(index) for index in range(self.width)]
        names = [self.parts[index % count] for index in range(self.width)]
        return names if self.width <= count else [f"{index // count} {name}" for index, name in enumerate(names)]


def flags(meaning: str, parts: Sequence[str], entities: Entities | None = None) -> ObservationBlock:
    """Return a block of numbers from 0 to 1, one for each name."""
    return ObservationBlock(meaning, width=len(parts), parts=parts, entities=entities)


def points(
    meaning: str, unit: str, limit: float = ANY, count: int = 1, entities: Entities | None = None
) -> ObservationBlock:
    """Return a block of points or vectors, x and y of each, whose components lie in [-limit, limit]."""
    return ObservationBlock(meaning, unit, -limit, limit, 2 * count, ("x", "y"), entities)


def description_module(id: str) -> ModuleType | None:
    """Return the module that describes an environment: ``description``, or its host module; None if it has neither.

    Raises:
        UnknownEnvironmentError: The id is not registered.
    """
    entry = registry.find(id)
    module = entry.description or entry.module
    return None if module is None else importlib.import_module(module)


def describe_observations(core: WorldView) -> dict[str, list[dict[str, Any]]] | None:
    """Return the meaning of every observation entry.

    Returns:
        The blocks in order, by group, or by agent if the agents of a group differ. A block has ``meaning``, ``unit``
        and ``entries``, a name per entry. Without a description they are the blocks of a Dict, or an image, with the
        indices of every number; None for a vector.

    Raises:
        ConfigError: The description and the observation have different numbers of entries.
    """
    blocks = getattr(description_module(core.id), "observation_blocks", None)
    agents, declared = core.definition.agents, core.definition.observation_spaces
    if blocks is None:
        is_vector = all(len(space.shape or ()) == 1 for space in declared.values())
        return None if is_vector else _by_group(core, lambda row: _shapes(declared[agents[row]]))

    def describe(row: int) -> list[dict[str, Any]]:
        described = [
            {"meaning": _plain(block.meaning), "unit": _plain(block.unit), "entries": block.entries()}
            for block in blocks(core.config, row)
            if block.width
        ]
        count = sum(len(block["entries"]) for block in described)
        _check_count(core, row, "entries of the observation", count, spaces.flatdim(declared[agents[row]]))
        return described

    return _by_group(core, describe)


def entity_blocks(id: str, config: Any, row: int, width: int) -> NamedBlocks:
    """Return the blocks of the observation of an agent; none if the environment declares no entities.

    Args:
        id: ID of the environment.
        config: Settings of the environment.
        row: Row of the agent.
        width: Width of its observation.

    Raises:
        ConfigError: The blocks do not have the width, or entities have different numbers of entries.
    """
    describe = getattr(description_module(id), "observation_blocks", None)
    described = [block for block in describe(config, row) if block.width] if describe else []
    shapes: dict[str, tuple[int, ...]] = {}
    by_feature: list[str] = []
    targets: dict[str, int] = {}
    for entities, run in groupby(described, key=lambda block: block.entities):
        count = sum(block.width for block in run)
        if entities is None:
            shapes["numbers" if "numbers" not in shapes else f"numbers {len(shapes)}"] = (count,)
        else:
            shape = entities.count, count // max(entities.count, 1)
            shapes[entities.name] = shape[::-1] if entities.by_feature else shape
            by_feature += [entities.name] * entities.by_feature
            targets |= {} if entities.first_action is None else {entities.name: entities.first_action}
    if all(len(shape) == 1 for shape in shapes.values()):
        return NamedBlocks({})
    if (total := sum(map(math.prod, shapes.values()))) != width:
        raise ConfigError(
            f"{id}: description of row {row}: expected blocks of {width} entries, got {total} in {shapes}"
        )
    return NamedBlocks(shapes, tuple(by_feature), targets)


def describe_actions(core: WorldView) -> dict[str, list[Any]] | None:
    """Return the names of discrete actions.

    Returns:
        Names by group, or by agent if the agents of a group differ: a name per action, or a list of names per
        component of a multi-discrete action; empty if the actions have numbers only. None if actions are continuous
        or the environment has no such description.

    Raises:
        ConfigError: The description and the action space have different numbers of actions.
    """
    choices = getattr(description_module(core.id), "action_names", None)
    agents, action_spaces = core.definition.agents, core.definition.action_spaces
    if choices is None or not all(
        isinstance(s, spaces.Discrete | spaces.MultiDiscrete) for s in action_spaces.values()
    ):
        return None

    def describe(row: int) -> list[Any]:
        names, space = choices(core.config, row), action_spaces[agents[row]]
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


def describe_action_parts(core: WorldView) -> dict[str, list[str]] | None:
    """Return the names of the components of continuous actions.

    Returns:
        Names by group, or by agent if the agents of a group differ; empty if the components have numbers only. None if
        actions are not continuous or the environment has no such description.

    Raises:
        ConfigError: The description and the action space have different numbers of components.
    """
    module = description_module(core.id)
    parts = getattr(module, "action_parts", None)
    names_of = parts or getattr(module, "action_names", None)
    agents, action_spaces = core.definition.agents, core.definition.action_spaces
    if not all(isinstance(space, spaces.Box) for space in action_spaces.values()) or names_of is None:
        return None

    def describe(row: int) -> list[str]:
        count = spaces.flatdim(action_spaces[agents[row]])
        names = names_of(core.config, row)
        if parts is not None:
            _check_count(core, row, "components of the action", len(names), count)
        fits = len(names) == count and all(isinstance(name, str) for name in names)
        return [_plain(name) for name in names] if fits else []

    return _by_group(core, describe)


def _by_group(core: WorldView, describe: Callable[[int], list[Any]]) -> dict[str, list[Any]]:
    by_group = {}
    for group, rows in core.definition.groups.items():
        names = {core.definition.agents[row]: describe(row) for row in rows}
        first = next(iter(names.values()))
        by_group |= {group: first} if all(described == first for described in names.values()) else names
    return by_group


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


def _check_count(core: WorldView, row: int, label: str, count: int, expected: int) -> None:
    if count != expected:
        agent = core.definition.agents[row]
        raise ConfigError(f"{core.id}: description of {agent}: expected {expected} {label}, got {count}")


def _plain(text: str) -> str:
    return text.replace("`", "")
