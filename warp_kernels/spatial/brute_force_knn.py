"""K nearest agents by brute force, and the keys that order agents by distance.

``warp_kernels/spatial/cell_grid.py`` searches among many agents, with equal results bit for bit.
"""

from typing import Any

import warp as wp

from warp_kernels.rules import LAST

FAR: wp.uint64 = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
"""Key of an empty slot, larger than every other key."""
FINITE: float = wp.constant(3.4028234e38)
"""Largest finite float32."""


@wp.func_native("""
#if defined(__CUDA_ARCH__)
return true;
#else
return false;
#endif
""")
def on_gpu() -> bool:
    """Return whether the kernel is compiled for a GPU, as a constant of the compiler."""
    ...


@wp.func(inline=True)
def distance(a: wp.vec2, b: wp.vec2):
    """Return the distance between two positions [m]."""
    dx = a[0] - b[0]
    dy = a[1] - b[1]
    return wp.sqrt(dx * dx + dy * dy)


@wp.func(inline=True)
def key(dist: float, row: int):
    """Return a key that orders by distance (positive floats order like their bits), then by row."""
    return (wp.uint64(wp.cast(dist, wp.uint32)) << wp.uint64(32)) | wp.uint64(row)


@wp.func(inline=True)
def distance_of(packed: wp.uint64):
    """Return the distance of a key [m]; NaN for FAR."""
    return wp.cast(wp.uint32(packed >> wp.uint64(32)), float)


@wp.func(inline=True)
def row_of(packed: wp.uint64):
    """Return the row of a key."""
    return int(packed & wp.uint64(0x7FFFFFFF))


def sweep(num_agents: int, count: int) -> Any:
    """Build the brute-force search for the nearest ``count`` agents, for agent counts where a grid does not pay.

    The neighbors found last time are still close. Their distances now bound the distance of the nearest agents, which
    leaves few agents to sort. The first loop suits a CPU's vector units: scalars at constant strides, no branches.

    A CPU counts, for every agent left, the nearer ones. A GPU would keep the arrays for that in local memory, because
    their indices are computed. It inserts every agent into a sorted list instead, which stays in registers up to about
    100 neighbors. Both give equal results bit for bit.
    """
    ROOM = -(-(count + 4) // 8) * 8  # keys sorted at once
    Keys = wp.types.vector(length=ROOM, dtype=wp.uint64)
    Places = wp.types.vector(length=ROOM, dtype=int)
    SPAN = min(num_agents, 32)

    @wp.func(inline=True)
    def in_order(keys: Keys, listed: int):
        """Sort by counting: the position of a key is the number of smaller keys."""
        places = Places()
        j = int(0)
        while j < listed:
            other = keys[j & LAST]
            i = int(0)
            while i < ROOM:
                places[i] = places[i] + wp.where(other < keys[i], 1, 0)
                i += 1
            j += 1
        ordered = Keys(FAR)
        i = int(0)
        while i < listed:
            ordered[places[i & LAST] & LAST] = keys[i & LAST]
            i += 1
        return ordered

    @wp.func(inline=True)
    def distance_to(
        coordinates: wp.array3d(dtype=float),
        is_visible: wp.array2d(dtype=wp.bool),
        env: int,
        other: int,
        position: wp.vec2,
    ):
        """Return the distance to another agent, infinite where it is hidden."""
        dx = coordinates[env, other, 0] - position[0]
        dy = coordinates[env, other, 1] - position[1]
        return wp.where(is_visible[env, other], wp.sqrt(dx * dx + dy * dy), wp.inf)

    @wp.func(inline=True)
    def within(
        coordinates: wp.array3d(dtype=float),
        is_visible: wp.array2d(dtype=wp.bool),
        env: int,
        position: wp.vec2,
        bound: float,
        first: int,
        base: int,
    ):
        """Return the agents of a span that are within the bound as bits, bit 0 for row ``base``."""
        begin = wp.min(first, num_agents - SPAN)
        bits = wp.uint32(0)
        i = int(0)
        while i < SPAN:
            dist = distance_to(coordinates, is_visible, env, begin + i, position)
            bits = bits | wp.where(dist <= bound, wp.uint32(1) << wp.uint32(i), wp.uint32(0))
            i += 1
        left = wp.uint64(bits) << wp.uint64(wp.max(begin - base, 0))
        return left >> wp.uint64(wp.max(base - begin, 0))

    @wp.func(inline=True)
    def nearest(
        pos: wp.array2d(dtype=wp.vec2),
        visible: wp.array2d(dtype=wp.bool),
        near: wp.array3d(dtype=int),
        env: int,
        agent: int,
    ):
        """Write the rows of the nearest other agents, nearest first; ``near`` holds the rows of the last search."""
        coordinates = wp.array(ptr=pos.ptr, shape=(pos.shape[0], num_agents, 2), dtype=float)
        is_visible = wp.array(ptr=visible.ptr, shape=(pos.shape[0], num_agents), dtype=wp.bool)
        rows = wp.array(ptr=near.ptr, shape=(pos.shape[0], num_agents, count), dtype=int)
        position = pos[env, agent]
        bound = float(0.0)
        for slot in range(count):
            row = rows[env, agent, slot]
            dist = distance_to(coordinates, is_visible, env, wp.max(row, 0), position)
            bound = wp.max(bound, wp.where(row < 0, wp.inf, dist))
        bound = wp.min(bound, FINITE)  # excludes hidden agents
        keys = Keys(FAR)
        listed = int(0)
        base = int(0)
        while base < num_agents:
            left = within(coordinates, is_visible, env, position, bound, base, base)
            if wp.static(num_agents > 32):
                left = left | within(coordinates, is_visible, env, position, bound, base + 32, base)
            bit = wp.uint64(1) << wp.uint64(agent & 63)
            left = left & ~wp.where(agent >> 6 == base >> 6, bit, wp.uint64(0))
            while left != wp.uint64(0):
                remaining = left & (left - wp.uint64(1))
                other = base + int(wp.bit_count((left ^ remaining) - wp.uint64(1)))
                left = remaining
                fresh = key(distance_to(coordinates, is_visible, env, other & LAST, position), other)
                if on_gpu():
                    for k in range(count - 1, 0, -1):
                        keys[k] = wp.min(keys[k], wp.max(keys[k - 1], fresh))
                    keys[0] = wp.min(keys[0], fresh)
                else:
                    if listed == ROOM:  # keep the nearest and continue after them
                        ordered = in_order(keys, listed)
                        listed = int(0)
                        while listed < count:
                            keys[listed & LAST] = ordered[listed & LAST]
                            listed += 1
                    keys[listed & LAST] = fresh
                    listed += 1
            base += 64
        if not on_gpu():
            keys = in_order(keys, listed)
        for slot in range(count):
            rows[env, agent, slot] = wp.where(keys[slot] == FAR, -1, row_of(keys[slot]))

    return nearest
