"""Who is nearest: keys that put agents in one order, and a search through all of them.

``warp_kernels/cells.py`` has the search for crowds, with the same answers bit for bit.
"""

from typing import Any

import warp as wp

from warp_kernels.rules import LAST

FAR = wp.constant(wp.uint64(0xFFFFFFFFFFFFFFFF))
"""Key of nobody, behind every other."""
FINITE = wp.constant(3.4028234e38)
"""The largest float that is a number."""


@wp.func(inline=True)
def distance(a: wp.vec2, b: wp.vec2):
    """Between two places [m]."""
    dx = a[0] - b[0]
    dy = a[1] - b[1]
    return wp.sqrt(dx * dx + dy * dy)


@wp.func(inline=True)
def key(dist: float, row: int):
    """Keys order by distance (positive floats order like their bits), then by row."""
    return (wp.uint64(wp.cast(dist, wp.uint32)) << wp.uint64(32)) | wp.uint64(row)


@wp.func(inline=True)
def distance_of(packed: wp.uint64):
    """Distance of a key [m]; NaN for nobody."""
    return wp.cast(wp.uint32(packed >> wp.uint64(32)), float)


@wp.func(inline=True)
def row_of(packed: wp.uint64):
    """Row of a key."""
    return int(packed & wp.uint64(0x7FFFFFFF))


def sweep(num_agents: int, count: int) -> Any:
    """Build the search for the nearest ``count`` through all, for as many agents as a grid does not pay for.

    Those found last time are close still. How far they are now bounds how far the nearest can be, and that leaves a
    handful to put in order. The first loop is laid out for a CPU's vector units: plain numbers at strides that are
    known, and no branches.
    """
    ROOM = -(-(count + 4) // 8) * 8  # keys put in order at once
    Keys = wp.types.vector(length=ROOM, dtype=wp.uint64)
    Places = wp.types.vector(length=ROOM, dtype=int)
    SPAN = min(num_agents, 32)

    @wp.func(inline=True)
    def in_order(keys: Keys, listed: int):
        """Sort by counting: a key's place is how many are smaller."""
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
        place: wp.array3d(dtype=float), seen: wp.array2d(dtype=wp.bool), env: int, other: int, here: wp.vec2
    ):
        """Distance of another agent, infinite where it is hidden."""
        dx = place[env, other, 0] - here[0]
        dy = place[env, other, 1] - here[1]
        return wp.where(seen[env, other], wp.sqrt(dx * dx + dy * dy), wp.inf)

    @wp.func(inline=True)
    def within(
        place: wp.array3d(dtype=float),
        seen: wp.array2d(dtype=wp.bool),
        env: int,
        here: wp.vec2,
        bound: float,
        first: int,
        base: int,
    ):
        """Bits of a span of agents within the bound, bit 0 for row ``base``."""
        begin = wp.min(first, num_agents - SPAN)
        bits = wp.uint32(0)
        i = int(0)
        while i < SPAN:
            dist = distance_to(place, seen, env, begin + i, here)
            bits = bits | wp.where(dist <= bound, wp.uint32(1) << wp.uint32(i), wp.uint32(0))
            i += 1
        left = wp.uint64(bits) << wp.uint64(wp.max(begin - base, 0))
        return left >> wp.uint64(wp.max(base - begin, 0))

    @wp.func(inline=True)
    def nearest(
        pos: wp.array2d(dtype=wp.vec2),
        shown: wp.array2d(dtype=wp.bool),
        near: wp.array3d(dtype=int),
        env: int,
        agent: int,
    ):
        """Keys of the nearest to an agent, not counting itself. ``near`` holds their rows, last time's before."""
        place = wp.array(ptr=pos.ptr, shape=(pos.shape[0], num_agents, 2), dtype=float)
        seen = wp.array(ptr=shown.ptr, shape=(pos.shape[0], num_agents), dtype=wp.bool)
        here = pos[env, agent]
        bound = float(0.0)
        for slot in range(count):
            row = near[env, agent, slot]
            dist = distance_to(place, seen, env, wp.max(row, 0), here)
            bound = wp.max(bound, wp.where(row < 0, wp.inf, dist))
        bound = wp.min(bound, FINITE)  # nobody who is hidden
        found = Keys(FAR)
        listed = int(0)
        base = int(0)
        while base < num_agents:
            left = within(place, seen, env, here, bound, base, base)
            if wp.static(num_agents > 32):
                left = left | within(place, seen, env, here, bound, base + 32, base)
            own = wp.uint64(1) << wp.uint64(agent & 63)
            left = left & ~wp.where(agent >> 6 == base >> 6, own, wp.uint64(0))
            while left != wp.uint64(0):
                rest = left & (left - wp.uint64(1))
                other = base + int(wp.bit_count((left ^ rest) - wp.uint64(1)))
                left = rest
                if listed == ROOM:  # keep the nearest, go on behind them
                    kept = in_order(found, listed)
                    listed = int(0)
                    while listed < count:
                        found[listed & LAST] = kept[listed & LAST]
                        listed += 1
                dist = distance_to(place, seen, env, other & LAST, here)
                found[listed & LAST] = key(dist, other)
                listed += 1
            base += 64
        ordered = in_order(found, listed)
        for slot in range(count):
            near[env, agent, slot] = wp.where(ordered[slot] == FAR, -1, row_of(ordered[slot]))
        return ordered

    return nearest
