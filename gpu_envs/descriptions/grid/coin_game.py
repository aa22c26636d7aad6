"""Observations, actions and rewards of CoinGame-v0."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, Table, World

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "By cell, then by layer (default)": ("player_0", {}),
    "By layer, then by cell, with `cnn=True`": ("player_0", {"cnn": True}),
}
# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("player_0 (red)", "it takes a red coin", "red_own_reward"),
    RewardTerm("player_0 (red)", "it takes a blue coin", "red_other_reward"),
    RewardTerm("player_0 (red)", "the other player takes a red coin", "red_penalty"),
    RewardTerm("player_1 (blue)", "it takes a blue coin", "blue_own_reward"),
    RewardTerm("player_1 (blue)", "it takes a red coin", "blue_other_reward"),
    RewardTerm("player_1 (blue)", "the other player takes a blue coin", "blue_penalty"),
)
# Move, by index of the action.
MOVES = ("right, +column", "left, -column", "up, +row", "down, -row", "stay")
# Things in the layers of an observation.
LAYERS = ("own player", "other player", "coin of the own color", "coin of the other color")
# Number of rows and of columns.
SIDE = 3


def action_tables() -> list[Table]:
    """Return the action table."""
    words = "`Discrete(5)`: a step over a border enters on the opposite side"
    return [Table(words, ("index", "meaning"), tuple(enumerate(MOVES)))]


def action_names(config: Any, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return [move.partition(",")[0] for move in MOVES]


def observation_blocks(config: Any, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def layers(world: World, row: int) -> np.ndarray:
        """Return a 1 in the cell of every thing, (cells, layers)."""
        things = [world.state[name][index] for name in ("player", "coin") for index in (row, 1 - row)]
        shift = 1 - world.state["player"][row] if config.egocentric else 0
        seen = np.zeros((SIDE, SIDE, len(LAYERS)))
        for layer, place in enumerate(things):
            seen[(*((place + shift) % SIDE), layer)] = 1.0
        return seen.reshape(SIDE * SIDE, len(LAYERS))

    where = "relative to the own cell, which is row 1, column 1" if config.egocentric else "row 0 is at the bottom"
    cells = tuple(f"row {index // SIDE}, column {index % SIDE}" for index in range(SIDE * SIDE))
    if config.cnn:
        return [
            ObservationBlock(
                f"1 in the cell of the {name}; {where}",
                "",
                0,
                1,
                lambda world, row, layer=layer: layers(world, row)[:, layer],
                SIDE * SIDE,
                cells,
            )
            for layer, name in enumerate(LAYERS)
        ]
    return [
        ObservationBlock(
            f"1 if a thing is in {cell}; {where}",
            "",
            0,
            1,
            lambda world, row, index=index: layers(world, row)[index],
            len(LAYERS),
            LAYERS,
        )
        for index, cell in enumerate(cells)
    ]
