"""Painting of simple shapes into RGB frames, many worlds at once, without a window or OpenGL.

A shape is a row of ten float32 numbers, lengths in world units::

    kind, x, y, half_width, half_height, line_width, red, green, blue, alpha

`x, y` is the centre and the colours and alpha lie in 0..1 (alpha 0 hides the shape). Edges are smoothed by the signed
distance to them. The host side, with helpers that build the rows, is `gpu_envs.rendering`.
"""

import warp as wp

CIRCLE = wp.constant(0)  # half_width is the radius; line_width 0 fills it, else only the outline is drawn
BOX = wp.constant(1)  # likewise, axis-aligned
LINE = wp.constant(2)  # from centre - half to centre + half, where half may be negative; round ends
SHAPE_SIZE = 10  # entries of a row


@wp.func
def signed_distance(kind: int, offset: wp.vec2, half: wp.vec2) -> float:
    """Distance from a point to the edge of a shape, negative inside; of a line, to its middle.

    Args:
        kind: CIRCLE, BOX or LINE
        offset: the point, from the centre of the shape
        half: half extents; of a circle (radius, radius), of a line the vector from its centre to its end
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
    """Mixes a colour (0..1) into a byte; weight 1 gives round(255 new) exactly."""
    value = wp.float32(old)
    return wp.uint8(wp.clamp(value + (255.0 * new - value) * weight, 0.0, 255.0) + 0.5)


@wp.kernel(enable_backward=False)
def paint(
    # Inputs
    shapes: wp.array3d(dtype=float),  # (num_worlds, num_shapes, 10) rows as above, painted in order
    view: wp.array(dtype=wp.vec3),  # (num_worlds) centre x, y [world units], scale [pixels per world unit]
    clear: wp.vec3,  # colour of a pixel that no shape covers, 0..1
    block: wp.vec2i,  # height, width of the part of a frame that one thread paints [pixels]
    # Outputs
    frames: wp.array3d(dtype=wp.vec3ub),  # (num_worlds, height, width) row 0 is the top
):
    """Paints the shapes of every world; launched over (num_worlds, blocks down, blocks across).

    A block of one pixel suits a GPU. A CPU runs threads one after another, and with the whole frame as the block it
    visits only the pixels near each shape. Both give the same bytes.
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
        # Everything below in pixels, y pointing down.
        centre_x = 0.5 * float(width) + (shapes[world, i, 1] - view[world][0]) * scale
        centre_y = 0.5 * float(height) - (shapes[world, i, 2] - view[world][1]) * scale
        half = wp.vec2(shapes[world, i, 3] * scale, -shapes[world, i, 4] * scale)
        line = 0.5 * shapes[world, i, 5] * scale
        kind = int(shapes[world, i, 0])
        if kind == BOX:
            half = wp.vec2(half[0], -half[1])
        if kind == CIRCLE:
            half = wp.vec2(half[0], half[0])
        # One pixel beyond the edge nothing is covered. Clamping comes before int(), which is undefined for huge values.
        reach_x = wp.abs(half[0]) + line + 1.0
        reach_y = wp.abs(half[1]) + line + 1.0
        x0 = int(wp.clamp(centre_x - reach_x, float(left), float(right)))
        x1 = int(wp.clamp(centre_x + reach_x, float(left), float(right)))
        y0 = int(wp.clamp(centre_y - reach_y, float(top), float(bottom)))
        y1 = int(wp.clamp(centre_y + reach_y, float(top), float(bottom)))
        if alpha > 0.0 and wp.isfinite(centre_x + centre_y + reach_x + reach_y):
            for y in range(y0, y1):
                for x in range(x0, x1):
                    offset = wp.vec2(float(x) + 0.5 - centre_x, float(y) + 0.5 - centre_y)
                    distance = signed_distance(kind, offset, half)
                    cover = wp.clamp(0.5 - (distance - line), 0.0, 1.0)
                    if line > 0.0:  # the inside is left out; the difference also dims lines thinner than a pixel
                        cover -= wp.clamp(0.5 - (distance + line), 0.0, 1.0)
                    if cover > 0.0:
                        old = frames[world, y, x]
                        frames[world, y, x] = wp.vec3ub(
                            blend(old[0], shapes[world, i, 6], cover * alpha),
                            blend(old[1], shapes[world, i, 7], cover * alpha),
                            blend(old[2], shapes[world, i, 8], cover * alpha),
                        )
