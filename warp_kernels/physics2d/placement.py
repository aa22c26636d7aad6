"""Random starts of bodies."""

import math
from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.generated_source import compiled
from warp_kernels.physics2d.bodies import Physics

MAX_TRIES: int = wp.constant(512)
"""Random points that a body tries; two per draw of the stream."""
DENSEST = 0.4
"""Largest share of an area that discs of half the distance may fill, so that a random point is found."""


@wp.func(inline=True)
def random_point(rng: philox.Stream, body: int, half: wp.vec2) -> wp.vec2:
    """Return a uniform point in [-half, half) [m], the first one that `separate_point` of the body tries."""
    u = philox.uniform4(rng, body, philox.RESET, 0)
    return wp.vec2((2.0 * u[0] - 1.0) * half[0], (2.0 * u[1] - 1.0) * half[1])


@wp.func
def separate_point(
    pos: wp.array2d(dtype=wp.vec2),
    env: int,
    body: int,
    count: int,
    other: int,
    apart: float,
    half: wp.vec2,
    rng: philox.Stream,
    purpose: int,
) -> wp.vec2:
    """Return a uniform point that is not too near to bodies that have their place.

    After `MAX_TRIES` points it returns the last one; `check_room` refuses settings where that is likely.

    Args:
        pos: Places of bodies, (E, N) [m].
        env: World.
        body: Row of the body, for its random numbers.
        count: The first rows that have their place; the body itself does not count.
        other: Another row that has its place; -1: none.
        apart: Smallest distance of the centers [m].
        half: Half the sides of the area around (0, 0) [m].
        rng: Random stream of the reset or of the step.
        purpose: `philox.RESET` or `philox.STEP`.
    """
    point = wp.vec2(0.0, 0.0)
    tries = int(0)
    while tries < MAX_TRIES:
        u = philox.uniform4(rng, body, purpose, tries / 2)
        if tries % 2 == 0:
            point = wp.vec2((2.0 * u[0] - 1.0) * half[0], (2.0 * u[1] - 1.0) * half[1])
        else:
            point = wp.vec2((2.0 * u[2] - 1.0) * half[0], (2.0 * u[3] - 1.0) * half[1])
        is_free = bool(True)
        if other >= 0:
            is_free = wp.length(point - pos[env, other]) >= apart
        row = int(0)
        while row < count and is_free:
            is_free = row == body or wp.length(point - pos[env, row]) >= apart
            row += 1
        tries += 1
        if is_free:
            tries = MAX_TRIES
    return point


def check_room(count: int, apart: float, width: float, height: float) -> None:
    """Raise a ValueError if bodies at random points would hardly find room.

    Args:
        count: Number of bodies.
        apart: Smallest distance of their centers [m].
        width: Width of the area [m].
        height: Its height [m].
    """
    share = count * math.pi * (0.5 * apart) ** 2 / (width * height)
    if share > DENSEST:
        raise ValueError(
            f"starts: expected room for {count} bodies {apart:g} m apart in at most {DENSEST:.0%} of {width:g} m x "
            f"{height:g} m, got {share:.0%}"
        )


def rest(physics: Physics, State: type) -> Any:
    """Build ``rest(state, env)``: all bodies are at rest, with the angle 0."""
    lines = [f"for body in range({physics.num_moving}):", "    state.vel[env, body] = wp.vec2(0.0, 0.0)"]
    if physics.has_forces:
        lines.append("    state.force[env, body] = wp.vec2(0.0, 0.0)")
    if physics.num_angles:
        names = ("rot", "spin", *(("torque",) if physics.has_forces else ()))
        lines.append(f"for row in range({physics.num_angles}):")
        lines += [f"    state.{name}[env, row] = 0.0" for name in names]
    return compiled("rest", "state: State, env: int", lines, {"State": State}, kind="wp.func")
