"""Start of an episode of RobotWarehouse: all shelves on their places, random requests, robots on random cells."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import episode_key


def start(params: type, state: type, num_robots: int) -> Any:
    """Build the reset of a world.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct with ``row``, ``column``, ``direction``, ``load``, ``deliveries``, ``message``, ``shelf``,
            ``inactive``, ``key``, ``floor`` and ``shelf_position``.
        num_robots: Number of robots A.
    """
    Params, State = params, state

    @wp.func
    def place_shelves(params: Params, state: State, env: int, rng: philox.Stream):
        """Put all shelves on their places, and request some: every choice of them is equally likely (Floyd 1987)."""
        row = int(0)
        while row < params.rows:
            column = int(0)
            while column < params.columns:
                shelf = wp.where(state.floor[env, row, column] == wp.int8(0), 1, 0)
                state.shelf[env, row, column] = wp.int8(shelf)
                column += 1
            row += 1
        last = int(params.unrequested)
        while last < state.shelf_position.shape[1]:
            word = philox.bits(rng, last, philox.RESET, 1)
            cell = state.shelf_position[env, philox.below(word[0], last + 1)]
            if state.shelf[env, cell[0], cell[1]] == wp.int8(2):
                cell = state.shelf_position[env, last]
            state.shelf[env, cell[0], cell[1]] = wp.int8(2)
            last += 1

    @wp.func
    def place_robots(params: Params, state: State, env: int, rng: philox.Stream):
        """Put robots on different random cells, in random directions."""
        agent = int(0)
        while agent < num_robots:
            word = philox.bits(rng, agent, philox.RESET, 0)
            rank = philox.below(word[0], params.rows * params.columns - agent)  # among the free cells
            cell = int(-1)
            occupied = int(0)
            while cell != rank + occupied:
                cell = rank + occupied
                occupied = int(0)
                other = int(0)
                while other < agent:
                    other_cell = state.row[env, other] * params.columns + state.column[env, other]
                    occupied += wp.where(other_cell <= cell, 1, 0)
                    other += 1
            row = cell // params.columns
            state.row[env, agent] = row
            state.column[env, agent] = cell - row * params.columns
            state.direction[env, agent] = philox.below(word[1], 4)
            state.load[env, agent] = 0
            state.deliveries[env, agent] = 0
            state.message[env, agent] = 0
            agent += 1

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place shelves and robots."""
        place_shelves(params, state, env, rng)
        place_robots(params, state, env, rng)
        state.inactive[env] = 0
        state.key[env] = episode_key(rng)

    return reset
