"""Descriptions that board games without a view of the opponent's marks share."""

from collections.abc import Callable, Sequence

import numpy as np

from gpu_envs.descriptions.base import ObservationBlock, RewardTerm, World

__all__ = ["REWARDS", "one_hot", "owners", "tries"]

# Reward terms, in the order of the documentation page.
REWARDS = (
    RewardTerm("winner", "a player wins", "win_reward"),
    RewardTerm("loser", "a player wins", "-win_reward"),
)


def owners(world: World, row: int, cells: int) -> list[int]:
    """Return the owner of the mark in each cell that an agent knows; -1 for none or unknown."""

    def owner(cell: int) -> int:
        if not int(world.state["known"][row]) >> cell & 1:
            return -1
        return int(world.state["marks"][1]) >> cell & 1

    return [owner(cell) for cell in range(cells)]


def tries(cells: int, reveal_turns: bool, names: Sequence[str]) -> ObservationBlock:
    """Return the block of the tries in their order.

    Args:
        cells: Number of cells.
        reveal_turns: Whether the number of the opponent's tries is observed.
        names: Names of the cells.
    """
    width = cells + 2 if reveal_turns else cells
    count = 2 * cells - 1 if reveal_turns else cells

    def read(world: World, row: int) -> np.ndarray:
        found = np.zeros((count, width))
        taken = world.state["tries"][: world.state["taken"]]
        shown = taken if reveal_turns else taken[taken // cells == row]
        for place, each in enumerate(shown):
            player, cell = divmod(int(each), cells)
            if reveal_turns:
                found[place, 0] = player
                found[place, 1 + (cell if player == row else cells)] = 1
            else:
                found[place, cell] = 1
        return found.reshape(-1)

    if reveal_turns:
        meaning = "every try of both players: its player, and one-hot the cell or that it is unknown"
        return ObservationBlock(meaning, "", 0, 1, read, count * width, ("player", *names, "unknown"))
    return ObservationBlock("every own try, cell one-hot", "", 0, 1, read, count * width, names)


def one_hot(
    state_of: Callable[[World, int], Sequence[int]], values: Sequence[int], by_cell: bool
) -> Callable[[World, int], np.ndarray]:
    """Return a reader of the states of all N cells, one-hot: a function that returns (N * S,) for S values.

    Args:
        state_of: Function that returns the state of each cell.
        values: States in the order of columns.
        by_cell: Whether the columns of a cell are next to each other, instead of those of a state.
    """

    def read(world: World, row: int) -> np.ndarray:
        found = np.equal.outer(np.asarray(state_of(world, row)), np.asarray(values)).astype(float)
        return (found if by_cell else found.T).reshape(-1)

    return read
