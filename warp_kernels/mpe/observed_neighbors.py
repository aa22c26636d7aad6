"""Observations of other discs: all in row order, or the nearest ones, as in mpe2 1.1.1 ``partial_observability.py``."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO

__all__ = ["nearest_after", "observe_neighbors", "slots"]


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
    here = pos[env, agent]
    best = float(wp.inf)
    found = int(-1)
    for other in range(first, end):
        delta = pos[env, other] - here
        d = wp.dot(delta, delta)
        later = d > squared or (d == squared and other > entity)
        if other != agent and later and d < best:
            best = d
            found = other
    return best, found


def slots(count: int, most: int | None) -> int:
    """Return the number of observed discs out of ``count``; ``most`` limits them, None observes all."""
    return count if most is None else most


def observe_neighbors(State: type, first: int, end: int, most: int | None = None, what: Any = None) -> Any:
    """Build ``see(state, io, env, agent, column) -> int``, a part of ``observe``.

    The function writes two numbers for each of the discs ``first .. end - 1`` except the agent itself, starting at a
    column, and returns the next column. All discs are written in row order. With ``most``, only the nearest ones are
    written, nearest first, padded with zeros.

    Args:
        State: State of the scenario, with ``pos`` (E, N) vec2 [m].
        first: First row to observe.
        end: Row after the last one.
        most: Number of nearest discs to observe; None observes all.
        what: ``f(state, env, agent, other) -> vec2``, the observed value of a disc; None is its relative position [m].
    """

    @wp.func(inline=True)
    def offset(state: State, env: int, agent: int, other: int):
        return state.pos[env, other] - state.pos[env, agent]

    show = offset if what is None else what

    @wp.func(inline=True)
    def see_all(state: State, io: IO, env: int, agent: int, column: int):
        at = int(column)
        for other in range(first, end):
            if other != agent:
                shown = show(state, env, agent, other)
                io.obs[env, agent, at] = shown[0]
                io.obs[env, agent, at + 1] = shown[1]
                at += 2
        return at

    @wp.func(inline=True)
    def see_nearest(state: State, io: IO, env: int, agent: int, column: int):
        squared = float(-1.0)
        other = int(-1)
        some = bool(True)
        for slot in range(most):
            shown = wp.vec2(0.0, 0.0)
            if some:
                squared, other = nearest_after(state.pos, env, agent, first, end, squared, other)
                some = other >= 0
            if some:
                shown = show(state, env, agent, other)
            io.obs[env, agent, column + 2 * slot] = shown[0]
            io.obs[env, agent, column + 2 * slot + 1] = shown[1]
        return column + 2 * most

    return see_all if most is None else see_nearest
