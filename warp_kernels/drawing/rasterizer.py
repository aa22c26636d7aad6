"""Rasterization of simple shapes into RGB frames for many worlds at once, without a window or OpenGL.

A shape is a row of ten float32 numbers, lengths in world units::

    kind, x, y, half_width, half_height, line_width, red, green, blue, alpha

`x, y` is the center. Colors and alpha are in 0..1; alpha 0 hides the shape. Edges are antialiased by their signed
distance. `gpu_envs.rendering.scene` is the host side, with helpers that build the rows.
"""

import warp as wp

CIRCLE: int = wp.constant(0)  # half_width is the radius; line_width 0 fills it, else only the outline is drawn
BOX: int = wp.constant(1)  # axis-aligned; line_width as for a circle
LINE: int = wp.constant(2)  # from center - half to center + half, where half may be negative; round ends
SHAPE_SIZE = 10  # entries per row


@wp.func
def signed_distance(kind: int, offset: wp.vec2, half: wp.vec2) -> float:
    """Return the distance from a point to the edge of a shape, negative inside; to the middle of a line.

    Args:
        kind: CIRCLE, BOX or LINE.
        offset: Position of the point relative to the center of the shape.
        half: Half extents; (radius, radius) of a circle, the vector from the center to an end of a line.
    """
    if kind == BOX:
        q = wp.vec2(wp.abs(offset[0]) - half[0], wp.abs(offset[1]) - half[1])
        outside = wp.length(wp.vec2(wp.max(q[0], 0.0), wp.max(q[1], 0.0)))
        return outside + wp.min(wp.max(q[0], q[1]), 0.0)
    if kind == LINE:
        along = wp.dot(offset, half) / wp.max(wp.dot(half, half), 1.0e-12)
        return wp.length(offset - wp.clamp(along, -1.0, 1.0) * half)
    return wp.length(offset) - half[0]


@wp.func
def blend(old: wp.uint8, new: float, weight: float) -> wp.uint8:
    """Return a byte blended with a color (0..1); weight 1 gives round(255 new) exactly."""
    value = wp.float32(old)
    return wp.uint8(wp.clamp(value + (255.0 * new - value) * weight, 0.0, 255.0) + 0.5)


@wp.kernel(enable_backward=False)
def paint(
    # Inputs
    shapes: wp.array3d(dtype=float),  # (num_worlds, num_shapes, 10) rows as above, painted in order
    view: wp.array(dtype=wp.vec3),  # (num_worlds) center x, y [world units], scale [pixels per world unit]
    clear: wp.vec3,  # color of a pixel that no shape covers, 0..1
    block: wp.vec2i,  # height, width of the part of a frame that one thread paints [pixels]
    # Outputs
    frames: wp.array3d(dtype=wp.vec3ub),  # (num_worlds, height, width) row 0 is the top
):
    """Paint the shapes of every world; launched over (num_worlds, blocks down, blocks across).

    A block of one pixel suits a GPU. A CPU runs threads in order; with the whole frame as the block it visits
    only the pixels near each shape. Both give equal bytes.
    """
    world, row, column = wp.tid()
    height = frames.shape[1]
    width = frames.shape[2]
    top = row * block[0]
    left = column * block[1]
    bottom = wp.min(top + block[0], height)
    right = wp.min(left + block[1], width)

    zero = wp.uint8(0)
    empty = wp.vec3ub(blend(zero, clear[0], 1.0), blend(zero, clear[1], 1.0), blend(zero, clear[2], 1.0))
    for y in range(top, bottom):
        for x in range(left, right):
            frames[world, y, x] = empty

    scale = view[world][2]
    for i in range(shapes.shape[1]):
        alpha = wp.min(shapes[world, i, 9], 1.0)
        # All lengths below are in pixels, with y pointing down.
        center_x = 0.5 * float(width) + (shapes[world, i, 1] - view[world][0]) * scale
        center_y = 0.5 * float(height) - (shapes[world, i, 2] - view[world][1]) * scale
        half = wp.vec2(shapes[world, i, 3] * scale, -shapes[world, i, 4] * scale)
        line = 0.5 * shapes[world, i, 5] * scale
        kind = int(shapes[world, i, 0])
        if kind == BOX:
            half = wp.vec2(half[0], -half[1])
        if kind == CIRCLE:
            half = wp.vec2(half[0], half[0])
        # Coverage ends one pixel beyond the edge. Values are clamped before int(), which is undefined for huge ones.
        reach_x = wp.abs(half[0]) + line + 1.0
        reach_y = wp.abs(half[1]) + line + 1.0
        x0 = int(wp.clamp(center_x - reach_x, float(left), float(right)))
        x1 = int(wp.clamp(center_x + reach_x, float(left), float(right)))
        y0 = int(wp.clamp(center_y - reach_y, float(top), float(bottom)))
        y1 = int(wp.clamp(center_y + reach_y, float(top), float(bottom)))
        if alpha > 0.0 and wp.isfinite(center_x + center_y + reach_x + reach_y):
            for y in range(y0, y1):
                for x in range(x0, x1):
                    offset = wp.vec2(float(x) + 0.5 - center_x, float(y) + 0.5 - center_y)
                    distance = signed_distance(kind, offset, half)
                    cover = wp.clamp(0.5 - (distance - line), 0.0, 1.0)
                    if line > 0.0:  # exclude the inside; the difference also dims lines thinner than a pixel
                        cover -= wp.clamp(0.5 - (distance + line), 0.0, 1.0)
                    if cover > 0.0:
                        old = frames[world, y, x]
                        frames[world, y, x] = wp.vec3ub(
                            blend(old[0], shapes[world, i, 6], cover * alpha),
                            blend(old[1], shapes[world, i, 7], cover * alpha),
                            blend(old[2], shapes[world, i, 8], cover * alpha),
                        )
