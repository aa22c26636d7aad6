"""Observations, actions and rewards of DarkHex-v0."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, Table, World
from gpu_envs.descriptions.games.hidden.phantom import REWARDS, one_hot, owners, tries
from gpu_envs.envs.games.hidden.dark_hex import Config, sizes_of
from gpu_envs.envs.games.hidden.phantom import REVEAL_TURNS

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Any player": ("black_0", {}),
    'With `num_rows=2, num_cols=4, obstype="reveal-numturns"`': (
        "black_0",
        {"num_rows": 2, "num_cols": 4, "obstype": REVEAL_TURNS},
    ),
}
# States of a cell in the order of columns: 1 and 4 are black, -1 and -4 white, 0 is a cell without a known stone.
_STATES = (-4, -3, -2, -1, 0, 1, 2, 3, 4)
_WORDS = ("white, wins", "unused", "unused", "white", "empty or unknown", "black", "unused", "unused", "black, wins")


def _names(config: Config) -> list[str]:
    rows, columns = sizes_of(config)
    return [f"row {row}, column {column}" for row in range(rows) for column in range(columns)]


def action_tables() -> list[Table]:
    """Return the action table of the default settings."""
    rows = tuple((cell, name, "if the player has not tried the cell") for cell, name in enumerate(_names(Config())))
    return [Table("`Discrete(9)` with default settings, numbered as in OpenSpiel", ("index", "try", "legal"), rows)]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return _names(config)


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    names = _names(config)
    cells = len(names)

    def states(world: World, row: int) -> list[int]:
        found = [0 if owner < 0 else 1 - 2 * owner for owner in owners(world, row, cells)]
        if world.state["winner"] == row and world.state["taken"] > 0:
            found[int(world.state["tries"][world.state["taken"] - 1]) % cells] *= 4
        return found

    read, width = one_hot(states, _STATES, by_cell=True), len(_STATES)
    parts = [
        ObservationBlock(
            f"{name}, one-hot: {'; '.join(_WORDS)}" if cell == 0 else f"{name}, likewise",
            "",
            0,
            1,
            lambda world, row, cell=cell: read(world, row)[cell * width : (cell + 1) * width],
            width,
            _WORDS,
        )
        for cell, name in enumerate(names)
    ]
    return [*parts, tries(cells, config.obstype == REVEAL_TURNS, names)]
