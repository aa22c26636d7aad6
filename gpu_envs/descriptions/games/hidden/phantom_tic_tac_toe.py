"""Observations, actions and rewards of PhantomTicTacToe-v0."""

from collections.abc import Sequence
from typing import Any

from gpu_envs.descriptions.base import ObservationBlock, Table
from gpu_envs.descriptions.games.hidden.phantom import REWARDS, one_hot, owners, tries
from gpu_envs.envs.games.hidden.phantom import REVEAL_TURNS
from gpu_envs.envs.games.hidden.phantom_tic_tac_toe import Config

__all__ = ["OBSERVATIONS", "REWARDS", "action_names", "action_tables", "observation_blocks"]

# Observation tables of the documentation page, by title: (agent, settings).
OBSERVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Any player": ("cross_0", {}),
    'With `obstype="reveal-numturns"`': ("cross_0", {"obstype": REVEAL_TURNS}),
}
_NAMES = [f"{down} {across}" for down in ("top", "middle", "bottom") for across in ("left", "center", "right")]


def action_tables() -> list[Table]:
    """Return the action table."""
    rows = tuple((cell, name, "if the player has not tried the cell") for cell, name in enumerate(_NAMES))
    return [Table("`Discrete(9)`, numbered as in OpenSpiel", ("index", "try", "legal"), rows)]


def action_names(config: Config, row: int) -> Sequence[str]:
    """Return the names of the actions of the agent in this row."""
    return _NAMES


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""

    def plane(owner: int):
        return one_hot(lambda world, row: owners(world, row, 9), (owner,), by_cell=False)

    planes = {"cells without a known mark": -1, "known noughts": 1, "known crosses": 0}
    return [
        *(
            ObservationBlock(f"{meaning}, row by row", "", 0, 1, plane(owner), 9, _NAMES)
            for meaning, owner in planes.items()
        ),
        tries(9, config.obstype == REVEAL_TURNS, _NAMES),
    ]
