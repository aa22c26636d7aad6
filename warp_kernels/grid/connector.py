"""Connector: agents connect pairs of cells by wires that may not cross, as in Jumanji 1.1.2.

Cells are (row, column) from the upper left corner. The values of cells are those of Jumanji: 0 is empty, and 1, 2 and 3
are wire, head and target of agent 0, 4, 5 and 6 those of agent 1, and so on.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, agent_phase, world_phase

EMPTY: int = wp.constant(0)
"""Value of an empty cell."""
WIRE: int = wp.constant(1)
"""Value of a cell that agent 0 has left."""
HEAD: int = wp.constant(2)
"""Value of the cell of agent 0."""
TARGET: int = wp.constant(3)
"""Value of the cell that agent 0 has to reach."""

UP: int = wp.constant(1)
"""Action to the row above."""
RIGHT: int = wp.constant(2)
"""Action to the column on the right."""
DOWN: int = wp.constant(3)
"""Action to the row below."""
LEFT: int = wp.constant(4)
"""Action to the column on the left."""
NUM_ACTIONS = 5
"""Number of actions; 0 stays."""

ANYWHERE: int = wp.constant(0)
"""Places in any empty cell."""
WITH_EXIT: int = wp.constant(1)
"""Places in an empty cell with an empty neighbor."""
BESIDE: int = wp.constant(2)
"""Places in an empty cell beside another cell."""

LAYERS = 5
"""Layers of an observation: heads, targets, wires, own head, own target."""
MAX_SIDE = 100
"""Largest number of rows."""


@wp.struct
class Params:
    """Environment parameters."""

    connected_reward: float  # reward of an agent for reaching its target
    timestep_reward: float  # reward of an agent for a step that begins without a connection
    shared_rewards: int  # 1: every agent gets the sum of all rewards
    uniform: int  # 1: heads and targets start in random cells, 0: targets are the ends of random walks
    temperature: float  # of the directions in these walks [cells]; low temperatures lead away from the start
    max_walk: int  # largest length of these walks [steps]


@wp.struct
class State:
    """State of E worlds, A agents, N x N cells."""

    grid: wp.array3d(dtype=int)  # (E, N, N) values of cells
    position: wp.array2d(dtype=wp.vec2i)  # (E, A) row, column of the head
    target: wp.array2d(dtype=wp.vec2i)  # (E, A) row, column of the target
    destination: wp.array2d(dtype=wp.vec2i)  # (E, A) cell of the head after the step if no other agent goes there
    connected: wp.array2d(dtype=int)  # (E, A) 1: the head is at its target
    length: wp.array2d(dtype=int)  # (E, A) cells of the wire with its head


@wp.func(inline=True)
def _neighbor(cell: wp.vec2i, choice: int):
    """Return the cell where an action leads."""
    row = cell[0] + wp.where(choice == DOWN, 1, 0) - wp.where(choice == UP, 1, 0)
    column = cell[1] + wp.where(choice == RIGHT, 1, 0) - wp.where(choice == LEFT, 1, 0)
    return wp.vec2i(row, column)


@wp.func(inline=True)
def _same(cell: wp.vec2i, other: wp.vec2i):
    """Return whether two cells are equal."""
    return cell[0] == other[0] and cell[1] == other[1]


@cache
def rules(num_agents: int, side: int) -> Rules:
    """Build the rules.

    Args:
        num_agents: Number of agents A.
        side: Number of rows and of columns N.
    """
    num_cells = side * side

    @wp.func(inline=True)
    def value(state: State, env: int, cell: wp.vec2i):
        """Return the value of a cell; -1 outside the grid."""
        result = int(-1)
        if cell[0] >= 0 and cell[0] < side and cell[1] >= 0 and cell[1] < side:
            result = state.grid[env, cell[0], cell[1]]
        return result

    @wp.func(inline=True)
    def exits(state: State, env: int, cell: wp.vec2i, target: int):
        """Return the directions that lead from a cell to an empty one, or to one with this value, as bits."""
        bits = int(0)
        for choice in range(1, NUM_ACTIONS):
            content = value(state, env, _neighbor(cell, choice))
            is_empty = content == EMPTY
            bits |= wp.where(is_empty or content == target, 1, 0) << choice
        return bits

    @wp.func(inline=True)
    def moves(state: State, env: int, agent: int):
        """Return the actions that move an agent, as bits."""
        bits = int(0)
        if state.connected[env, agent] == 0:
            bits = exits(state, env, state.position[env, agent], TARGET + 3 * agent)
        return bits

    @wp.func(inline=True)
    def aim(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the cell that the agent wants: its own one after an illegal action."""
        choice = int(io.choice[env, agent, 0])
        destination = state.position[env, agent]
        if (moves(state, env, agent) >> choice) & 1 == 1:
            destination = _neighbor(destination, choice)
        state.destination[env, agent] = destination

    @wp.func(inline=True)
    def is_last(state: State, env: int, agent: int):
        """Return whether no agent with a higher index wants the same cell."""
        result = bool(True)
        other = agent + 1
        while other < num_agents:
            result = result and not _same(state.destination[env, other], state.destination[env, agent])
            other += 1
        return result

    @wp.func(inline=True)
    def advance(state: State, env: int, agent: int):
        """Move a head to the cell that the agent wants, which becomes its wire."""
        cell = state.position[env, agent]
        destination = state.destination[env, agent]
        if not _same(cell, destination) and is_last(state, env, agent):
            state.grid[env, cell[0], cell[1]] = WIRE + 3 * agent
            state.grid[env, destination[0], destination[1]] = HEAD + 3 * agent
            state.position[env, agent] = destination
            state.length[env, agent] = state.length[env, agent] + 1

    @wp.func(inline=True)
    def move(params: Params, state: State, io: IO, env: int):
        """Move all heads; write connections, rewards, and the end if every agent is connected or blocked."""
        total = float(0.0)
        agent = int(0)
        while agent < num_agents:
            reward = float(0.0)
            if state.connected[env, agent] == 0:
                advance(state, env, agent)
                reward = params.timestep_reward
                if _same(state.position[env, agent], state.target[env, agent]):
                    state.connected[env, agent] = 1
                    reward += params.connected_reward
            total += reward
            io.reward[env, agent] = reward
            agent += 1
        done = bool(True)
        agent = int(0)
        while agent < num_agents:
            if params.shared_rewards == 1:
                io.reward[env, agent] = total
            done = done and moves(state, env, agent) == 0
            agent += 1
        if done:
            agent = int(0)
            while agent < num_agents:
                io.terminated[env, agent] = True
                agent += 1

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Allow to stay, and moves to empty cells and to the target."""
        bits = moves(state, env, agent) | 1
        for choice in range(NUM_ACTIONS):
            io.action_mask[env, agent, choice] = (bits >> choice) & 1 == 1

    @wp.func(inline=True)
    def write_layers(state: State, env: int, row: wp.array(dtype=float), index: int):
        """Write a cell of the layers of heads, targets and wires, and return its value."""
        content = state.grid[env, index // side, index % side]
        kind = content % 3  # 0: a target or an empty cell
        row[index] = wp.where(kind == HEAD, 1.0, 0.0)
        row[num_cells + index] = wp.where(kind == 0 and content > 0, 1.0, 0.0)
        row[2 * num_cells + index] = wp.where(kind == WIRE, 1.0, 0.0)
        return content

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the layers of heads, targets, wires, own head and own target, row by row."""
        index = int(0)
        while index < num_cells:
            content = write_layers(state, env, io.obs[env, agent], index)
            io.obs[env, agent, 3 * num_cells + index] = wp.where(content == HEAD + 3 * agent, 1.0, 0.0)
            io.obs[env, agent, 4 * num_cells + index] = wp.where(content == TARGET + 3 * agent, 1.0, 0.0)
            index += 1

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the layers of heads, targets and wires."""
        if agent == 0:
            index = int(0)
            while index < num_cells:
                write_layers(state, env, io.global_state[env], index)
                index += 1

    @wp.func
    def is_open(state: State, env: int, cell: wp.vec2i, region: int, start: wp.vec2i):
        """Return whether a cell is empty, and has an empty neighbor or is beside another cell if asked."""
        result = value(state, env, cell) == EMPTY
        if result and region == WITH_EXIT:
            result = exits(state, env, cell, EMPTY) != 0
        if region == BESIDE:
            result = result and wp.abs(cell[0] - start[0]) + wp.abs(cell[1] - start[1]) == 1
        return result

    @wp.func
    def random_cell(state: State, env: int, region: int, start: wp.vec2i, word: wp.uint32):
        """Return a uniform cell among the open ones."""
        count = int(0)
        index = int(0)
        while index < num_cells:
            count += wp.where(is_open(state, env, wp.vec2i(index // side, index % side), region, start), 1, 0)
            index += 1
        rank = philox.below(word, count)
        result = wp.vec2i(-1, -1)
        index = int(0)
        while index < num_cells and rank >= 0:
            cell = wp.vec2i(index // side, index % side)
            if is_open(state, env, cell, region, start):
                result = cell
                rank -= 1
            index += 1
        return result

    @wp.func
    def place_pairs(params: Params, state: State, env: int, rng: philox.Stream):
        """Write the first cell of every agent as its target, and another one as its head, beside it for a walk."""
        index = int(0)
        while index < 2 * num_agents:
            agent = index // 2
            is_first = index % 2 == 0
            words = philox.bits(rng, agent, philox.RESET, 0)
            region = wp.where(params.uniform == 1, ANYWHERE, wp.where(is_first, WITH_EXIT, BESIDE))
            cell = random_cell(state, env, region, state.target[env, agent], wp.where(is_first, words[0], words[1]))
            state.grid[env, cell[0], cell[1]] = wp.where(is_first, WIRE, HEAD) + 3 * agent
            if is_first:
                state.target[env, agent] = cell
            else:
                state.position[env, agent] = cell
            index += 1

    @wp.func
    def logit(params: Params, offset: wp.vec2i, choice: int):
        """Return the logit of a direction, by the offset from the start of a walk."""
        step = _neighbor(wp.vec2i(0, 0), choice)
        return float(step[0] * offset[0] + step[1] * offset[1]) / params.temperature

    @wp.func
    def walk(params: Params, state: State, env: int, agent: int, word: wp.uint32):
        """Write the cell where a random walk goes: directions away from the start are the more probable."""
        cell = state.position[env, agent]
        offset = cell - state.target[env, agent]
        bits = moves(state, env, agent)
        highest = float(-wp.inf)
        for choice in range(1, NUM_ACTIONS):
            if (bits >> choice) & 1 == 1:
                highest = wp.max(highest, logit(params, offset, choice))
        total = float(0.0)
        for choice in range(1, NUM_ACTIONS):
            if (bits >> choice) & 1 == 1:
                total += wp.exp(logit(params, offset, choice) - highest)
        threshold = philox.unit(word) * total
        state.destination[env, agent] = cell
        total = float(0.0)
        for choice in range(1, NUM_ACTIONS):
            if total <= threshold and (bits >> choice) & 1 == 1:
                total += wp.exp(logit(params, offset, choice) - highest)
                state.destination[env, agent] = _neighbor(cell, choice)

    @wp.func
    def walk_all(params: Params, state: State, env: int, rng: philox.Stream):
        """Let all agents walk at once until none can or the time is over."""
        steps = int(1)
        walking = bool(True)
        while walking and steps < params.max_walk:
            agent = int(0)
            while agent < num_agents:
                walk(params, state, env, agent, philox.bits(rng, agent, philox.RESET, steps)[0])
                agent += 1
            walking = bool(False)
            agent = int(0)
            while agent < num_agents:
                walking = walking or not _same(state.destination[env, agent], state.position[env, agent])
                advance(state, env, agent)
                agent += 1
            steps += 1

    @wp.func
    def clear(state: State, env: int):
        index = int(0)
        while index < num_cells:
            state.grid[env, index // side, index % side] = EMPTY
            index += 1

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place heads and targets; with random walks all pairs can be connected."""
        clear(state, env)
        agent = int(0)
        while agent < num_agents:
            state.connected[env, agent] = 0
            agent += 1
        place_pairs(params, state, env, rng)
        if params.uniform == 0:
            walk_all(params, state, env, rng)
        clear(state, env)
        agent = int(0)
        while agent < num_agents:
            head = state.target[env, agent]  # where the walk began
            target = state.position[env, agent]
            state.position[env, agent] = head
            state.target[env, agent] = target
            state.grid[env, head[0], head[1]] = HEAD + 3 * agent
            state.grid[env, target[0], target[1]] = TARGET + 3 * agent
            state.length[env, agent] = 1
            agent += 1

    return Rules(
        key=f"connector {num_agents} {side}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(
            agent_phase(aim, reads="grid position connected io.choice", writes="destination"),
            world_phase(
                move,
                reads="grid position target destination connected length",
                writes="grid position connected length io.reward io.terminated",
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        global_state=global_state,
        masked=True,
        illegal_noop=True,
        num_choices=NUM_ACTIONS,
        max_unroll=1,
    )
