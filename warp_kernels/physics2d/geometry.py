"""Nearest points of discs, segments and boxes. A segment or a box has a center, a direction and half sizes [m].

Where VMAS 1.5.2 tries points in turn and keeps the first nearest one, so do these functions.
"""

import warp as wp

from warp_kernels.spatial.trigonometry import sine_cosine


@wp.func(inline=True)
def cross(a: wp.vec2, b: wp.vec2) -> float:
    """Return the z component of the cross product."""
    return a[0] * b[1] - a[1] * b[0]


@wp.func(inline=True)
def direction(angle: float) -> wp.vec2:
    """Return the unit vector at an angle [rad]."""
    turned = sine_cosine(angle)
    return wp.vec2(turned[1], turned[0])


@wp.func(inline=True)
def left(vector: wp.vec2) -> wp.vec2:
    """Return a vector turned by a quarter to the left."""
    return wp.vec2(-vector[1], vector[0])


@wp.func(inline=True)
def turned(vector: wp.vec2, unit: wp.vec2) -> wp.vec2:
    """Return a vector turned by the angle of a unit vector."""
    return wp.vec2(vector[0] * unit[0] - vector[1] * unit[1], vector[0] * unit[1] + vector[1] * unit[0])


@wp.func(inline=True)
def remainder(x: float, divisor: float) -> float:
    """Return Python's ``x % divisor``, in [0, divisor)."""
    return x - wp.floor(x / divisor) * divisor


@wp.func(inline=True)
def on_segment(point: wp.vec2, center: wp.vec2, unit: wp.vec2, half: float) -> wp.vec2:
    """Return the point of a segment that is nearest to a point."""
    return center + wp.clamp(wp.dot(point - center, unit), -half, half) * unit


@wp.func
def on_box(point: wp.vec2, center: wp.vec2, unit: wp.vec2, half: wp.vec2) -> wp.vec2:
    """Return the point of the outline of a box that is nearest to a point, inside or outside."""
    offset = point - center
    x = wp.dot(offset, unit)
    y = cross(unit, offset)
    nearest_x = wp.clamp(x, -half[0], half[0])
    nearest_y = wp.clamp(y, -half[1], half[1])
    if wp.abs(x) < half[0] and wp.abs(y) < half[1]:
        if half[0] - wp.abs(x) <= half[1] - wp.abs(y):
            nearest_x = wp.where(x >= 0.0, half[0], -half[0])
        else:
            nearest_y = wp.where(y >= 0.0, half[1], -half[1])
    return center + nearest_x * unit + nearest_y * left(unit)


@wp.func(inline=True)
def is_beyond_box(center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, reach: wp.vec2) -> bool:
    """Return whether a side of a box separates it from a body whose extents along both sides are known.

    Args:
        center: Center of the box.
        unit: Unit vector along it.
        half: Half its sides.
        other: Center of the body.
        reach: Largest distance of its points from its center along the sides of the box.
    """
    offset = other - center
    x = wp.abs(wp.dot(offset, unit))
    y = wp.abs(cross(unit, offset))
    return x > half[0] + reach[0] or y > half[1] + reach[1]


@wp.func(inline=True)
def segment_reach(unit: wp.vec2, other_unit: wp.vec2, other_half: float, gap: float) -> wp.vec2:
    """Return how far a segment and a gap around it reach along a unit vector, and across it [m]."""
    return wp.vec2(
        wp.abs(wp.dot(unit, other_unit)) * other_half + gap, wp.abs(cross(unit, other_unit)) * other_half + gap
    )


@wp.func
def inside_box(outer: wp.vec2, surface: wp.vec2, center: wp.vec2) -> wp.vec3:
    """Return a point inside a solid box, x and y, and its depth below a point of the surface [m].

    It lies on the line from an outer point through the surface, at the foot of the perpendicular from the center. A
    contact that is measured from it pushes a body out of the box, however deep it is.
    """
    way = surface - outer
    length = wp.length(way)
    depth = float(0.0)
    inner = surface
    if length > 0.0:
        unit = way / length
        depth = wp.dot(center - surface, unit)
        inner = surface + depth * unit
    return wp.vec3(inner[0], inner[1], wp.abs(depth))


@wp.func
def between_segments(
    center: wp.vec2, unit: wp.vec2, half: float, other: wp.vec2, other_unit: wp.vec2, other_half: float
) -> wp.vec4:
    """Return the nearest points of two segments, x and y on the first, then on the other; equal where they cross."""
    start = center + half * unit
    end = center - half * unit
    other_start = other + other_half * other_unit
    other_end = other - other_half * other_unit
    point = start
    other_point = on_segment(start, other, other_unit, other_half)
    least = wp.length(point - other_point)
    projection = on_segment(end, other, other_unit, other_half)
    distance = wp.length(end - projection)
    if distance < least:
        point = end
        other_point = projection
        least = distance
    projection = on_segment(other_start, center, unit, half)
    distance = wp.length(other_start - projection)
    if distance < least:
        point = projection
        other_point = other_start
        least = distance
    projection = on_segment(other_end, center, unit, half)
    distance = wp.length(other_end - projection)
    if distance < least:
        point = projection
        other_point = other_end
    way = end - start
    other_way = other_end - other_start
    turn = cross(way, other_way)
    if turn != 0.0:
        share = cross(other_start - start, other_way) / turn
        other_share = cross(other_start - start, way) / turn
        if share >= 0.0 and share <= 1.0 and other_share >= 0.0 and other_share <= 1.0:
            point = start + share * way
            other_point = point
    return wp.vec4(point[0], point[1], other_point[0], other_point[1])


@wp.func
def side_of_box(side: int, center: wp.vec2, unit: wp.vec2, half: wp.vec2) -> wp.vec4:
    """Return the middle of a side, x and y, and its unit vector: front, back, left and right are 0 to 3."""
    sign = wp.where(side % 2 == 0, 1.0, -1.0)
    away = sign * half[0] * unit
    along = left(unit)
    if side >= 2:
        away = sign * half[1] * along
        along = unit
    return wp.vec4(center[0] + away[0], center[1] + away[1], along[0], along[1])


@wp.func
def between_box_and_segment(
    center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_unit: wp.vec2, other_half: float
) -> wp.vec4:
    """Return the nearest points of the outline of a box and of a segment: x and y, then those of the segment."""
    points = wp.vec4(0.0, 0.0, 0.0, 0.0)
    least = float(wp.inf)
    side = int(0)
    while side < 4:
        middle = side_of_box(side, center, unit, half)
        length = wp.where(side < 2, half[1], half[0])
        pair = between_segments(
            wp.vec2(middle[0], middle[1]), wp.vec2(middle[2], middle[3]), length, other, other_unit, other_half
        )
        distance = wp.length(wp.vec2(pair[0] - pair[2], pair[1] - pair[3]))
        if distance < least:
            least = distance
            points = pair
        side += 1
    return points


@wp.func
def between_boxes(
    center: wp.vec2, unit: wp.vec2, half: wp.vec2, other: wp.vec2, other_unit: wp.vec2, other_half: wp.vec2
) -> wp.vec4:
    """Return the nearest points of the outlines of two boxes: x and y, then those of the other box."""
    points = wp.vec4(0.0, 0.0, 0.0, 0.0)
    least = float(wp.inf)
    side = int(0)
    while side < 8:  # sides of the first box, then of the other one
        pair = wp.vec4(0.0, 0.0, 0.0, 0.0)
        if side < 4:
            middle = side_of_box(side, center, unit, half)
            length = wp.where(side < 2, half[1], half[0])
            segment_pair = between_box_and_segment(
                other, other_unit, other_half, wp.vec2(middle[0], middle[1]), wp.vec2(middle[2], middle[3]), length
            )
            pair = wp.vec4(segment_pair[2], segment_pair[3], segment_pair[0], segment_pair[1])
        else:
            middle = side_of_box(side - 4, other, other_unit, other_half)
            length = wp.where(side < 6, other_half[1], other_half[0])
            pair = between_box_and_segment(
                center, unit, half, wp.vec2(middle[0], middle[1]), wp.vec2(middle[2], middle[3]), length
            )
        distance = wp.length(wp.vec2(pair[0] - pair[2], pair[1] - pair[3]))
        if distance < least:
            least = distance
            points = pair
        side += 1
    return points
