"""The nearest of many: a uniform grid of cells over a square, built anew whenever the agents have moved.

A search looks into the cells around its own until no nearer agent can be left, so that its cost does not grow with the
number of agents, as long as they do not crowd into few cells. Answers are those of a search through all, bit for bit:
keys put agents in one order, whatever order they are found in.

Rules that use it have ``grid_length`` in Params; in State ``pos``, ``shown`` (whom searches find) and the arrays named
by :func:`shapes`; and the phases of :func:`survey` after every move and as ``Rules.survey``.
"""

import math
from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.neighbours import FAR, distance, distance_of, key
from warp_kernels.rules import Phase, agent_phase, item_phase

ROUNDING = wp.constant(1.0e-6)
"""What rounding may move a place against the border of a cell, as a share of the lengths that enter."""


@wp.func(inline=True)
def cells_a_side(num_agents: int, num_nearest: int) -> int:
    """Cells along a side of the square: by measurement, a search for K is quickest with K / 5 agents in a cell."""
    return max(1, math.isqrt(5 * num_agents // max(num_nearest, 5)))


def shapes(num_agents: int, num_nearest: int) -> dict[str, tuple[int, ...]]:
    """Arrays of State that the grid needs: ints, and vec2 for ``spot``.

    ``cells`` holds where the agents of a cell begin; a row of cells has one entry more, where its last cell ends, and
    the last entry of all counts the agents. ``slot`` is an agent's number in its cell; ``who`` and ``spot`` are rows
    and places in the order of cells.
    """
    side = cells_a_side(num_agents, num_nearest)
    return {"cells": (side * (side + 1) + 1,), **dict.fromkeys(("slot", "who", "spot"), (num_agents,))}


@wp.func(inline=True)
def line(coordinate: float, length: float, side: int):
    """Row or column of the cell that holds a coordinate; what lies outside the square belongs to its border."""
    return int(wp.clamp(coordinate * (float(side) / length), 0.0, float(side - 1)))


def survey(params_type: Any, state_type: Any, num_agents: int, num_nearest: int) -> tuple[Phase, ...]:
    """Build the phases that put everyone who is shown into the cells.

    The named exception to the law of phases: siblings of ``count`` and ``lay_out`` add to one number by atomics, so the
    order inside a cell is any, and on a GPU also that of rows of cells. What a search answers does not depend on it.
    """
    side = cells_a_side(num_agents, num_nearest)
    width = side + 1
    total = side * width

    @wp.func(inline=True)
    def cell_of(place: wp.vec2, length: float):
        return line(place[1], length, side) * width + line(place[0], length, side)

    @wp.func(inline=True)
    def clear(params: params_type, state: state_type, io: IO, env: int, cell: int):
        """Empty a cell."""
        state.cells[env, cell] = 0

    @wp.func(inline=True)
    def count(params: params_type, state: state_type, io: IO, env: int, agent: int):
        """Count the agents of a cell. Writes the agent's number in it."""
        if state.shown[env, agent]:
            cell = cell_of(state.pos[env, agent], params.grid_length)
            state.slot[env, agent] = wp.atomic_add(state.cells, env, cell, 1)

    @wp.func(inline=True)
    def lay_out(params: params_type, state: state_type, io: IO, env: int, row: int):
        """Give a row of cells its places, one cell behind the other. Writes where each begins."""
        first = row * width
        last = first + side
        here = int(0)
        for cell in range(first, last):
            here += state.cells[env, cell]
        begin = wp.atomic_add(state.cells, env, total, here)
        for cell in range(first, last):
            here = state.cells[env, cell]
            state.cells[env, cell] = begin
            begin += here
        state.cells[env, last] = begin

    @wp.func(inline=True)
    def settle(params: params_type, state: state_type, io: IO, env: int, agent: int):
        """Take the agent's place in its cell."""
        if state.shown[env, agent]:
            here = state.pos[env, agent]
            place = state.cells[env, cell_of(here, params.grid_length)] + state.slot[env, agent]
            state.who[env, place] = agent
            state.spot[env, place] = here

    return (
        item_phase(total + 1, clear),
        agent_phase(count),
        item_phase(side, lay_out),
        agent_phase(settle),
    )


def search(num_agents: int, num_nearest: int, count: int) -> Any:
    """Build the search for the nearest ``count``, in a grid made for ``num_nearest``."""
    Keys = wp.types.vector(length=count, dtype=wp.uint64)
    LAST = count - 1
    side = cells_a_side(num_agents, num_nearest)
    width = side + 1

    @wp.func
    def nearest(
        cells: wp.array2d(dtype=int),
        who: wp.array2d(dtype=int),
        spot: wp.array2d(dtype=wp.vec2),
        env: int,
        agent: int,
        here: wp.vec2,
        length: float,
        rows: int,
        reach: float,
    ):
        """Keys of the nearest to an agent among the first ``rows`` of agents, not counting itself.

        Those beyond ``reach`` [m] may be missing. It looks at the cells of a square around the agent, then, in cells it
        has not seen, as far as the last of those it has found; where they are too few the square is doubled.
        """
        found = Keys(FAR)
        far = reach  # distance of the last one, once there are so many
        within = wp.min(length / float(side), reach)  # everyone so near is seen by the end of a round
        seen_left = int(0)
        seen_right = int(-1)
        seen_bottom = int(0)
        seen_top = int(-1)
        more = bool(True)
        while more:
            half = within + ROUNDING * (within + length)
            left = line(here[0] - half, length, side)
            right = line(here[0] + half, length, side)
            bottom = line(here[1] - half, length, side)
            top = line(here[1] + half, length, side)
            for row in range(bottom, top + 1):
                parts = wp.where(row < seen_bottom or row > seen_top, 1, 2)  # all of the row, or its two ends
                for part in range(parts):
                    first = wp.where(part == 0, left, seen_right + 1)
                    last = wp.where(parts == 2 and part == 0, seen_left - 1, right)
                    place = cells[env, row * width + first]
                    end = cells[env, row * width + last + 1]
                    while place < end:
                        other = who[env, place]
                        fresh = key(distance(spot[env, place], here), other)
                        if fresh < found[LAST] and other != agent and other < rows:
                            for k in range(count):
                                smaller = wp.min(found[k], fresh)
                                fresh = wp.max(found[k], fresh)
                                found[k] = smaller
                        place += 1
            full = found[LAST] != FAR
            if full:
                far = wp.min(distance_of(found[LAST]), reach)
            everywhere = right - left == side - 1 and top - bottom == side - 1
            more = far > within and not everywhere
            within = wp.where(full, far, wp.min(2.0 * within, reach))
            seen_left = left
            seen_right = right
            seen_bottom = bottom
            seen_top = top
        return found

    return nearest
