"""Functions that rules of environments often need: random orders, free cells, contacts, rays, views of a grid.

They are Warp functions. Rules call them in phases and resets::

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        for card in range(52):
            state.deck[env, card] = card
        helpers.shuffle(state.deck, env, 52, rng, philox.RESET, 0)

A grid is an array (E, rows, columns) of integers, in which 0 is a free cell.
"""

import warp as wp

from warp_kernels import philox


@wp.func
def split(rng: philox.Stream, agent: int, purpose: int, draw: int) -> philox.Stream:
    """Return another random stream, whose key is drawn from a stream; for more than 256 draws of an agent.

    ``philox.bits(split(rng, agent, philox.STEP, 0), index, philox.STEP, 0)`` is draw ``index``, below 2^20, of the
    agent. The draw of ``rng`` with these arguments may not be used otherwise.
    """
    word = philox.bits(rng, agent, purpose, draw)
    stream = philox.Stream()
    stream.seed = (wp.uint64(word[0]) << wp.uint64(32)) | wp.uint64(word[1])
    stream.world = wp.uint32(0)
    stream.episode = wp.uint32(0)
    stream.step = wp.uint32(0)
    return stream


@wp.func
def shuffle(values: wp.array2d(dtype=int), env: int, count: int, rng: philox.Stream, purpose: int, draw: int):
    """Bring ``values[env, :count]`` into a random order; every order is equally likely (Durstenfeld 1964).

    It uses this draw of the agents 0 to ``count - 1``; other numbers of the same purpose take another draw.

    Args:
        values: Numbers, (E, at least count).
        env: World.
        count: Number of values, up to 2^20.
        rng: Random stream.
        purpose: Purpose of the draws, such as ``philox.RESET``.
        draw: Draw, 0 to 255.
    """
    last = count - 1
    while last > 0:
        other = philox.below(philox.bits(rng, last, purpose, draw)[0], last + 1)
        value = values[env, last]
        values[env, last] = values[env, other]
        values[env, other] = value
        last -= 1


@wp.func
def sample_without_replacement(
    values: wp.array2d(dtype=int), env: int, count: int, bound: int, rng: philox.Stream, purpose: int, draw: int
):
    """Write ``count`` different integers of 0 to ``bound - 1`` into ``values[env, :count]``.

    Every such sequence is equally likely. It needs no memory for the ``bound`` integers; its time grows with the square
    of ``count``. It uses this draw of the agents 0 to ``count - 1``.

    Args:
        values: Result, (E, at least count).
        env: World.
        count: Number of integers, at most ``bound``.
        bound: Number of integers to choose from.
        rng: Random stream.
        purpose: Purpose of the draws, such as ``philox.RESET``.
        draw: Draw, 0 to 255.
    """
    index = int(0)
    while index < count:
        rank = philox.below(philox.bits(rng, index, purpose, draw)[0], bound - index)  # among the integers left
        value = int(-1)
        smaller = int(0)
        while value != rank + smaller:
            value = rank + smaller
            smaller = int(0)
            earlier = int(0)
            while earlier < index:
                smaller += wp.where(values[env, earlier] <= value, 1, 0)
                earlier += 1
        values[env, index] = value
        index += 1


@wp.func
def random_free_cell(grid: wp.array3d(dtype=int), env: int, word: wp.uint32) -> wp.vec2i:
    """Return row and column of a random free cell, each equally likely; (-1, -1) if no cell is free.

    A reset that places several things marks each cell in the grid before it looks for the next.

    Args:
        grid: Grid, (E, rows, columns); 0 is free.
        env: World.
        word: Random word, such as ``philox.bits(rng, agent, philox.RESET, 0)[0]``.
    """
    columns = int(grid.shape[2])
    cells = int(grid.shape[1]) * columns
    free = int(0)
    cell = int(0)
    while cell < cells:
        free += wp.where(grid[env, cell // columns, cell % columns] == 0, 1, 0)
        cell += 1
    if free == 0:
        return wp.vec2i(-1, -1)
    rank = philox.below(word, free)
    cell = int(-1)
    while rank >= 0:
        cell += 1
        rank -= wp.where(grid[env, cell // columns, cell % columns] == 0, 1, 0)
    return wp.vec2i(cell // columns, cell % columns)


@wp.func
def disc_contact(center: wp.vec2, radius: float, other: wp.vec2, other_radius: float) -> wp.vec3:
    """Return the contact of a disc with another: the unit normal (x, y) from the other to it, and the overlap.

    The overlap is negative for discs that are apart: minus the gap. Discs with equal centers have the normal (1, 0).

    Args:
        center: Center of the disc.
        radius: Its radius.
        other: Center of the other disc.
        other_radius: Radius of the other disc.
    """
    delta = center - other
    distance = wp.length(delta)
    normal = wp.vec2(1.0, 0.0)
    if distance > 0.0:
        normal = delta / distance
    return wp.vec3(normal[0], normal[1], radius + other_radius - distance)


@wp.func
def ray_to_disc(origin: wp.vec2, direction: wp.vec2, center: wp.vec2, radius: float) -> float:
    """Return the distance along a ray to a disc: 0 within the disc, infinity if the ray misses it.

    Args:
        origin: Start of the ray.
        direction: Its direction, of length 1.
        center: Center of the disc.
        radius: Radius of the disc.
    """
    offset = center - origin
    along = wp.dot(offset, direction)
    across = offset[0] * direction[1] - offset[1] * direction[0]
    reach = radius * radius - across * across
    if wp.length(offset) <= radius:
        return 0.0
    if along < 0.0 or reach < 0.0:
        return float(wp.inf)
    return along - wp.sqrt(reach)


@wp.func
def ray_to_wall(origin: wp.vec2, direction: wp.vec2, start: wp.vec2, end: wp.vec2) -> float:
    """Return the distance along a ray to a straight wall; infinity if the ray misses it or is parallel to it.

    Args:
        origin: Start of the ray.
        direction: Its direction, of length 1.
        start: One end of the wall.
        end: Other end of the wall.
    """
    wall = end - start
    offset = start - origin
    turn = direction[0] * wall[1] - direction[1] * wall[0]
    if turn == 0.0:
        return float(wp.inf)
    distance = (offset[0] * wall[1] - offset[1] * wall[0]) / turn
    share = (offset[0] * direction[1] - offset[1] * direction[0]) / turn
    if distance < 0.0 or share < 0.0 or share > 1.0:
        return float(wp.inf)
    return distance


@wp.func
def write_view(
    obs: wp.array3d(dtype=float),
    env: int,
    agent: int,
    first: int,
    grid: wp.array3d(dtype=int),
    row: int,
    column: int,
    facing: int,
    radius: int,
    kinds: int,
    outside: int,
) -> int:
    """Write what an agent sees of a grid: the square of cells around it, turned so that it looks to the first row.

    Every cell takes ``kinds`` numbers: 1 for the cell's integer, and 0 for all others.

    Args:
        obs: ``io.obs``, (E, A, D).
        env: World.
        agent: Agent.
        first: Column of ``obs`` that the view starts at.
        grid: Grid, (E, rows, columns), of integers 0 to ``kinds - 1``; others are seen as zeros.
        row: Row of the agent.
        column: Column of the agent.
        facing: Direction that it looks to: 0 the first row, 1 the last column, 2 the last row, 3 the first column.
        radius: Number of cells that it sees in every direction; the view has 2 radius + 1 rows and columns.
        kinds: Number of different integers.
        outside: Integer that cells outside the grid are seen as.

    Returns:
        The column after the view, ``first + (2 radius + 1)^2 kinds``.
    """
    width = 2 * radius + 1
    index = int(0)
    while index < width * width:
        ahead = radius - index // width
        right = index % width - radius
        down = -ahead
        across = right
        if facing == 1:
            down = right
            across = ahead
        elif facing == 2:
            down = ahead
            across = -right
        elif facing == 3:
            down = -right
            across = -ahead
        code = outside
        if row + down >= 0 and row + down < grid.shape[1] and column + across >= 0 and column + across < grid.shape[2]:
            code = grid[env, row + down, column + across]
        kind = int(0)
        while kind < kinds:
            obs[env, agent, first + index * kinds + kind] = wp.where(kind == code, 1.0, 0.0)
            kind += 1
        index += 1
    return first + width * width * kinds
