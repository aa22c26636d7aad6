"""K nearest agents in a uniform grid of cells over a square, rebuilt whenever the agents have moved.

A search visits the cells around its own until no nearer agent can be left. Its cost does not grow with the number of
agents as long as few agents share a cell. The results equal the brute-force search bit for bit, because keys
define one order of agents.

Rules that use it have ``grid_length`` in Params; in State ``pos``, ``shown`` (agents that searches find) and the arrays
named by :func:`shapes`; and the phases of :func:`build_grid` after every move and as ``Rules.build_grid``.
"""

import math
from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.rules import Phase, agent_phase, item_phase
from warp_kernels.spatial.brute_force_knn import FAR, distance, distance_of, key

ROUNDING: float = wp.constant(1.0e-6)
"""Bound of the rounding error of a position relative to a cell border, as a fraction of the lengths involved."""


@wp.func(inline=True)
def cells_a_side(num_agents: int, num_nearest: int) -> int:
    """Return the number of cells along a side; measured, a search for K is fastest with K / 5 agents per cell."""
    return max(1, math.isqrt(5 * num_agents // max(num_nearest, 5)))


def shapes(num_agents: int, num_nearest: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the State arrays that the grid needs: ints, and vec2 for ``spot``.

    ``cells`` holds the index of the first agent of every cell. A row of cells has one more entry, the end of its last
    cell, and the last entry of all counts the agents. ``slot`` is an agent's index in its cell. ``who`` and ``spot``
    are the agents' rows and positions in the order of cells.
    """
    side = cells_a_side(num_agents, num_nearest)
    return {"cells": (side * (side + 1) + 1,), **dict.fromkeys(("slot", "who", "spot"), (num_agents,))}


@wp.func(inline=True)
def line(coordinate: float, length: float, side: int):
    """Return the row or column of the cell of a coordinate; coordinates outside the square map to its border."""
    return int(wp.clamp(coordinate * (float(side) / length), 0.0, float(side - 1)))


def build_grid(params_type: Any, state_type: Any, num_agents: int, num_nearest: int) -> tuple[Phase, ...]:
    """Build the phases that sort all shown agents into cells.

    They are an exception to phase isolation: siblings of ``count`` and ``lay_out`` add to one number by atomics. The
    order inside a cell is therefore undefined, and on a GPU also the order of rows of cells. Search results do not
    depend on it.
    """
    side = cells_a_side(num_agents, num_nearest)
    width = side + 1
    total = side * width

    @wp.func(inline=True)
    def cell_of(position: wp.vec2, length: float):
        return line(position[1], length, side) * width + line(position[0], length, side)

    @wp.func(inline=True)
    def clear(params: params_type, state: state_type, io: IO, env: int, cell: int):
        """Empty a cell."""
        state.cells[env, cell] = 0

    @wp.func(inline=True)
    def count(params: params_type, state: state_type, io: IO, env: int, agent: int):
        """Count the agents of a cell, and write the agent's index in it."""
        if state.shown[env, agent]:
            cell = cell_of(state.pos[env, agent], params.grid_length)
            state.slot[env, agent] = wp.atomic_add(state.cells, env, cell, 1)

    @wp.func(inline=True)
    def lay_out(params: params_type, state: state_type, io: IO, env: int, row: int):
        """Assign consecutive index ranges to the cells of a row, and write their starts."""
        first = row * width
        last = first + side
        count = int(0)
        for cell in range(first, last):
            count += state.cells[env, cell]
        begin = wp.atomic_add(state.cells, env, total, count)
        for cell in range(first, last):
            count = state.cells[env, cell]
            state.cells[env, cell] = begin
            begin += count
        state.cells[env, last] = begin

    @wp.func(inline=True)
    def settle(params: params_type, state: state_type, io: IO, env: int, agent: int):
        """Write the agent's row and position at its index in its cell."""
        if state.shown[env, agent]:
            position = state.pos[env, agent]
            slot = state.cells[env, cell_of(position, params.grid_length)] + state.slot[env, agent]
            state.who[env, slot] = agent
            state.spot[env, slot] = position

    return (
        item_phase(total + 1, clear, writes="cells"),
        agent_phase(count, reads="cells pos shown", writes="cells slot"),
        item_phase(side, lay_out, reads="cells", writes="cells"),
        agent_phase(settle, reads="cells pos shown slot", writes="spot who"),
    )


def search(num_agents: int, num_nearest: int, count: int) -> Any:
    """Build the search for the nearest ``count`` agents in a grid that was sized for ``num_nearest``."""
    Keys = wp.types.vector(length=count, dtype=wp.uint64)
    LAST = count - 1
    side = cells_a_side(num_agents, num_nearest)
    width = side + 1

    @wp.func
    def nearest(
        cells: wp.array2d(dtype=int),
        agents: wp.array2d(dtype=int),
        spot: wp.array2d(dtype=wp.vec2),
        env: int,
        agent: int,
        position: wp.vec2,
        length: float,
        rows: int,
        reach: float,
    ):
        """Return the keys of the nearest other agents among the first ``rows`` agents.

        Agents beyond ``reach`` [m] may be missing. The search visits the cells of a square around the agent, then new
        cells up to the distance of the last agent found. If it has found too few agents, it doubles the square.
        """
        keys = Keys(FAR)
        far = reach  # distance of the last of ``count`` found agents
        within = wp.min(length / float(side), reach)  # all agents within this distance are found by the end of a round
        seen_left = int(0)
        seen_right = int(-1)
        seen_bottom = int(0)
        seen_top = int(-1)
        more = bool(True)
        while more:
            half = within + ROUNDING * (within + length)
            left = line(position[0] - half, length, side)
            right = line(position[0] + half, length, side)
            bottom = line(position[1] - half, length, side)
            top = line(position[1] + half, length, side)
            for row in range(bottom, top + 1):
                parts = wp.where(row < seen_bottom or row > seen_top, 1, 2)  # the whole row, or its two ends
                for part in range(parts):
                    first = wp.where(part == 0, left, seen_right + 1)
                    last = wp.where(parts == 2 and part == 0, seen_left - 1, right)
                    slot = cells[env, row * width + first]
                    end = cells[env, row * width + last + 1]
                    while slot < end:
                        other = agents[env, slot]
                        fresh = key(distance(spot[env, slot], position), other)
                        if fresh < keys[LAST] and other != agent and other < rows:
                            for k in range(count):
                                smaller = wp.min(keys[k], fresh)
                                fresh = wp.max(keys[k], fresh)
                                keys[k] = smaller
                        slot += 1
            full = keys[LAST] != FAR
            if full:
                far = wp.min(distance_of(keys[LAST]), reach)
            everywhere = right - left == side - 1 and top - bottom == side - 1
            more = far > within and not everywhere
            within = wp.where(full, far, wp.min(2.0 * within, reach))
            seen_left = left
            seen_right = right
            seen_bottom = bottom
            seen_top = top
        return keys

    return nearest
