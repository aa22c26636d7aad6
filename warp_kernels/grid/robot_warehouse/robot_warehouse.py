"""RobotWarehouse: robots carry requested shelves to goals and bring them back, as in rware 2.0.0.

Cells are (row, column) from the upper left corner. Every shelf is an entry of a grid, whether a robot carries it or
not: no two shelves are ever on one cell, and a robot that carries one is on its cell.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, keyed_stream
from warp_kernels.grid.robot_warehouse import observations
from warp_kernels.grid.robot_warehouse.start import start
from warp_kernels.rules import Rules, agent_phase, world_phase

FORWARD: int = wp.constant(1)
"""Action to the cell ahead."""
TURN_LEFT: int = wp.constant(2)
"""Action that turns left on the spot."""
TURN_RIGHT: int = wp.constant(3)
"""Action that turns right on the spot."""
TOGGLE_LOAD: int = wp.constant(4)
"""Action that picks up or puts down a shelf."""
NUM_ACTIONS = 5
"""Number of actions; 0 does nothing."""

UP: int = wp.constant(0)
"""Direction to the row above."""
DOWN: int = wp.constant(1)
"""Direction to the row below."""
LEFT: int = wp.constant(2)
"""Direction to the column on the left."""
RIGHT: int = wp.constant(3)
"""Direction to the column on the right."""

PLACE: int = wp.constant(0)
"""Cell of the floor where shelves may be put down."""
CORRIDOR: int = wp.constant(1)
"""Cell of the floor where shelves may only be carried."""
GOAL: int = wp.constant(2)
"""Cell of the floor where requested shelves are delivered."""

GLOBAL: int = wp.constant(0)
"""Rewards for a delivery to every robot."""
INDIVIDUAL: int = wp.constant(1)
"""Rewards to the robot that delivers."""
TWO_STAGE: int = wp.constant(2)
"""Half of the reward to the robot that delivers, half when it puts down the shelf."""


@wp.struct
class Params:
    """Environment parameters."""

    rows: int  # height of the warehouse [cells]
    columns: int  # width of the warehouse [cells]
    unrequested: int  # number of shelves that are not requested
    max_inactivity_steps: int  # steps without a delivery that end the episode; 0: none [steps]
    reward_type: int  # 0: global, 1: individual, 2: two-stage


@wp.struct
class State:
    """State of E worlds, A robots, R x C cells, G goals, N shelves."""

    row: wp.array2d(dtype=int)  # (E, A) [cells]
    column: wp.array2d(dtype=int)  # (E, A) [cells]
    direction: wp.array2d(dtype=int)  # (E, A) 0 up, 1 down, 2 left, 3 right
    load: wp.array2d(dtype=int)  # (E, A) 0: none, 1: a shelf, 2: with two-stage rewards, a shelf that it delivered
    deliveries: wp.array2d(dtype=int)  # (E, A) shelves that the robot has delivered in this episode
    message: wp.array2d(dtype=int)  # (E, A) bits sent with the last action; bit 0 is the first
    shelf: wp.array3d(dtype=wp.int8)  # (E, R, C) 0: no shelf, 1: a shelf, 2: a requested shelf
    inactive: wp.array(dtype=int)  # (E,) time since the last delivery [steps]
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random requests of this episode
    target: wp.array2d(dtype=wp.vec3i)  # (E, A) row, column wanted [cells]; 1 + robot there, 0: free, -1: it stays
    rank: wp.array2d(dtype=int)  # (E, A) robots in the longest queue behind it; then 1 + its entry of shelf if it moves
    first: wp.array2d(dtype=int)  # (E, A) 1: first of those who want its cell
    floor: wp.array3d(dtype=wp.int8)  # (E, R, C) 0: place of a shelf, 1: corridor, 2: goal
    goal: wp.array2d(dtype=wp.vec2i)  # (E, G) row, column of the goals, in the order of deliveries [cells]
    shelf_position: wp.array2d(dtype=wp.vec2i)  # (E, N) row, column of the shelves at the start [cells]


@cache
def rules(num_robots: int, message_bits: int, view: observations.View) -> Rules:
    """Build the rules.

    Args:
        num_robots: Number of robots A.
        message_bits: Number of bits that a robot sends with its action.
        view: Content of observations.
    """

    @wp.func(inline=True)
    def aim(params: Params, state: State, io: IO, env: int, agent: int):
        """Turn, send the message, and write the cell that the robot wants with the robot that is there."""
        choice = int(io.choice[env, agent, 0])
        row = state.row[env, agent]
        column = state.column[env, agent]
        way = state.direction[env, agent]
        follows = int(-1)
        if choice == FORWARD:
            row += wp.where(way == DOWN, 1, 0) - wp.where(way == UP, 1, 0)
            column += wp.where(way == RIGHT, 1, 0) - wp.where(way == LEFT, 1, 0)
            if row >= 0 and row < params.rows and column >= 0 and column < params.columns:
                follows = int(0)
                other = int(0)
                while other < num_robots:
                    if state.row[env, other] == row and state.column[env, other] == column:
                        follows = other + 1
                    other += 1
                if state.load[env, agent] > 0 and state.shelf[env, row, column] > wp.int8(0):
                    carried = bool(False)  # a robot carries the shelf of this cell, and may leave with it
                    if follows > 0:
                        carried = state.load[env, follows - 1] > 0
                    if not carried:
                        follows = int(-1)
        elif choice == TURN_LEFT:  # up, left, down, right
            way = wp.where(way < LEFT, wp.where(way == UP, LEFT, RIGHT), wp.where(way == LEFT, DOWN, UP))
            state.direction[env, agent] = way
        elif choice == TURN_RIGHT:
            way = wp.where(way < LEFT, wp.where(way == UP, RIGHT, LEFT), wp.where(way == LEFT, UP, DOWN))
            state.direction[env, agent] = way
        state.target[env, agent] = wp.vec3i(row, column, follows)
        if wp.static(message_bits > 0):
            message = int(0)
            bit = int(0)
            while bit < message_bits:
                message |= int(io.choice[env, agent, 1 + bit]) << bit
                bit += 1
            state.message[env, agent] = message

    @wp.func(inline=True)
    def rank_queues(state: State, env: int):
        """Write the longest queue behind every robot, and which robot is first among rivals for a cell.

        The first has the longest queue behind it; among equals, it has the lowest row.
        """
        agent = int(0)
        while agent < num_robots:
            state.rank[env, agent] = 0
            agent += 1
        agent = int(0)
        while agent < num_robots:
            ahead = state.target[env, agent][2]
            length = int(1)
            while ahead > 0 and length <= num_robots:  # a ring has no end
                state.rank[env, ahead - 1] = wp.max(state.rank[env, ahead - 1], length)
                ahead = state.target[env, ahead - 1][2]
                length += 1
            agent += 1
        agent = int(0)
        while agent < num_robots:
            target = state.target[env, agent]
            first = target[2] >= 0
            other = int(0)
            while other < num_robots and first:
                rival = state.target[env, other]
                if rival[2] >= 0 and rival[0] == target[0] and rival[1] == target[1]:
                    gap = state.rank[env, other] - state.rank[env, agent]
                    first = gap < 0 or (gap == 0 and other >= agent)
                other += 1
            state.first[env, agent] = wp.where(first, 1, 0)
            agent += 1

    @wp.func(inline=True)
    def can_move(state: State, env: int, agent: int):
        """Return whether the robot is in a ring of three or more, or in a queue of first ones to a free cell."""
        ahead = state.target[env, agent][2]
        first = state.first[env, agent] == 1
        length = int(1)
        while ahead > 0 and ahead != agent + 1 and length <= num_robots:
            first = first and state.first[env, ahead - 1] == 1
            ahead = state.target[env, ahead - 1][2]
            length += 1
        return (ahead == agent + 1 and length > 2) or (ahead == 0 and first)

    @wp.func(inline=True)
    def lift(state: State, env: int):
        """Take the shelves of robots that move off the grid; write rank."""
        agent = int(0)
        while agent < num_robots:
            moving = int(0)
            if can_move(state, env, agent):
                moving = int(1)
                if state.load[env, agent] > 0:
                    row = state.row[env, agent]
                    column = state.column[env, agent]
                    moving += int(state.shelf[env, row, column])
                    state.shelf[env, row, column] = wp.int8(0)
            state.rank[env, agent] = moving
            agent += 1

    @wp.func(inline=True)
    def place_robots(params: Params, state: State, io: IO, env: int):
        """Put robots and their shelves on the cells where they move; pick up and put down shelves."""
        agent = int(0)
        while agent < num_robots:
            moving = state.rank[env, agent]
            if moving > 0:
                target = state.target[env, agent]
                state.row[env, agent] = target[0]
                state.column[env, agent] = target[1]
                if moving > 1:
                    state.shelf[env, target[0], target[1]] = wp.int8(moving - 1)
            elif io.choice[env, agent, 0] == wp.int64(TOGGLE_LOAD):
                row = state.row[env, agent]
                column = state.column[env, agent]
                load = state.load[env, agent]
                if load == 0 and state.shelf[env, row, column] > wp.int8(0):
                    state.load[env, agent] = 1
                elif load > 0 and state.floor[env, row, column] == wp.int8(PLACE):
                    state.load[env, agent] = 0
                    io.reward[env, agent] = wp.where(load == 2, 0.5, 0.0)
            agent += 1

    @wp.func(inline=True)
    def request(params: Params, state: State, env: int, word: wp.uint32):
        """Request a random shelf among those that are not requested."""
        left = philox.below(word, params.unrequested)
        row = int(0)
        while row < params.rows and left >= 0:
            column = int(0)
            while column < params.columns and left >= 0:
                if state.shelf[env, row, column] == wp.int8(1):
                    if left == 0:
                        state.shelf[env, row, column] = wp.int8(2)
                    left -= 1
                column += 1
            row += 1

    @wp.func(inline=True)
    def deliver(params: Params, state: State, io: IO, env: int):
        """Deliver the requested shelves that are on goals, and request others; return how many are delivered."""
        delivered = int(0)
        index = int(0)
        while index < state.goal.shape[1]:
            goal = state.goal[env, index]
            if state.shelf[env, goal[0], goal[1]] == wp.int8(2):
                delivered += 1
                request(
                    params, state, env, philox.bits(keyed_stream(io, env, state.key[env]), index, philox.STEP, 0)[0]
                )
                state.shelf[env, goal[0], goal[1]] = wp.int8(1)
                agent = int(0)
                while agent < num_robots:
                    at_goal = state.row[env, agent] == goal[0] and state.column[env, agent] == goal[1]
                    reward = wp.where(at_goal, 1.0, 0.0)
                    state.deliveries[env, agent] = state.deliveries[env, agent] + wp.where(at_goal, 1, 0)
                    if params.reward_type == GLOBAL:
                        reward = float(1.0)
                    elif params.reward_type == TWO_STAGE and at_goal:
                        reward = float(0.5)
                        state.load[env, agent] = 2
                    io.reward[env, agent] = io.reward[env, agent] + reward
                    agent += 1
            index += 1
        return delivered

    @wp.func(inline=True)
    def work(params: Params, state: State, io: IO, env: int):
        """Move, pick up, put down and deliver; write inactive and the end after a long time without a delivery."""
        rank_queues(state, env)
        lift(state, env)
        place_robots(params, state, io, env)
        inactive = wp.where(deliver(params, state, io, env) > 0, 0, state.inactive[env] + 1)
        state.inactive[env] = inactive
        if params.max_inactivity_steps > 0 and inactive >= params.max_inactivity_steps:
            agent = int(0)
            while agent < num_robots:
                io.terminated[env, agent] = True
                agent += 1

    return Rules(
        key=f"robot_warehouse {num_robots} {message_bits} {view}",
        params=Params,
        state=State,
        num_agents=num_robots,
        action_size=1 + message_bits,
        continuous=False,
        phases=(
            agent_phase(aim, reads="row column direction load shelf io.choice", writes="direction message target"),
            world_phase(
                work,
                reads=(
                    "row column load deliveries shelf inactive key target rank first floor goal io.choice "
                    "io.reward io.step"
                ),
                writes="row column load deliveries shelf inactive rank first io.reward io.terminated",
            ),
        ),
        observe=observations.observe(Params, State, num_robots, message_bits, view),
        reset=start(Params, State, num_robots),
        global_state=observations.global_state(Params, State, num_robots, message_bits),
        num_choices=0 if message_bits else NUM_ACTIONS,
        max_unroll=1,  # unrolled, eight robots compile three times as long, and step no faster
    )
