"""Whom an agent sees: everyone in order, or the nearest few, as in mpe2 1.1.1 ``partial_observability.py``."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO


@wp.func
def nearest_after(
    pos: wp.array2d(dtype=wp.vec2), env: int, agent: int, first: int, end: int, squared: float, entity: int
):
    """The next of an agent's neighbours by distance; of equally far ones the lower row comes first.

    Args:
        pos: (E, N) [m]
        env: World
        agent: Who looks; passed over
        first: First row among whom to search
        end: Row behind the last
        squared: Squared distance of the neighbour before [m^2]; -1 for the first call
        entity: Row of the neighbour before; -1 for the first call

    Returns:
        Squared distance [m^2] and row; row -1 where there is none any more.
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
    """How many places an observation holds for ``count`` others of whom at most ``most`` (None: all) are seen."""
    return count if most is None else most


def sight(State: type, first: int, end: int, most: int | None = None, what: Any = None) -> Any:
    """Build ``see(state, io, env, agent, column) -> int``, a part of ``observe``.

    It writes two numbers of each of the discs ``first .. end - 1``, the agent itself left out, from a column on; and
    returns the column behind. All are written in row order, or with ``most`` the nearest that many, nearest first, then
    zeros where there are fewer.

    Args:
        State: The scenario's, with ``pos`` (E, N) vec2 [m].
        first: First row among whom to look.
        end: Row behind the last.
        most: How many of the nearest are seen; None: all.
        what: ``f(state, env, agent, other) -> vec2``, what is seen of another; None: where it is from here [m].
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
