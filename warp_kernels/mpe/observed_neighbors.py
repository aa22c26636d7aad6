"""Observations of other discs: all in row order, or the nearest ones, as in mpe2 1.1.1 ``partial_observability.py``."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO


@wp.func
def nearest_after(
    pos: wp.array2d(dtype=wp.vec2), env: int, agent: int, first: int, end: int, squared: float, entity: int
):
    """Return the next neighbor of an agent by distance; of equal distances the lower row comes first.

    Args:
        pos: (E, N) [m]
        env: World
        agent: Observing agent, which is skipped
        first: First row of the search
        end: Row after the last one
        squared: Squared distance of the previous neighbor [m^2]; -1 for the first call
        entity: Row of the previous neighbor; -1 for the first call

    Returns:
        Squared distance [m^2] and row; row -1 if there is no further neighbor.
    """
    position = pos[env, agent]
    best = float(wp.inf)
    nearest = int(-1)
    for other in range(first, end):
        delta = pos[env, other] - position
        d = wp.dot(delta, delta)
        later = d > squared or (d == squared and other > entity)
        if other != agent and later and d < best:
            best = d
            nearest = other
    return best, nearest


def slots(count: int, limit: int | None) -> int:
    """Return the number of observed discs out of ``count``; ``limit`` bounds them, None observes all."""
    return count if limit is None else limit


def observe_neighbors(State: type, first: int, end: int, limit: int | None = None, value_of: Any = None) -> Any:
    """Build ``see(state, io, env, agent, column) -> int``, a part of ``observe``.

    The function writes two numbers for each of the discs ``first .. end - 1`` except the agent itself, starting at a
    column, and returns the next column. All discs are written in row order. With ``limit``, only the nearest ones are
    written, nearest first, padded with zeros.

    Args:
        State: State of the scenario, with ``pos`` (E, N) vec2 [m].
        first: First row to observe.
        end: Row after the last one.
        limit: Number of nearest discs to observe; None observes all.
        value_of: ``f(state, env, agent, other) -> vec2``, the value to observe; None is the relative position [m].
    """

    @wp.func(inline=True)
    def offset(state: State, env: int, agent: int, other: int):
        return state.pos[env, other] - state.pos[env, agent]

    show = offset if value_of is None else value_of

    @wp.func(inline=True)
    def see_all(state: State, io: IO, env: int, agent: int, column: int):
        at = int(column)
        for other in range(first, end):
            if other != agent:
                value = show(state, env, agent, other)
                io.obs[env, agent, at] = value[0]
                io.obs[env, agent, at + 1] = value[1]
                at += 2
        return at

    @wp.func(inline=True)
    def see_nearest(state: State, io: IO, env: int, agent: int, column: int):
        squared = float(-1.0)
        other = int(-1)
        has_more = bool(True)
        for slot in range(limit):
            value = wp.vec2(0.0, 0.0)
            if has_more:
                squared, other = nearest_after(state.pos, env, agent, first, end, squared, other)
                has_more = other >= 0
            if has_more:
                value = show(state, env, agent, other)
            io.obs[env, agent, column + 2 * slot] = value[0]
            io.obs[env, agent, column + 2 * slot + 1] = value[1]
        return column + 2 * limit

    return see_all if limit is None else see_nearest
