"""LIDAR: rays from a body to the nearest of other bodies."""

import math
from collections.abc import Sequence
from typing import Any

import warp as wp

from warp_kernels import helpers
from warp_kernels.episode import IO
from warp_kernels.generated_source import compiled
from warp_kernels.physics2d import geometry
from warp_kernels.physics2d.bodies import Physics, reach
from warp_kernels.physics2d.source import angle_row, kind_of, place


@wp.func(inline=True)
def disc_ray(origin: wp.vec2, ray: wp.vec2, center: wp.vec2, radius: float) -> float:
    """Return the distance along a ray to a disc [m]; infinity if it misses it or goes away from its center.

    It is below 0 where the ray starts in the disc and goes toward the center, as in VMAS 1.5.2.
    """
    offset = center - origin
    along = wp.dot(offset, ray)
    aside = geometry.cross(offset, ray)
    square = radius * radius - aside * aside
    return wp.where(along > 0.0 and square > 0.0, along - wp.sqrt(wp.max(square, 0.0)), float(wp.inf))


@wp.func
def line_ray(origin: wp.vec2, ray: wp.vec2, center: wp.vec2, unit: wp.vec2, half: float) -> float:
    """Return the distance along a ray to a line [m]; infinity if it misses it."""
    return helpers.ray_to_wall(origin, ray, center - half * unit, center + half * unit)


@wp.func
def box_ray(origin: wp.vec2, ray: wp.vec2, center: wp.vec2, unit: wp.vec2, half: wp.vec2) -> float:
    """Return the distance along a ray to a box [m]; infinity if it misses it or starts inside."""
    offset = center - origin
    across = geometry.left(unit)
    entry_distance = float(-wp.inf)
    exit_distance = float(wp.inf)
    for axis in range(2):
        along = wp.where(axis == 0, wp.dot(ray, unit), wp.dot(ray, across))
        away = wp.where(axis == 0, wp.dot(offset, unit), wp.dot(offset, across))
        if along != 0.0:
            first = (away - half[axis]) / along
            second = (away + half[axis]) / along
            entry_distance = wp.max(entry_distance, wp.min(first, second))
            exit_distance = wp.min(exit_distance, wp.max(first, second))
        elif wp.abs(away) > half[axis]:
            exit_distance = float(-wp.inf)
    return wp.where(exit_distance >= entry_distance and entry_distance > 0.0, entry_distance, float(wp.inf))


_RAYS = {"disc": disc_ray, "line": line_ray, "box": box_ray}


def lidar(
    physics: Physics,
    Params: type,
    State: type,
    targets: Sequence[str],
    rays: int,
    span: float = 2.0 * math.pi,
    start: float = 0.0,
) -> Any:
    """Build ``scan(params, state, io, env, body, reach, column) -> int``, which writes what a body sees around it.

    A ray writes into ``io.obs`` how far its end at the distance ``reach`` [m] is behind what it meets first: 0 where
    it meets nothing. Rays go counterclockwise.

    Args:
        physics: The scene.
        Params: Params of the scenario.
        State: State of the scenario.
        targets: Names of the bodies that it sees. A body does not see itself.
        rays: Number of rays.
        span: Angle from the first ray to the last one [rad]; rays divide a full turn into equal parts.
        start: Angle of the first ray relative to the body [rad].

    Returns:
        A Warp function, which returns the column after its last one.
    """
    is_full_turn = abs(span - 2.0 * math.pi) < 1e-5
    angle = span / max(rays if is_full_turn else rays - 1, 1)
    lines = [f"for ray in range({rays}):", "    io.obs[env, body, column + ray] = 0.0", "origin = state.pos[env, body]"]
    lines.append(f"start = {_start_angle(physics, start)}")
    functions: dict[str, Any] = {}
    for name in targets:
        rows = physics.named(name)
        kind = kind_of(rows)
        functions[f"{kind}_ray"] = _RAYS[kind]
        lines += [
            f"for other in range({rows.first}, {rows.end}):",
            f"    near = reach + {reach(rows.body.shape)}",
            "    gap = state.pos[env, other] - origin",
            "    if other != body and wp.dot(gap, gap) < near * near:",
            "        ray = int(0)",
            f"        while ray < {rays}:",
            f"            beam = direction(start + float(ray) * {angle!r})",
            f"            distance = {kind}_ray(origin, beam, {place(rows, 'other')})",
            "            seen = io.obs[env, body, column + ray]",
            "            io.obs[env, body, column + ray] = wp.max(seen, reach - distance)",
            "            ray += 1",
        ]
    constants = {"Params": Params, "State": State, "IO": IO, "direction": geometry.direction, **functions}
    parameters = "params: Params, state: State, io: IO, env: int, body: int, reach: float, column: int"
    return compiled("scan", parameters, [*lines, f"return column + {rays}"], constants, kind="wp.func")


def _start_angle(physics: Physics, offset: float) -> str:
    """Return code of the angle of an agent plus an offset."""
    agents = [rows for rows in physics.rows if rows.first < physics.agents]
    turning = [rows for rows in agents if rows.body.has_angle]
    if not turning:
        return repr(float(agents[0].body.angle or 0.0) + offset)
    return f"state.rot[env, {angle_row(turning[0], 'body')}]" + (f" + {offset!r}" if offset else "")
