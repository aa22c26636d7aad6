"""CommonsHarvest: agents eat apples that regrow faster beside other apples, as in SocialJax (August 2026).

The game is Commons Harvest of Melting Pot; SocialJax is by Guo et al. 2026, "SocialJax: An evaluation suite for
multi-agent reinforcement learning in sequential social dilemmas". Cells are (row, column). The values of cells are
those of SocialJax: 0 is empty, 1 a wall, 2 a beam, 3 an apple, and 6, 7 and so on are agents.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, episode_key, keyed_stream
from warp_kernels.rules import Rules, world_phase

EMPTY: int = wp.constant(0)
"""Value of an empty cell."""
WALL: int = wp.constant(1)
"""Value of a wall."""
BEAM: int = wp.constant(2)
"""Value of an empty cell that a zap hits; it blocks moves in the next step."""
APPLE: int = wp.constant(3)
"""Value of an apple."""
RIPE: int = wp.constant(4)
"""Value of an apple that regrows in this step, until all neighbors are counted."""
AGENT: int = wp.constant(6)
"""Value of agent 0."""

TURN_LEFT: int = wp.constant(0)
"""Action that turns from +row to +column."""
TURN_RIGHT: int = wp.constant(1)
"""Action that turns from +column to +row."""
LEFT: int = wp.constant(2)
"""Action to the next column, whatever the heading."""
RIGHT: int = wp.constant(3)
"""Action to the previous column."""
UP: int = wp.constant(4)
"""Action to the next row."""
DOWN: int = wp.constant(5)
"""Action to the previous row."""
ZAP: int = wp.constant(7)
"""Action that hits agents ahead; action 6 stays."""
NUM_ACTIONS = 8
"""Number of actions."""

VIEW = 11
"""Rows and columns of an observation."""
LAYERS: int = wp.constant(15)
"""Numbers of a cell in an observation."""

REGROWTH_ONE: float = wp.constant(0.001)
"""Probability that an apple regrows in a step with one apple around."""
REGROWTH_TWO: float = wp.constant(0.005)
"""Probability with two apples around."""
REGROWTH_MANY: float = wp.constant(0.025)
"""Probability with three or more apples around."""


@wp.struct
class Params:
    """Environment parameters."""

    shared_rewards: int  # 1: every agent gets the sum of all apples, 0: A for an apple that it eats itself
    num_inner_steps: int  # length of an episode [steps]


@wp.struct
class State:
    """State of E worlds, A agents, R rows, C columns, K cells of apples, S cells of spawns."""

    grid: wp.array3d(dtype=int)  # (E, R, C) values of cells
    position: wp.array2d(dtype=wp.vec2i)  # (E, A) row, column
    heading: wp.array2d(dtype=int)  # (E, A) 0: +row, 1: +column, 2: -row, 3: -column
    next_position: wp.array2d(dtype=wp.vec2i)  # (E, A) cell where the next step begins: a spawn after a hit
    next_heading: wp.array2d(dtype=int)  # (E, A) heading with which the next step begins
    destination: wp.array2d(dtype=wp.vec2i)  # (E, A) cell where the agent wants to go
    moving: wp.array2d(dtype=int)  # (E, A) 0: stays, 1: may still move, 2: loses its move in this pass
    priority: wp.array2d(dtype=int)  # (E, A) random number that decides conflicts
    zapped: wp.array2d(dtype=int)  # (E, A) 1: a zap hit the agent in this step
    apples: wp.array2d(dtype=int)  # (E, A) apples eaten in the episode
    apple_steps: wp.array2d(dtype=int)  # (E, A) sum of the steps at which the agent ate apples
    hits: wp.array2d(dtype=int)  # (E, A) steps in which a zap hit the agent
    apples_left: wp.array2d(dtype=int)  # (E, A) apples in the grid
    efficiency: wp.array2d(dtype=float)  # (E, A) apples eaten per step by all agents
    equality: wp.array2d(dtype=float)  # (E, A) 1 minus the Gini coefficient of apples eaten
    sustainability: wp.array2d(dtype=float)  # (E, A) mean over agents of the mean step at which they ate
    peace: wp.array2d(dtype=float)  # (E, A) mean number of agents that no zap hit
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode
    start: wp.array3d(dtype=int)  # (E, R, C) walls and apples at the start
    apple_cell: wp.array2d(dtype=wp.vec2i)  # (E, K) cells where apples grow
    inner_spawn: wp.array2d(dtype=wp.vec2i)  # (E, I) cells of the first agents at the start
    spawn: wp.array2d(dtype=wp.vec2i)  # (E, S) cells of other agents at the start, and of agents after a hit


@wp.func(inline=True)
def _same(cell: wp.vec2i, other: wp.vec2i):
    """Return whether two cells are equal."""
    return cell[0] == other[0] and cell[1] == other[1]


@wp.func(inline=True)
def _ahead(heading: int):
    """Return the step to the next cell in a direction."""
    row = wp.where(heading == 0, 1, 0) - wp.where(heading == 2, 1, 0)
    column = wp.where(heading == 1, 1, 0) - wp.where(heading == 3, 1, 0)
    return wp.vec2i(row, column)


@cache
def rules(num_agents: int, rows: int, columns: int, sizes: tuple[int, int, int], channels_first: bool) -> Rules:
    """Build the rules.

    Args:
        num_agents: Number of agents A.
        rows: Number of rows R.
        columns: Number of columns C.
        sizes: Number of cells of apples K, of inner spawns I, and of spawns S.
        channels_first: Order observations by layer, then by cell, instead of by cell, then by layer.
    """
    num_apples, num_inner, num_spawns = sizes

    @wp.func(inline=True)
    def is_inside(cell: wp.vec2i):
        """Return whether a cell is in the grid."""
        return cell[0] >= 0 and cell[0] < rows and cell[1] >= 0 and cell[1] < columns

    @wp.func(inline=True)
    def value(state: State, env: int, cell: wp.vec2i):
        """Return the value of a cell; a wall outside the grid."""
        result = int(WALL)
        if is_inside(cell):
            result = state.grid[env, cell[0], cell[1]]
        return result

    @wp.func(inline=True)
    def write(state: State, env: int, cell: wp.vec2i, content: int):
        """Write the value of a cell."""
        state.grid[env, cell[0], cell[1]] = content

    @wp.func
    def apples_around(state: State, env: int, cell: wp.vec2i):
        """Return the number of apples within two steps, as SocialJax counts them.

        It takes the neighbor (+1, -1) of a cell in the last row from that row, and none of a cell in the last column.
        """
        count = int(0)
        for row in range(-2, 3):
            for column in range(-2, 3):
                distance = wp.abs(row) + wp.abs(column)
                neighbor = wp.vec2i(cell[0] + row, cell[1] + column)
                if row == 1 and column == -1:
                    neighbor = wp.vec2i(wp.min(neighbor[0], rows - 1), neighbor[1])
                    distance = wp.where(cell[1] == columns - 1, 0, distance)
                if distance > 0 and distance < 3:
                    count += wp.where(value(state, env, neighbor) == APPLE, 1, 0)
        return count

    @wp.func
    def regrow(state: State, env: int, rng: philox.Stream):
        """Let apples regrow in empty cells; beams and agents leave cells of apples empty."""
        index = int(0)
        while index < num_apples:
            cell = state.apple_cell[env, index]
            content = value(state, env, cell)
            if content == EMPTY:
                count = apples_around(state, env, cell)
                if count > 0:
                    probability = wp.where(count == 1, REGROWTH_ONE, wp.where(count == 2, REGROWTH_TWO, REGROWTH_MANY))
                    if philox.unit(philox.bits(rng, index, philox.STEP, 0)[0]) < probability:
                        write(state, env, cell, RIPE)
            elif content != APPLE:
                write(state, env, cell, EMPTY)
            index += 1
        index = int(0)
        while index < num_apples:
            if value(state, env, state.apple_cell[env, index]) == RIPE:
                write(state, env, state.apple_cell[env, index], APPLE)
            index += 1

    @wp.func
    def stamp(state: State, env: int):
        """Move agents from their cells to the next ones in the grid."""
        for agent in range(num_agents):
            write(state, env, state.position[env, agent], EMPTY)
        for agent in range(num_agents):
            cell = state.next_position[env, agent]
            state.position[env, agent] = cell
            state.heading[env, agent] = state.next_heading[env, agent]
            write(state, env, cell, AGENT + agent)

    @wp.func
    def aim(state: State, env: int, agent: int, choice: int, word: wp.uint32):
        """Turn an agent; write where it wants to go: beams, walls and the border block it, agents do not yet."""
        turn = wp.where(choice == TURN_LEFT, 1, wp.where(choice == TURN_RIGHT, 3, 0))
        state.next_heading[env, agent] = (state.heading[env, agent] + turn) % 4
        cell = state.position[env, agent]
        row = cell[0] + wp.where(choice == UP, 1, 0) - wp.where(choice == DOWN, 1, 0)
        column = cell[1] + wp.where(choice == LEFT, 1, 0) - wp.where(choice == RIGHT, 1, 0)
        destination = wp.vec2i(row, column)
        content = value(state, env, destination)
        if content != EMPTY and content < APPLE:  # a wall or a beam
            destination = cell
        state.destination[env, agent] = destination
        state.moving[env, agent] = wp.where(_same(cell, destination), 0, 1)
        state.priority[env, agent] = int(word >> wp.uint32(1))

    @wp.func
    def loses(state: State, env: int, agent: int):
        """Return whether an agent must stay: another one stays in its cell, wins it, or wants to swap with it."""
        destination = state.destination[env, agent]
        priority = state.priority[env, agent]
        result = bool(False)
        for other in range(num_agents):
            if other != agent:
                if state.moving[env, other] == 0:
                    result = result or _same(state.position[env, other], destination)
                else:
                    target = state.destination[env, other]
                    number = state.priority[env, other]
                    wins = number > priority or (number == priority and other > agent)
                    result = result or (wins and _same(target, destination))
                    swaps = _same(target, state.position[env, agent])
                    result = result or (swaps and _same(state.position[env, other], destination))
        return result

    @wp.func
    def resolve(state: State, env: int):
        """Take moves back, all at once, until no two agents are in one cell."""
        changed = bool(True)
        while changed:
            changed = bool(False)
            for agent in range(num_agents):
                if state.moving[env, agent] != 0 and loses(state, env, agent):
                    state.moving[env, agent] = 2
                    changed = bool(True)
            for agent in range(num_agents):
                if state.moving[env, agent] == 2:
                    state.moving[env, agent] = 0
        for agent in range(num_agents):
            state.next_position[env, agent] = state.position[env, agent]
            if state.moving[env, agent] != 0:
                state.next_position[env, agent] = state.destination[env, agent]

    @wp.func(inline=True)
    def target(state: State, env: int, agent: int, index: int):
        """Return one of four cells of a zap: ahead, two ahead, and to both sides of the first.

        A side outside the grid is the cell ahead. As in SocialJax, cells before the first row or column are those at
        the other end; cells after the last ones are not in the grid.
        """
        heading = state.heading[env, agent]
        step = _ahead(heading)
        cell = state.position[env, agent] + step
        if index == 1:
            cell = cell + step
        if index > 1:
            side = cell + _ahead((heading + wp.where(index == 2, 1, 3)) % 4)
            if is_inside(side):
                cell = side
        row = cell[0] + wp.where(cell[0] < 0, rows, 0)
        column = cell[1] + wp.where(cell[1] < 0, columns, 0)
        return wp.vec2i(row, column)

    @wp.func
    def shines(state: State, io: IO, env: int, agent: int, index: int, cell: wp.vec2i):
        """Return whether a beam shows in a cell; the target of a later agent that does not zap hides it."""
        result = is_inside(cell) and value(state, env, cell) == EMPTY
        other = agent + 1
        while other < num_agents:
            if int(io.choice[env, other, 0]) != ZAP:
                result = result and not _same(target(state, env, other, index), cell)
            other += 1
        return result

    @wp.func
    def zap(state: State, io: IO, env: int):
        """Clear beams, mark the agents that zaps hit, and write the new beams.

        A zap over the last row or column reads the cells there, where it hits the agent itself.
        """
        for row in range(rows):
            for column in range(columns):
                if state.grid[env, row, column] == BEAM:
                    state.grid[env, row, column] = EMPTY
        for agent in range(num_agents):
            state.zapped[env, agent] = 0
        for agent in range(num_agents):
            if int(io.choice[env, agent, 0]) == ZAP:
                for index in range(4):
                    cell = target(state, env, agent, index)
                    content = value(state, env, wp.vec2i(wp.min(cell[0], rows - 1), wp.min(cell[1], columns - 1)))
                    if content >= AGENT:
                        state.zapped[env, content - AGENT] = 1
        for agent in range(num_agents):
            if int(io.choice[env, agent, 0]) == ZAP:
                for index in range(4):
                    cell = target(state, env, agent, index)
                    if shines(state, io, env, agent, index, cell):
                        write(state, env, cell, BEAM)

    @wp.func
    def is_free(state: State, env: int, agent: int, cell: wp.vec2i):
        """Return whether no agent without a hit is in a spawn, and no agent before this one was placed there."""
        result = bool(True)
        for other in range(num_agents):
            if state.zapped[env, other] == 0 or other < agent:
                result = result and not _same(state.next_position[env, other], cell)
        return result

    @wp.func
    def respawn(state: State, env: int, agent: int, words: wp.vec4ui):
        """Choose a free spawn at random, and one of the headings 0, 1 and 2."""
        count = int(0)
        index = int(0)
        while index < num_spawns:
            count += wp.where(is_free(state, env, agent, state.spawn[env, index]), 1, 0)
            index += 1
        rank = philox.below(words[1], count)
        index = int(0)
        while index < num_spawns and rank >= 0:
            cell = state.spawn[env, index]
            if is_free(state, env, agent, cell):
                if rank == 0:
                    state.next_position[env, agent] = cell
                rank -= 1
            index += 1
        state.next_heading[env, agent] = philox.below(words[2], 3)

    @wp.func
    def measure(state: State, io: IO, env: int):
        """Write efficiency, equality, sustainability and peace of the episode so far, and the apples left."""
        steps = float(io.step[env])
        total = int(0)
        gaps = int(0)
        hits = int(0)
        times = float(0.0)
        for agent in range(num_agents):
            apples = state.apples[env, agent]
            total += apples
            hits += state.hits[env, agent]
            if apples > 0:
                times += float(state.apple_steps[env, agent]) / float(apples)
            for other in range(num_agents):
                gaps += wp.abs(apples - state.apples[env, other])
        left = int(0)
        index = int(0)
        while index < num_apples:
            left += wp.where(value(state, env, state.apple_cell[env, index]) == APPLE, 1, 0)
            index += 1
        for agent in range(num_agents):
            state.efficiency[env, agent] = float(total) / steps
            state.equality[env, agent] = 1.0 - float(gaps) / float(wp.max(1, 2 * num_agents * total))
            state.sustainability[env, agent] = times / float(num_agents)
            state.peace[env, agent] = float(num_agents) - float(hits) / steps
            state.apples_left[env, agent] = left

    @wp.func
    def act(params: Params, state: State, io: IO, env: int):
        """Let apples regrow, move and feed agents, zap, and choose the cells of the agents that were hit."""
        rng = keyed_stream(io, env, state.key[env])
        regrow(state, env, rng)
        stamp(state, env)
        for agent in range(num_agents):
            word = philox.bits(rng, agent, philox.STEP, 1)[0]
            aim(state, env, agent, int(io.choice[env, agent, 0]), word)
        resolve(state, env)
        total = float(0.0)
        for agent in range(num_agents):
            eats = value(state, env, state.next_position[env, agent]) == APPLE
            if eats:
                state.apples[env, agent] = state.apples[env, agent] + 1
                state.apple_steps[env, agent] = state.apple_steps[env, agent] + io.step[env]
            io.reward[env, agent] = wp.where(eats, float(num_agents), 0.0)
            total += wp.where(eats, 1.0, 0.0)
        stamp(state, env)
        zap(state, io, env)
        for agent in range(num_agents):
            if state.zapped[env, agent] == 1:
                state.hits[env, agent] = state.hits[env, agent] + 1
                respawn(state, env, agent, philox.bits(rng, agent, philox.STEP, 1))
            if params.shared_rewards == 1:
                io.reward[env, agent] = total
            if io.step[env] == params.num_inner_steps:
                io.reward[env, agent] = 0.0
        measure(state, io, env)

    @wp.func(inline=True)
    def seen_cell(position: wp.vec2i, heading: int, row: int, column: int):
        """Return the cell in a row and column of a view, turned as SocialJax turns it.

        The agent is in column 5, in row 1 of headings 0 and 2, which look to larger rows of the view, and in row 9 of
        headings 1 and 3, which look to smaller ones.
        """
        cell = wp.vec2i(position[0] - 1 + row, position[1] - 5 + column)
        if heading == 1:
            cell = wp.vec2i(position[0] - 5 + column, position[1] + 9 - row)
        if heading == 2:
            cell = wp.vec2i(position[0] + 1 - row, position[1] + 5 - column)
        if heading == 3:
            cell = wp.vec2i(position[0] + 5 - column, position[1] - 9 + row)
        return cell

    @wp.func(inline=True)
    def show(io: IO, env: int, agent: int, index: int, layer: int, number: float):
        """Write a number of a cell."""
        if wp.static(channels_first):
            io.obs[env, agent, layer * VIEW * VIEW + index] = number
        else:
            io.obs[env, agent, index * LAYERS + layer] = number

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the cells in sight.

        As in SocialJax, layer 5 marks the agent with the next index, where the count of the own apples is; for the last
        agent it marks that agent, with the count of the previous one.
        """
        heading = state.heading[env, agent]
        marked = wp.min(agent + 1, num_agents - 1)
        apples = float(state.apples[env, marked - 1])
        index = int(0)
        while index < VIEW * VIEW:
            cell = seen_cell(state.position[env, agent], heading, index // VIEW, index % VIEW)
            content = value(state, env, cell)
            for layer in range(5):
                show(io, env, agent, index, layer, wp.where(content == layer + 1, 1.0, 0.0))
            other = content - AGENT
            angle = int(-1)
            ate = float(0.0)
            if other >= 0:
                ate = wp.where(state.apples[env, other] > 0, 1.0, 0.0)
                if other != agent:
                    angle = (state.heading[env, other] - heading + 4) % 4
            show(io, env, agent, index, 5, wp.where(other == marked, 1.0, 0.0))
            show(io, env, agent, index, 6, wp.where(other >= 0 and other != marked, 1.0, 0.0))
            for direction in range(4):
                show(io, env, agent, index, 7 + direction, wp.where(angle == direction, 1.0, 0.0))
            show(io, env, agent, index, 11, ate)
            show(io, env, agent, index, 12, wp.where(other == marked, apples, 0.0))
            show(io, env, agent, index, 13, wp.where(other == marked, apples, 0.0))
            show(io, env, agent, index, 14, 0.0)
            index += 1

    @wp.func
    def place(state: State, env: int, agent: int, word: wp.uint32):
        """Choose a cell for an agent at the start: inner spawns first, then the others, each uniformly."""
        is_inner = agent < num_inner
        size = wp.where(is_inner, num_inner, num_spawns)
        placed = wp.where(is_inner, agent, agent - num_inner)
        rank = philox.below(word, size - placed)
        index = int(0)
        while index < size and rank >= 0:
            cell = wp.vec2i(0, 0)
            if is_inner:
                cell = state.inner_spawn[env, index]
            else:
                cell = state.spawn[env, index]
            if value(state, env, cell) < AGENT:
                if rank == 0:
                    state.position[env, agent] = cell
                rank -= 1
            index += 1
        write(state, env, state.position[env, agent], AGENT + agent)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Let all apples grow, place agents, and clear the counts."""
        state.key[env] = episode_key(rng)
        for row in range(rows):
            for column in range(columns):
                state.grid[env, row, column] = state.start[env, row, column]
        for agent in range(num_agents):
            words = philox.bits(rng, agent, philox.RESET, 0)
            place(state, env, agent, words[0])
            state.heading[env, agent] = philox.below(words[1], 3)
            state.next_position[env, agent] = state.position[env, agent]
            state.next_heading[env, agent] = state.heading[env, agent]
            state.zapped[env, agent] = 0
            state.apples[env, agent] = 0
            state.apple_steps[env, agent] = 0
            state.hits[env, agent] = 0
            state.apples_left[env, agent] = num_apples
            state.efficiency[env, agent] = 0.0
            state.equality[env, agent] = 1.0
            state.sustainability[env, agent] = 0.0
            state.peace[env, agent] = float(num_agents)

    counts = "apples apple_steps hits"
    moved = "grid position heading next_position next_heading"
    scratch = "destination moving priority zapped"
    return Rules(
        key=f"commons_harvest {num_agents} {rows} {columns} {sizes} {channels_first}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                act,
                reads=f"{moved} {scratch} {counts} key apple_cell spawn io.choice io.step",
                writes=(f"{moved} {scratch} {counts} apples_left efficiency equality sustainability peace io.reward"),
            ),
        ),
        observe=observe,
        reset=reset,
        num_choices=NUM_ACTIONS,
        max_unroll=1,
    )
