"""What every number of an environment means: observations, actions, rewards; in words, and checked.

The words of ``gpu_envs/GROUP/NAME.py`` stand in ``gpu_envs/meanings/GROUP/NAME.py``. They are data:
``docs/generate.py`` turns them into the tables of the environment's page, the viewer names what it shows by them, and
``tests/test_pages.py`` holds them against the live core, so that they cannot lie for long. Such a module has

- ``blocks(config, row)``: the :class:`Block` list of the observation of the agent in a row,
- ``choices(config, row)``: a name per discrete action of that agent, or a list of names per component; empty where the
  numbers are the names,
- ``actions()``, ``OBSERVATIONS``, ``REWARDS``: tables of the page.

An environment of your own is named in the viewer too: ``gpu_envs.register(..., meanings=)`` takes the import path of a
module with ``blocks``, or ``choices``, or both.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from gpu_envs import registry
from gpu_envs.errors import ConfigError

if TYPE_CHECKING:
    from gpu_envs.core import Core

ANY = float("inf")
"""A bound that is none."""


@dataclass(frozen=True)
class World:
    """One world of a core, as NumPy arrays without the leading axis of worlds."""

    config: Any
    """Settings."""
    params: dict[str, float]
    """Constants of the rules."""
    state: dict[str, np.ndarray]
    """The rules' State, shapes as there."""
    time: float
    """Steps taken, as a share of the time limit."""


@dataclass(frozen=True)
class Block:
    """Consecutive columns of an observation that mean the same thing."""

    meaning: str
    """Of all its columns."""
    unit: str
    """Of its values; "" for none. Settings stand in backticks."""
    low: float
    """Least value."""
    high: float
    """Largest value."""
    read: Callable[[World, int], Any]
    """read(world, row) gives the columns' values, as an agent of that row should see them."""
    width: int = 1
    """Columns."""
    parts: Sequence[str] = ()
    """What tells the columns apart, such as ("x", "y"), over and over; none: their number."""

    def entries(self) -> list[str]:
        """A name per column: "x", or "3 x" where there are several."""
        count = len(self.parts)
        if not count:
            return [str(index) for index in range(self.width)]
        names = [self.parts[index % count] for index in range(self.width)]
        return names if self.width <= count else [f"{index // count} {name}" for index, name in enumerate(names)]


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head, with a line above."""

    title: str
    """The line above."""
    head: tuple[str, ...]
    """A title per column."""
    rows: tuple[tuple[Any, ...], ...]
    """Cells."""

    def column(self, index: int) -> tuple[Any, ...]:
        """The cells of a column."""
        return tuple(row[index] for row in self.rows)


@dataclass(frozen=True)
class Reward:
    """One cause of reward."""

    who: str
    """Who earns."""
    when: str
    """For what."""
    amount: str
    """A setting or constant by name with "-" before it where it is subtracted, or a formula in other words."""


def words(id: str) -> ModuleType | None:
    """The module that says what the numbers of an environment mean; None where nobody does.

    Raises:
        UnknownEnvironmentError: No such id.
    """
    entry = registry.find(id)
    module, own = entry.meanings, "gpu_envs."
    if module is None and entry.module is not None and entry.module.startswith(own):
        module = entry.module.replace(own, "gpu_envs.meanings.", 1)
    return None if module is None else importlib.import_module(module)


def observation_names(core: Core) -> dict[str, list[dict[str, Any]]] | None:
    """What every entry of an observation is.

    Returns:
        By group, or by agent where those of a group differ, the blocks in order: ``meaning``, ``unit``, and
        ``entries``, a name per column. None where nobody has said it.

    Raises:
        ConfigError: The words are of another number of entries than the observation has.
    """
    blocks = getattr(words(core.id), "blocks", None)
    if blocks is None:
        return None

    def named(row: int) -> list[dict[str, Any]]:
        told = [
            {"meaning": _plain(block.meaning), "unit": _plain(block.unit), "entries": block.entries()}
            for block in blocks(core.config, row)
        ]
        _count(core, row, "entries of the observation", sum(len(block["entries"]) for block in told), _width(core, row))
        return told

    return _by_group(core, named)


def action_names(core: Core) -> dict[str, list[Any]] | None:
    """What every discrete action is called.

    Returns:
        By group, or by agent where those of a group differ: a name per action, or a list of names per component of a
        multi-discrete one; empty where the numbers are the names. None where actions are continuous, or nobody has
        said it.

    Raises:
        ConfigError: The words are of another number of actions than there are.
    """
    choices = getattr(words(core.id), "choices", None)
    kinds = {type(space) for space in core.action_spaces.values()}
    if choices is None or not kinds <= {spaces.Discrete, spaces.MultiDiscrete}:
        return None

    def named(row: int) -> list[Any]:
        told, space = choices(core.config, row), core.action_spaces[core.possible_agents[row]]
        if not len(told):
            return []
        if isinstance(space, spaces.MultiDiscrete):
            _count(core, row, "components of the action", len(told), len(space.nvec))
            for part, size in zip(told, space.nvec, strict=True):
                _count(core, row, "choices of a component", len(part), int(size))
            return [[_plain(name) for name in part] for part in told]
        assert isinstance(space, spaces.Discrete)
        _count(core, row, "actions", len(told), int(space.n))
        return [_plain(name) for name in told]

    return _by_group(core, named)


def _by_group(core: Core, named: Callable[[int], list[Any]]) -> dict[str, list[Any]]:
    found = {}
    for group, rows in core.groups.items():
        names = {core.possible_agents[row]: named(row) for row in rows}
        first = next(iter(names.values()))
        found |= {group: first} if all(each == first for each in names.values()) else names
    return found


def _width(core: Core, row: int) -> int:
    return spaces.flatdim(core.observation_spaces[core.possible_agents[row]])


def _count(core: Core, row: int, what: str, told: int, there: int) -> None:
    if told != there:
        raise ConfigError(f"{core.id}: {core.possible_agents[row]} has {there} {what}, but its words tell of {told}")


def _plain(text: str) -> str:
    return text.replace("`", "")


def world_of(core: Core, env: int) -> World:
    """Copy one world out of a core."""
    state = {name: tensor[env].cpu().numpy().copy() for name, tensor in core.world_state.items()}
    params = {name: float(value[min(env, len(value) - 1)]) for name, value in core.get_params().items()}
    return World(core.config, params, state, int(core.steps[env]) / core.definition.max_steps)


def values(blocks: Sequence[Block], world: World, row: int) -> np.ndarray:
    """The whole observation that the blocks claim: (D,) float32."""
    parts = [np.broadcast_to(np.asarray(block.read(world, row), np.float32), block.width) for block in blocks]
    return np.concatenate(parts)
