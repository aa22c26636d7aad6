"""Random layouts: where wood and stone are at the start of an episode, and how they grow.

The scenarios "uniform", "quadrant" and "multi_zone" place sources by a probability of every cell, and let them spread
by random kernels of 7 x 7 cells until they cover enough of the world.
"""

from typing import Any

import warp as wp

from warp_kernels import helpers, philox
from warp_kernels.economy.gather_trade_build.economy_types import (
    GROWN,
    MORE,
    PRESENT,
    STONE,
    TERRAIN,
    WATER,
    WOOD,
    Params,
    Sizes,
    State,
    units_of,
)

_TRIES: int = wp.constant(100)  # attempts at a layout with the wanted coverage
_SHRINKS: int = wp.constant(201)  # times that the threshold of the first sources is raised
_BLOCKS: int = wp.constant(256)  # blocks of random words of a resource, one for every spread
_WORDS: int = wp.constant(2048)  # words of the cells, then the word of the kernel
_KERNEL: int = wp.constant(1024)
_FIRST_DRAW: int = wp.constant(2)  # draws 0 and 1 belong to agents
_ZONES: int = wp.constant(102)  # draw of the order of zones
_NEVER: float = wp.constant(1e30)
_TWO_PI: float = wp.constant(6.283185307179586)
_REACH: int = wp.constant(3)


def random_layouts(sizes: Sizes) -> tuple[Any, Any]:
    """Build ``place_resources``, for the start of an episode, and ``grow``, for every step."""
    height, width, zoned, halved = sizes.height, sizes.width, bool(sizes.zones), sizes.scenario == "quadrant"
    cells = height * width
    zone_rows, zone_columns, num_wood, num_stone, num_both = sizes.zones or (1, 1, 0, 0, 0)
    num_zones = zone_rows * zone_columns
    tall, wide = -(-height // zone_rows), -(-width // zone_columns)  # of a zone

    @wp.func
    def draw_zones(state: wp.ref[State], env: int, rng: philox.Stream):
        """Shuffle the zones: 0 has wood, 1 stone, 2 both, 3 nothing."""
        index = int(0)
        while index < num_zones:
            kind = wp.where(index < num_wood, 0, wp.where(index < num_wood + num_stone, 1, 2))
            state.zone[env, index] = wp.where(index < num_wood + num_stone + num_both, kind, 3)
            index += 1
        helpers.shuffle(state.zone, env, num_zones, rng, philox.RESET, _ZONES)

    @wp.func
    def in_zone(state: wp.ref[State], env: int, cell: int, kind: int):
        """Return whether the zone of a cell has a resource."""
        row = cell // width
        zone = state.zone[env, row // tall * zone_columns + (cell - row * width) // wide]
        return zone == 2 or zone == wp.where(kind == WOOD, 0, 1)

    @wp.func
    def zone_chance(state: wp.ref[State], env: int, kind: int):
        """Return the probability of a cell in the zones of a resource."""
        inside = int(0)
        cell = int(0)
        while cell < cells:
            inside += wp.where(in_zone(state, env, cell, kind), 1, 0)
            cell += 1
        return state.chance[0, WOOD - kind] * float(cells) / float(wp.max(inside, 1))

    @wp.func
    def first_sources(state: wp.ref[State], env: int, kind: int, first: int, draw: int, rng: philox.Stream):
        """Place the first sources on empty cells; return their number.

        A cell gets a source if its uniform number is below its probability. As long as too few do, all numbers shrink.
        """
        same = float(0.0)
        if wp.static(zoned):
            same = zone_chance(state, env, kind)
        word = wp.vec4ui()
        cell = int(0)
        while cell < cells:
            if cell % 4 == 0:
                word = philox.bits(rng, first + cell // 4, philox.RESET, draw)
            chance = same
            if wp.static(zoned):
                chance = wp.where(in_zone(state, env, cell, kind), same, 0.0)
            else:
                chance = state.chance[0, (WOOD - kind) * cells + cell]
            ratio = _NEVER
            if chance > 0.0 and (state.cell[env, cell] & TERRAIN) == 0:
                ratio = philox.unit(word[cell % 4]) / chance
            state.noise[env, cell] = ratio
            cell += 1
        target = state.coverage[0, 4 * (WOOD - kind)]
        threshold = float(1.0)
        count = int(-1)
        shrinks = int(0)
        while count < 0 or (count < target and shrinks < _SHRINKS):
            if count >= 0:
                threshold /= 0.9
                shrinks += 1
            count = int(0)
            cell = int(0)
            while cell < cells:
                count += wp.where(state.noise[env, cell] < threshold, 1, 0)
                cell += 1
        cell = int(0)
        while cell < cells:
            if state.noise[env, cell] < threshold:
                state.cell[env, cell] = state.cell[env, cell] | kind
            cell += 1
        return count

    @wp.func
    def draw_noise(state: wp.ref[State], env: int, kind: int, first: int, draw: int, rng: philox.Stream):
        """Write 1 for every source, with normal noise."""
        cell = int(0)
        while cell < cells:
            number = philox.uniform4(rng, first + cell // 4, philox.RESET, draw)
            index = cell
            while index < wp.min(cell + 4, cells):
                pair = (index - cell) // 2 * 2
                radius = 0.2 * wp.sqrt(-2.0 * wp.log(1.0 - number[pair]))
                angle = _TWO_PI * number[pair + 1]
                noise = radius * wp.where(index - cell == pair, wp.cos(angle), wp.sin(angle))
                source = (state.cell[env, index] & TERRAIN) == kind
                state.noise[env, index] = noise - 0.25 + wp.where(source, 1.0, 0.0)
                index += 1
            cell += 4

    @wp.func
    def spread(state: wp.ref[State], env: int, kind: int, word: wp.vec4ui):
        """Add sources to the empty cells where the sum over a random kernel is positive; return their number."""
        added = int(0)
        cell = int(0)
        while cell < cells:
            if (state.cell[env, cell] & TERRAIN) == 0:
                row = cell // width
                column = cell - row * width
                total = float(0.0)
                y = wp.max(-_REACH, -row)
                while y <= wp.min(_REACH, height - 1 - row):
                    x = wp.max(-_REACH, -column)
                    while x <= wp.min(_REACH, width - 1 - column):
                        bit = (y + _REACH) * (2 * _REACH + 1) + x + _REACH
                        if ((word[bit // 32] >> wp.uint32(bit % 32)) & wp.uint32(1)) == wp.uint32(1):
                            total += state.noise[env, cell + y * width + x]
                        x += 1
                    y += 1
                if total > 0.0:
                    state.cell[env, cell] = state.cell[env, cell] | kind
                    added += 1
            cell += 1
        return added

    @wp.func
    def place_sources(state: wp.ref[State], env: int, kind: int, attempt: int, rng: philox.Stream):
        """Place the sources of a resource; return whether their number is near the wanted one."""
        draw = _FIRST_DRAW + attempt
        first = (WOOD - kind) * _BLOCKS * _WORDS
        count = first_sources(state, env, kind, first, draw, rng)
        row = 4 * (WOOD - kind)
        block = int(1)
        while count < state.coverage[0, row + 1] and block < _BLOCKS:
            at = first + block * _WORDS
            draw_noise(state, env, kind, at, draw, rng)
            count += spread(state, env, kind, philox.bits(rng, at + _KERNEL, philox.RESET, draw))
            block += 1
        return count >= state.coverage[0, row + 2] and count <= state.coverage[0, row + 3]

    @wp.func
    def place_resources(params: Params, state: wp.ref[State], env: int, rng: philox.Stream):
        """Write the cells of a new episode: water, and sources with a unit each."""
        if wp.static(zoned):
            draw_zones(state, env, rng)
        near = bool(False)
        attempt = int(0)
        while attempt < _TRIES and not near:
            cell = int(0)
            while cell < cells:
                state.cell[env, cell] = 0
                cell += 1
            wood = place_sources(state, env, WOOD, attempt, rng)
            stone = place_sources(state, env, STONE, attempt, rng)
            near = wood and stone
            attempt += 1
        cell = int(0)
        while cell < cells:
            row = cell // width
            column = cell - row * width
            content = state.cell[env, cell]
            if params.checker_source_blocks == 1 and (row + column) % 2 == 0:
                content = int(0)
            if wp.static(halved):
                if row == width // 2 or column == height // 2:  # as in the original
                    content = int(0)
            if content != 0:
                content = content | PRESENT
            elif state.terrain[0, cell] == WATER:
                content = WATER
            state.cell[env, cell] = content
            cell += 1

    @wp.func
    def units_around(state: wp.ref[State], env: int, cell: int, kind: int, reach: int):
        """Return the sum over the cells around of the units of a resource, where a source counts at least 1."""
        row = cell // width
        column = cell - row * width
        total = int(0)
        y = wp.max(-reach, -row)
        while y <= wp.min(reach, height - 1 - row):
            x = wp.max(-reach, -column)
            while x <= wp.min(reach, width - 1 - column):
                near = state.cell[env, cell + y * width + x]
                if (near & TERRAIN) == kind:
                    total += wp.max(units_of(near), 1)
                x += 1
            y += 1
        return total

    @wp.func
    def grow(params: Params, state: wp.ref[State], env: int, rng: philox.Stream):
        """Let sources with fewer units than they can have grow; more units around them make it more probable."""
        word = wp.vec4ui()
        drawn = int(-1)
        changed = bool(False)
        cell = int(0)
        while cell < cells:
            kind = state.cell[env, cell] & TERRAIN
            if kind > 0 and kind != WATER:
                wood = kind == WOOD
                limit = wp.where(wood, params.wood_max_health, params.stone_max_health)
                if units_of(state.cell[env, cell]) < limit:
                    if drawn != cell // 4:
                        drawn = cell // 4
                        word = philox.bits(rng, drawn, philox.STEP, 1)
                    reach = wp.where(wood, params.wood_regen_halfwidth, params.stone_regen_halfwidth)
                    weight = wp.where(wood, params.wood_regen_weight, params.stone_regen_weight)
                    side = float(2 * reach + 1)
                    chance = weight / (side * side) * float(units_around(state, env, cell, kind, reach))
                    if philox.unit(word[cell % 4]) < chance:
                        state.cell[env, cell] = state.cell[env, cell] | GROWN
                        changed = True
            cell += 1
        cell = int(0)
        while changed and cell < cells:
            content = state.cell[env, cell]
            if (content & GROWN) != 0:
                state.cell[env, cell] = content - GROWN + wp.where((content & PRESENT) == 0, PRESENT, MORE)
            cell += 1

    return place_resources, grow
