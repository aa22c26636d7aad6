"""Distances and overlaps of two bodies, as VMAS 1.5.2 measures them for rewards and ends."""

from collections.abc import Sequence
from typing import Any

import warp as wp

from warp_kernels.generated_source import compiled
from warp_kernels.physics2d import geometry
from warp_kernels.physics2d.bodies import LINE_GAP, Physics
from warp_kernels.physics2d.source import kind_of, place, rank_of

GAP: float = wp.constant(LINE_GAP)  # [m]
INSIDE: float = wp.constant(-1.0)  # distance of a disc that overlaps a box


@wp.func
def disc_disc_distance(center: wp.vec2, radius: float, other: wp.vec2, other_radius: float) -> float:
    """Return the gap between two discs [m]; below 0 they overlap."""
    return wp.length(center - other) - radius - other_radius


@wp.func
def line_disc_distance(center: wp.vec2, unit: wp.vec2, half: float, other: wp.vec2, other_radius: float) -> float:
    """Return the gap between a line and a disc [m]; below 0 they overlap."""
    return wp.length(other - geometry.on_segment(other, center, unit, half)) - GAP - other_radius


@wp.func
def line_line_distance(
    center: wp.vec2, unit: wp.vec2, half: float, other: wp.vec2, other_unit: wp.vec2, other_half: float
) -> float:
    """Return the gap between two lines [m]; below 0 they overlap."""
    pair = geometry.between_segments(center, unit, half, other, other_unit, other_half)
    return wp.length(wp.vec2(pair[0] - pair[2], pair[1] - pair[3])) - GAP


@wp.func
def box_disc_distance(center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_radius: float) -> float:
    """Return the gap between a box and a disc [m]; INSIDE if they overlap."""
    point = geometry.on_box(other, center, unit, half)
    distance = wp.length(other - point) - GAP - other_radius
    if distance < 0.0 or wp.length(other - center) < wp.length(point - center):
        distance = INSIDE
    return distance


@wp.func
def box_line_distance(
    center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_unit: wp.vec2, other_half: float
) -> float:
    """Return the gap between the outline of a box and a line [m]; below 0 they overlap."""
    pair = geometry.between_box_and_segment(center, unit, half, other, other_unit, other_half)
    return wp.length(wp.vec2(pair[0] - pair[2], pair[1] - pair[3])) - GAP


@wp.func
def box_box_distance(
    center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_unit: wp.vec2, other_half: wp.vec2
) -> float:
    """Return the gap between the outlines of two boxes [m]; below 0 they overlap."""
    pair = geometry.between_boxes(center, unit, half, other, other_unit, other_half)
    return wp.length(wp.vec2(pair[0] - pair[2], pair[1] - pair[3])) - GAP


@wp.func
def box_line_overlap(
    center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_unit: wp.vec2, other_half: float
) -> bool:
    """Return whether the outline of a box and a line overlap."""
    if geometry.is_beyond_box(center, unit, half, other, geometry.segment_reach(unit, other_unit, other_half, GAP)):
        return False
    return box_line_distance(center, unit, half, other, other_unit, other_half) < 0.0


@wp.func
def box_disc_overlap(center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_radius: float) -> bool:
    """Return whether a box and a disc overlap."""
    reach = other_radius + GAP
    if geometry.is_beyond_box(center, unit, half, other, wp.vec2(reach, reach)):
        return False
    return box_disc_distance(center, unit, half, other, other_radius) < 0.0


_OVERLAPS = {"box_line": box_line_overlap, "box_disc": box_disc_overlap}
_DISTANCES = {
    "disc_disc": disc_disc_distance,
    "line_disc": line_disc_distance,
    "line_line": line_line_distance,
    "box_disc": box_disc_distance,
    "box_line": box_line_distance,
    "box_box": box_box_distance,
}


def distance(physics: Physics, Params: type, State: type, name: str, other: str) -> Any:
    """Build ``distance(params, state, env, body, other) -> float``, the gap between two bodies [m].

    Below 0 the bodies overlap.

    Args:
        physics: The scene.
        Params: Params of the scenario.
        State: State of the scenario.
        name: Name of bodies, in whose rows ``body`` is.
        other: Name of bodies, in whose rows ``other`` is.
    """
    call, constants = _measurement(physics, name, other, _DISTANCES)
    constants |= {"Params": Params, "State": State}
    parameters = "params: Params, state: State, env: int, body: int, other: int"
    return compiled("distance", parameters, [f"return {call}"], constants, kind="wp.func")


def overlap(physics: Physics, Params: type, State: type, name: str, other: str) -> Any:
    """Build ``overlap(params, state, env, body, other) -> bool``, whether `distance` is below 0, often in less time."""
    call, constants = _measurement(physics, name, other, {**_DISTANCES, **_OVERLAPS})
    constants |= {"Params": Params, "State": State}
    parameters = "params: Params, state: State, env: int, body: int, other: int"
    is_measured = not any(function in constants.values() for function in _OVERLAPS.values())
    lines = [f"return {call} < 0.0" if is_measured else f"return {call}"]
    return compiled("overlap", parameters, lines, constants, kind="wp.func")


def count_near(physics: Physics, Params: type, State: type, name: str, targets: Sequence[str]) -> Any:
    """Build ``count(params, state, env, body, reach) -> int``, the number of other bodies at most ``reach`` [m] away.

    Args:
        physics: The scene.
        Params: Params of the scenario.
        State: State of the scenario.
        name: Name of bodies, in whose rows ``body`` is.
        targets: Names of the bodies that it counts.
    """
    constants: dict[str, Any] = {"Params": Params, "State": State}
    lines = ["count = int(0)"]
    for target in targets:
        rows = physics.named(target)
        call, functions = _measurement(physics, name, target, _DISTANCES)
        constants |= functions
        lines.append(f"for other in range({rows.first}, {rows.end}):")
        lines += [f"    if other != body and {call} <= reach:", "        count += 1"]
    parameters = "params: Params, state: State, env: int, body: int, reach: float"
    return compiled("count_near", parameters, [*lines, "return count"], constants, kind="wp.func")


def _measurement(physics: Physics, name: str, other: str, functions: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return code that calls one of the functions for two bodies, and what it uses."""
    ends = ((physics.named(name), "body"), (physics.named(other), "other"))
    pair = sorted(ends, key=lambda end: rank_of(end[0]))
    arguments = ", ".join(place(rows, row) for rows, row in pair)
    measure = functions[f"{kind_of(pair[0][0])}_{kind_of(pair[1][0])}"]
    return f"{measure.key}({arguments})", {measure.key: measure, "direction": geometry.direction}
