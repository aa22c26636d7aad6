"""Pursuit: pursuers catch evaders that walk at random, as in PettingZoo's SISL ``pursuit_v4``.

Cells are (x, y). Any number of pursuers and evaders may share a cell. Nobody enters the building in the middle.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, episode_key, keyed_stream
from warp_kernels.rules import Rules, agent_phase, item_phase, world_phase

LEFT: int = wp.constant(0)
"""Action to x - 1."""
RIGHT: int = wp.constant(1)
"""Action to x + 1."""
UP: int = wp.constant(2)
"""Action to y + 1."""
DOWN: int = wp.constant(3)
"""Action to y - 1."""
STAY: int = wp.constant(4)
"""Action that stays."""
NUM_ACTIONS = 5
"""Number of actions."""
NUM_SIDES = 4
"""Number of cells beside a cell, in the order of the actions."""

LAYERS = 3
"""Numbers per cell of an observation: wall, pursuers, evaders."""
MARGIN_X = 0.3
"""Share of the columns on each side of the building."""
MARGIN_Y = 0.2
"""Share of the rows on each side of the building."""

GUESSES = 32
"""Random cells that are tried for a start before all allowed ones are counted."""
APART: int = wp.constant(1)
"""Starts on an open cell of the window that is not beside an agent of the same kind."""
ANYWHERE: int = wp.constant(0)
"""Starts on any open cell of the window."""


@wp.struct
class Params:
    """Environment parameters."""

    tag_reward: float  # reward for an evader beside the pursuer
    catch_reward: float  # reward for catching an evader
    urgency_reward: float  # reward of every step
    n_catch: int  # pursuers that catch an evader by standing on its cell, without surround
    surround: int  # 1: evaders are caught when pursuers are on all open cells beside them
    shared_reward: int  # 1: every pursuer gets the mean of all rewards
    freeze_evaders: int  # 1: evaders stay
    constraint_window: float  # side of the random window in which all start, as a share of the map [1]


@wp.struct
class State:
    """State of E worlds, A pursuers, V evaders."""

    pursuer: wp.array2d(dtype=wp.vec2i)  # (E, A) x, y [cells]
    evader: wp.array2d(dtype=wp.vec2i)  # (E, V) x, y [cells]; where it was caught
    catch_step: wp.array2d(dtype=int)  # (E, V) step that caught the evader; 0: free
    tags: wp.array2d(dtype=int)  # (E, A) evaders beside the pursuer, summed over the moves of all pursuers
    catches: wp.array2d(dtype=int)  # (E, A) evaders that it helped to catch in this episode
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode


def building(size: int, margin: float) -> tuple[int, int]:
    """Return the first column (or row) of the building, and the one after its end; equal without a building."""
    cells = [cell for cell in range(size) if margin < cell / size < 1.0 - margin]
    return (cells[0], cells[-1] + 1) if cells else (0, 0)


@wp.func(inline=True)
def _side(cell: wp.vec2i, choice: int):
    """Return the cell where an action leads."""
    x = cell[0] + wp.where(choice == RIGHT, 1, 0) - wp.where(choice == LEFT, 1, 0)
    y = cell[1] + wp.where(choice == UP, 1, 0) - wp.where(choice == DOWN, 1, 0)
    return wp.vec2i(x, y)


@wp.func(inline=True)
def _same(cell: wp.vec2i, other: wp.vec2i):
    """Return whether two cells are equal."""
    return cell[0] == other[0] and cell[1] == other[1]


@wp.func(inline=True)
def _beside(cell: wp.vec2i, other: wp.vec2i):
    """Return whether two cells have a common side."""
    return wp.abs(cell[0] - other[0]) + wp.abs(cell[1] - other[1]) == 1


@cache
def rules(x_size: int, y_size: int, num_pursuers: int, num_evaders: int, obs_range: int) -> Rules:
    """Build the rules.

    Args:
        x_size: Number of columns.
        y_size: Number of rows.
        num_pursuers: Number of pursuers A.
        num_evaders: Number of evaders V.
        obs_range: Number of columns and rows of an observation.
    """
    left_edge, right_edge = building(x_size, MARGIN_X)
    bottom_edge, top_edge = building(y_size, MARGIN_Y)
    team_size = num_pursuers
    reach = (obs_range - 1) // 2
    across = 2 * reach + 1  # columns of an even range beyond these are walls

    @wp.func(inline=True)
    def is_inside(cell: wp.vec2i):
        """Return whether a cell is on the map."""
        return cell[0] >= 0 and cell[0] < x_size and cell[1] >= 0 and cell[1] < y_size

    @wp.func(inline=True)
    def is_building(cell: wp.vec2i):
        """Return whether the building is on a cell."""
        is_column = cell[0] >= left_edge and cell[0] < right_edge
        return is_column and cell[1] >= bottom_edge and cell[1] < top_edge

    @wp.func(inline=True)
    def walk(cell: wp.vec2i, choice: int):
        """Return the cell after an action; walls stop it."""
        ahead = _side(cell, choice)
        result = cell
        if is_inside(ahead) and not is_building(ahead):
            result = ahead
        return result

    @wp.func(inline=True)
    def count_tags(state: State, env: int, cell: wp.vec2i):
        """Return the number of free evaders beside a cell; sides beyond the map are the cell itself."""
        outside = int(0)
        for choice in range(NUM_SIDES):
            outside += wp.where(is_inside(_side(cell, choice)), 0, 1)
        tags = int(0)
        index = int(0)
        while index < num_evaders:
            if state.catch_step[env, index] == 0:
                evader = state.evader[env, index]
                tags += wp.where(_beside(cell, evader), 1, 0) + wp.where(_same(cell, evader), outside, 0)
            index += 1
        return tags

    @wp.func(inline=True)
    def chase(params: Params, state: State, io: IO, env: int, agent: int):
        """Move a pursuer; write its tags after the moves of pursuers 0, 1, ..., which PettingZoo rewards one by one."""
        cell = state.pursuer[env, agent]
        destination = walk(cell, int(io.choice[env, agent, 0]))
        tags = agent * count_tags(state, env, cell) + (num_pursuers - agent) * count_tags(state, env, destination)
        state.pursuer[env, agent] = destination
        state.tags[env, agent] = tags

    @wp.func(inline=True)
    def open_sides(cell: wp.vec2i):
        """Return the number of sides to surround; one less at both of two opposite edges, as in the original."""
        count = NUM_SIDES
        count -= wp.where(cell[0] == 0 or cell[0] == x_size - 1, 1, 0)
        count -= wp.where(cell[1] == 0 or cell[1] == y_size - 1, 1, 0)
        for choice in range(NUM_SIDES):
            count -= wp.where(is_building(_side(cell, choice)), 1, 0)
        return count

    @wp.func(inline=True)
    def is_caught(params: Params, state: State, env: int, cell: wp.vec2i):
        """Return whether pursuers surround a cell, or enough of them stand on it."""
        sides = int(0)
        count = int(0)
        agent = int(0)
        while agent < num_pursuers:
            pursuer = state.pursuer[env, agent]
            count += wp.where(_same(pursuer, cell), 1, 0)
            for choice in range(NUM_SIDES):
                sides |= wp.where(_same(pursuer, _side(cell, choice)), 1, 0) << choice
            agent += 1
        occupied = (sides & 1) + ((sides >> 1) & 1) + ((sides >> 2) & 1) + (sides >> 3)
        return wp.where(params.surround == 1, occupied == open_sides(cell), count >= params.n_catch)

    @wp.func(inline=True)
    def flee(params: Params, state: State, io: IO, env: int, index: int):
        """Write the step if pursuers have caught the evader; let it walk at random otherwise."""
        if state.catch_step[env, index] == 0:
            cell = state.evader[env, index]
            if is_caught(params, state, env, cell):
                state.catch_step[env, index] = io.step[env]
            elif params.freeze_evaders == 0:
                word = philox.bits(keyed_stream(io, env, state.key[env]), index, philox.STEP, 0)[0]
                state.evader[env, index] = walk(cell, philox.below(word, NUM_ACTIONS))

    @wp.func(inline=True)
    def count_catches(params: Params, state: State, io: IO, env: int, agent: int):
        """Return the number of evaders that the pursuer has caught in this step."""
        pursuer = state.pursuer[env, agent]
        count = int(0)
        index = int(0)
        while index < num_evaders:
            if state.catch_step[env, index] == io.step[env]:
                evader = state.evader[env, index]
                helps = wp.where(params.surround == 1, _beside(pursuer, evader), _same(pursuer, evader))
                count += wp.where(helps, 1, 0)
            index += 1
        return count

    @wp.func(inline=True)
    def settle(params: Params, state: State, io: IO, env: int):
        """Write catches, rewards, and the end if no evader is free.

        Sums are in float64, as in PettingZoo. An episode that reaches the time limit is truncated only.
        """
        size = wp.float64(team_size)
        total_tags = int(0)
        catchers = int(0)
        agent = int(0)
        while agent < num_pursuers:
            count = count_catches(params, state, io, env, agent)
            state.catches[env, agent] = state.catches[env, agent] + count
            tags = state.tags[env, agent]
            total_tags += tags
            helped = wp.where(count > 0, 1, 0)
            catchers += helped
            reward = wp.float64(params.tag_reward) * wp.float64(tags) / size
            reward += wp.float64(params.catch_reward) * wp.float64(helped)
            io.reward[env, agent] = float(reward + wp.float64(params.urgency_reward))
            agent += 1
        mean = wp.float64(params.tag_reward) * wp.float64(total_tags) / (size * size)
        mean += wp.float64(params.catch_reward) * wp.float64(catchers) / size + wp.float64(params.urgency_reward)
        free = int(0)
        index = int(0)
        while index < num_evaders:
            free += wp.where(state.catch_step[env, index] == 0, 1, 0)
            index += 1
        is_over = free == 0 and (io.max_steps == 0 or io.step[env] < io.max_steps)
        agent = int(0)
        while agent < num_pursuers:
            if params.shared_reward == 1:
                io.reward[env, agent] = float(mean)
            if is_over:
                io.terminated[env, agent] = True
            agent += 1

    @wp.func(inline=True)
    def observe_agents(state: State, io: IO, env: int, agent: int, corner: wp.vec2i, kind: int, cell: wp.vec2i):
        """Add 1 to the number of agents of a kind in a cell of the observation."""
        x = cell[0] - corner[0]
        y = cell[1] - corner[1]
        if x >= 0 and x < across and y >= 0 and y < across:
            column = (y * obs_range + x) * LAYERS + kind
            io.obs[env, agent, column] = io.obs[env, agent, column] + 1.0

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write wall, pursuers and evaders of the cells around the pursuer, row by row."""
        corner = state.pursuer[env, agent] - wp.vec2i(reach, reach)
        index = int(0)
        while index < obs_range * obs_range:
            x = index % obs_range
            y = index // obs_range
            cell = corner + wp.vec2i(x, y)
            is_open = x < across and y < across and is_inside(cell) and not is_building(cell)
            io.obs[env, agent, index * LAYERS] = wp.where(is_open, 0.0, 1.0)
            io.obs[env, agent, index * LAYERS + 1] = 0.0
            io.obs[env, agent, index * LAYERS + 2] = 0.0
            index += 1
        index = int(0)
        while index < num_pursuers:
            observe_agents(state, io, env, agent, corner, 1, state.pursuer[env, index])
            index += 1
        index = int(0)
        while index < num_evaders:
            if state.catch_step[env, index] == 0:
                observe_agents(state, io, env, agent, corner, 2, state.evader[env, index])
            index += 1

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write wall, pursuers and evaders of all cells, row by row."""
        if agent == 0:
            index = int(0)
            while index < x_size * y_size:
                is_wall = is_building(wp.vec2i(index % x_size, index // x_size))
                io.global_state[env, index * LAYERS] = wp.where(is_wall, 1.0, 0.0)
                io.global_state[env, index * LAYERS + 1] = 0.0
                io.global_state[env, index * LAYERS + 2] = 0.0
                index += 1
            index = int(0)
            while index < num_pursuers:
                cell = state.pursuer[env, index]
                column = (cell[1] * x_size + cell[0]) * LAYERS + 1
                io.global_state[env, column] = io.global_state[env, column] + 1.0
                index += 1
            index = int(0)
            while index < num_evaders:
                if state.catch_step[env, index] == 0:
                    cell = state.evader[env, index]
                    column = (cell[1] * x_size + cell[0]) * LAYERS + 2
                    io.global_state[env, column] = io.global_state[env, column] + 1.0
                index += 1

    @wp.func
    def is_allowed(agents: wp.array2d(dtype=wp.vec2i), env: int, cell: wp.vec2i, count: int, spacing: int):
        """Return whether a cell is open and, if asked, neither that of one of the first agents nor beside it."""
        result = not is_building(cell)
        index = int(0)
        while index < count and spacing == APART and result:
            other = agents[env, index]
            result = wp.abs(cell[0] - other[0]) + wp.abs(cell[1] - other[1]) > 1
            index += 1
        return result

    @wp.func
    def pick_cell(
        agents: wp.array2d(dtype=wp.vec2i),
        env: int,
        corner: wp.vec2i,
        size: wp.vec2i,
        count: int,
        spacing: int,
        word: wp.uint32,
    ):
        """Return a uniform cell among the allowed ones of a window; (-1, -1) if there is none."""
        allowed = int(0)
        index = int(0)
        while index < size[0] * size[1]:
            cell = corner + wp.vec2i(index % size[0], index // size[0])
            allowed += wp.where(is_allowed(agents, env, cell, count, spacing), 1, 0)
            index += 1
        rank = philox.below(word, allowed)
        result = wp.vec2i(-1, -1)
        index = int(0)
        while index < size[0] * size[1] and allowed > 0 and rank >= 0:
            cell = corner + wp.vec2i(index % size[0], index // size[0])
            if is_allowed(agents, env, cell, count, spacing):
                result = cell
                rank -= 1
            index += 1
        return result

    @wp.func
    def place_agents(
        agents: wp.array2d(dtype=wp.vec2i),
        env: int,
        corner: wp.vec2i,
        size: wp.vec2i,
        count: int,
        first: int,
        rng: philox.Stream,
    ):
        """Place agents of a kind one after another, apart from each other while there is room."""
        index = int(0)
        while index < count:
            cell = wp.vec2i(-1, -1)
            guess = int(0)
            while guess < GUESSES and cell[0] < 0:  # mostly faster than to count the allowed cells, and as uniform
                words = philox.bits(rng, first + index, philox.RESET, guess)
                x = philox.below(words[0], size[0])
                y = philox.below(words[1], size[1])
                if is_allowed(agents, env, corner + wp.vec2i(x, y), index, APART):
                    cell = corner + wp.vec2i(x, y)
                guess += 1
            word = philox.bits(rng, first + index, philox.RESET, GUESSES)
            if cell[0] < 0:
                cell = pick_cell(agents, env, corner, size, index, APART, word[0])
            if cell[0] < 0:
                cell = pick_cell(agents, env, corner, size, index, ANYWHERE, word[1])
            agents[env, index] = wp.max(cell, wp.vec2i(0, 0))  # rounding may choose an empty window
            index += 1

    @wp.func(inline=True)
    def window(size: int, share: float, word: wp.uint32):
        """Return the first column (or row) of a random window, and the one after its end."""
        start = wp.float64(philox.unit(word)) * (wp.float64(1.0) - wp.float64(share))
        end = start + wp.float64(share)
        return wp.vec2i(int(wp.float64(size) * start), int(wp.float64(size) * end))

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place pursuers, then evaders, in a random window."""
        words = philox.bits(rng, num_pursuers + num_evaders, philox.RESET, 0)
        columns = window(x_size, params.constraint_window, words[0])
        rows = window(y_size, params.constraint_window, words[1])
        corner = wp.vec2i(columns[0], rows[0])
        size = wp.vec2i(columns[1], rows[1]) - corner
        place_agents(state.pursuer, env, corner, size, num_pursuers, 0, rng)
        place_agents(state.evader, env, corner, size, num_evaders, num_pursuers, rng)
        index = int(0)
        while index < num_evaders:
            state.catch_step[env, index] = 0
            index += 1
        index = int(0)
        while index < num_pursuers:
            state.catches[env, index] = 0
            index += 1
        state.key[env] = episode_key(rng)

    return Rules(
        key=f"pursuit {x_size} {y_size} {num_pursuers} {num_evaders} {obs_range}",
        params=Params,
        state=State,
        num_agents=num_pursuers,
        action_size=1,
        continuous=False,
        phases=(
            agent_phase(chase, reads="pursuer evader catch_step io.choice", writes="pursuer tags"),
            item_phase(num_evaders, flee, reads="pursuer evader catch_step key io.step", writes="evader catch_step"),
            world_phase(
                settle,
                reads="pursuer evader catch_step tags catches io.step",
                writes="catches io.reward io.terminated",
            ),
        ),
        observe=observe,
        reset=reset,
        global_state=global_state,
        num_choices=NUM_ACTIONS,
        max_unroll=1,
    )
