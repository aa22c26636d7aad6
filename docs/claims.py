"""The words of a page about numbers: what every observation column, action and reward means.

A page's own words stand in ``docs/envs/NAME.py``, beside ``docs/envs/NAME.md``. They are data that ``docs/generate.py``
turns into tables and that ``tests/test_pages.py`` holds against the live core, so that a table cannot lie for long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

ANY = float("inf")
"""A bound that is none."""


@dataclass(frozen=True)
class World:
    """One world of a core, as NumPy arrays without the leading axis of worlds."""

    config: Any
    params: dict[str, float]
    """Constants of the rules."""
    state: dict[str, np.ndarray]
    """The rules' State."""
    time: float
    """Steps taken, as a share of the time limit."""


@dataclass(frozen=True)
class Block:
    """Consecutive columns of an observation that mean the same thing."""

    meaning: str
    unit: str
    low: float
    high: float
    read: Callable[[World, int], Any]
    """read(world, row) gives the columns' values, as an agent of that row should see them."""
    width: int = 1


@dataclass(frozen=True)
class Table:
    """Rows of cells under a head, with a line above."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Reward:
    """One cause of reward."""

    who: str
    when: str
    amount: str
    """A setting or constant by name with "-" before it where it is subtracted, or a formula in other words."""


def world_of(core: Any, env: int) -> World:
    """Copy one world out of a core."""
    state = {name: tensor[env].cpu().numpy().copy() for name, tensor in core.world_state.items()}
    params = {name: float(value[min(env, len(value) - 1)]) for name, value in core.get_params().items()}
    return World(core.config, params, state, int(core.steps[env]) / core.definition.max_steps)


def values(blocks: list[Block], world: World, row: int) -> np.ndarray:
    """The whole observation that the blocks claim: (D,) float32."""
    parts = [np.broadcast_to(np.asarray(block.read(world, row), np.float32), block.width) for block in blocks]
    return np.concatenate(parts)
