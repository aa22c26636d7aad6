"""Forces between two bodies that touch, by their shapes, with the penalty force of VMAS 1.5.2."""

import warp as wp

from warp_kernels.physics2d.bodies import LINE_GAP
from warp_kernels.physics2d.geometry import (
    between_box_and_segment,
    between_boxes,
    between_segments,
    inside_box,
    is_beyond_box,
    on_box,
    on_segment,
    segment_reach,
)

GAP: float = wp.constant(LINE_GAP)  # [m]
NEAREST: float = wp.constant(1.0e-6)  # [m] points that are nearer have no direction, and no force


@wp.struct
class Contact:
    """Force between two bodies."""

    force: wp.vec2  # on the first body; the opposite acts on the other [N]
    point: wp.vec2  # point of the first body at which it acts [m]
    other_point: wp.vec2  # point of the other body [m]


@wp.struct
class Stiffness:
    """Constants of contacts or joints."""

    force: float  # [N/m]
    margin: float  # [m]


@wp.func(inline=True)
def penalty(overlap: float, stiffness: Stiffness) -> float:
    """Return the force of an overlap >= 0 [m]: k margin ln(1 + exp(overlap / margin)) [N]."""
    z = overlap / stiffness.margin
    return stiffness.force * stiffness.margin * (z + wp.log(1.0 + wp.exp(-z)))


@wp.func(inline=True)
def repulsion(delta: wp.vec2, least: float, stiffness: Stiffness) -> wp.vec2:
    """Return the force [N] that keeps a point at ``delta`` from another one at the distance ``least`` [m] or more."""
    distance = wp.length(delta)
    force = wp.vec2(0.0, 0.0)
    if distance >= NEAREST and distance <= least:
        force = delta * (penalty(least - distance, stiffness) / distance)
    return force


@wp.func(inline=True)
def spring(delta: wp.vec2, distance: float, stiffness: Stiffness) -> wp.vec2:
    """Return the force [N] of a joint on a point at ``delta`` from another one, at this distance at rest [m]."""
    length = wp.length(delta)
    force = wp.vec2(0.0, 0.0)
    if length >= NEAREST and length != distance:
        push = penalty(wp.abs(length - distance), stiffness)
        force = delta * (wp.where(length > distance, -push, push) / length)
    return force


@wp.func(inline=True)
def contact_between(point: wp.vec2, other_point: wp.vec2, force: wp.vec2) -> Contact:
    """Return a contact."""
    contact = Contact()
    contact.point = point
    contact.other_point = other_point
    contact.force = force
    return contact


@wp.func(inline=True)
def disc_disc(center: wp.vec2, radius: float, other: wp.vec2, other_radius: float, k: Stiffness) -> Contact:
    """Return the contact of two discs."""
    return contact_between(center, other, repulsion(center - other, radius + other_radius, k))


@wp.func
def line_disc(
    center: wp.vec2, unit: wp.vec2, half: float, other: wp.vec2, other_radius: float, k: Stiffness
) -> Contact:
    """Return the contact of a line and a disc."""
    point = on_segment(other, center, unit, half)
    return contact_between(point, other, -repulsion(other - point, other_radius + GAP, k))


@wp.func
def line_line(
    center: wp.vec2, unit: wp.vec2, half: float, other: wp.vec2, other_unit: wp.vec2, other_half: float, k: Stiffness
) -> Contact:
    """Return the contact of two lines; lines that cross do not push each other."""
    pair = between_segments(center, unit, half, other, other_unit, other_half)
    point = wp.vec2(pair[0], pair[1])
    other_point = wp.vec2(pair[2], pair[3])
    return contact_between(point, other_point, repulsion(point - other_point, GAP, k))


@wp.func
def box_disc(
    center: wp.vec2,
    unit: wp.vec2,
    half: wp.vec2,
    is_hollow: int,
    other: wp.vec2,
    other_radius: float,
    k: Stiffness,
) -> Contact:
    """Return the contact of a box and a disc."""
    reach = other_radius + GAP
    if is_beyond_box(center, unit, half, other, wp.vec2(reach, reach)):
        return Contact()
    point = on_box(other, center, unit, half)
    inner = wp.vec3(point[0], point[1], 0.0)
    if is_hollow == 0:
        inner = inside_box(other, point, center)
    delta = other - wp.vec2(inner[0], inner[1])
    return contact_between(point, other, -repulsion(delta, other_radius + GAP + inner[2], k))


@wp.func
def box_line(
    center: wp.vec2,
    unit: wp.vec2,
    half: wp.vec2,
    is_hollow: int,
    other: wp.vec2,
    other_unit: wp.vec2,
    other_half: float,
    k: Stiffness,
) -> Contact:
    """Return the contact of a box and a line."""
    if is_beyond_box(center, unit, half, other, segment_reach(unit, other_unit, other_half, GAP)):
        return Contact()
    pair = between_box_and_segment(center, unit, half, other, other_unit, other_half)
    point = wp.vec2(pair[0], pair[1])
    other_point = wp.vec2(pair[2], pair[3])
    inner = wp.vec3(point[0], point[1], 0.0)
    if is_hollow == 0:
        inner = inside_box(other_point, point, center)
    delta = wp.vec2(inner[0], inner[1]) - other_point
    return contact_between(point, other_point, repulsion(delta, GAP + inner[2], k))


@wp.func
def box_box(
    center: wp.vec2,
    unit: wp.vec2,
    half: wp.vec2,
    is_hollow: int,
    other: wp.vec2,
    other_unit: wp.vec2,
    other_half: wp.vec2,
    other_is_hollow: int,
    k: Stiffness,
) -> Contact:
    """Return the contact of two boxes."""
    pair = between_boxes(center, unit, half, other, other_unit, other_half)
    point = wp.vec2(pair[0], pair[1])
    other_point = wp.vec2(pair[2], pair[3])
    inner = wp.vec3(point[0], point[1], 0.0)
    other_inner = wp.vec3(other_point[0], other_point[1], 0.0)
    if is_hollow == 0:
        inner = inside_box(other_point, point, center)
    if other_is_hollow == 0:
        other_inner = inside_box(point, other_point, other)
    delta = wp.vec2(inner[0] - other_inner[0], inner[1] - other_inner[1])
    return contact_between(point, other_point, repulsion(delta, GAP + inner[2] + other_inner[2], k))
