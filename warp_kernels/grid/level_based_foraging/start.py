"""Start of an episode of LevelBasedForaging: random cells and levels of players and foods."""

from typing import Any

import warp as wp

from warp_kernels import philox


def start(params: type, state: type, num_players: int, num_foods: int) -> Any:
    """Build the reset of a world.

    Every random cell is uniform among the cells that are allowed, in the order of the original: all players, then food
    after food. A food is on an inner cell, and no other food is next to it, diagonally next to it, or two cells away in
    its row or column. So no cell is next to two foods, and the order in which players load does not matter.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct with ``player``, ``food``, ``spawned``, ``player_levels`` and ``food_levels``.
        num_players: Number of players A.
        num_foods: Number of foods F.
    """
    Params, State = params, state

    @wp.func
    def place_players(params: Params, state: State, env: int, rng: philox.Stream):
        """Place players on different random cells; their levels become a random order of 0 .. A - 1."""
        agent = int(0)
        while agent < num_players:
            word = philox.bits(rng, agent, philox.RESET, 0)
            rank = philox.below(word[0], params.rows * params.columns - agent)  # among the free cells
            cell = int(-1)
            occupied = int(0)
            while cell != rank + occupied:
                cell = rank + occupied
                occupied = int(0)
                for other in range(agent):
                    other_player = state.player[env, other]
                    occupied += wp.where(other_player[0] * params.columns + other_player[1] <= cell, 1, 0)
            swap = philox.below(word[1], agent + 1)
            row = cell // params.columns
            state.player[env, agent] = wp.vec3i(row, cell - row * params.columns, agent)
            if swap < agent:
                other_player = state.player[env, swap]
                state.player[env, agent] = wp.vec3i(row, cell - row * params.columns, other_player[2])
                state.player[env, swap] = wp.vec3i(other_player[0], other_player[1], agent)
            agent += 1

    @wp.func
    def is_free(state: State, env: int, row: int, column: int, placed: int):
        """Return whether a food may be placed on an inner cell, after some others."""
        free = bool(True)
        for agent in range(num_players):
            player = state.player[env, agent]
            free = free and (player[0] != row or player[1] != column)
        other = int(0)
        while other < placed:
            food = state.food[env, other]
            rows = wp.abs(food[0] - row)
            columns = wp.abs(food[1] - column)
            free = free and rows + columns > 2  # the cells up to two steps away
            other += 1
        return free

    @wp.func
    def pick_free(state: State, env: int, high: int, wide: int, placed: int, word: wp.uint32):
        """Return a random free cell, numbered row by row within the inner high x wide cells; -1 if none is free."""
        count = int(0)
        sweep = int(0)
        chosen = int(-1)
        while sweep < 2 and (sweep == 0 or count > 0):  # count the free cells, then find the one of a random rank
            rank = philox.below(word, count)
            cell = int(0)
            while cell < high * wide and chosen < 0:
                if is_free(state, env, 1 + cell // wide, 1 + cell % wide, placed):
                    if sweep == 0:
                        count += 1
                    else:
                        chosen = wp.where(rank == 0, cell, -1)
                        rank -= 1
                cell += 1
            sweep += 1
        return chosen

    @wp.func
    def place_foods(params: Params, state: State, env: int, rng: philox.Stream):
        """Place foods on random cells while there is room; their levels become a random order. Return their number."""
        high = params.rows - 2
        wide = params.columns - 2
        placed = int(0)
        index = int(0)
        while index < num_foods:
            chosen = int(-1)
            guess = philox.bits(rng, index, philox.RESET, 1)
            attempt = int(0)
            while attempt < 4 and chosen < 0:  # faster than to count the free cells, and as uniform
                cell = philox.below(guess[attempt], high * wide)
                if is_free(state, env, 1 + cell // wide, 1 + cell % wide, placed):
                    chosen = cell
                attempt += 1
            word = philox.bits(rng, index, philox.RESET, 2)
            if chosen < 0:
                chosen = pick_free(state, env, high, wide, placed, word[0])
            row = 1 + chosen // wide
            column = 1 + chosen % wide
            if chosen < 0:
                row = 0
                column = 0
            swap = philox.below(word[1], index + 1)
            order = index
            if swap < index:
                other_food = state.food[env, swap]
                order = other_food[2]
                state.food[env, swap] = wp.vec3i(other_food[0], other_food[1], index)
            state.food[env, index] = wp.vec3i(row, column, order)
            if chosen >= 0:
                placed += 1
            index += 1
        return placed

    @wp.func
    def set_levels(params: Params, state: State, env: int, placed: int, rng: philox.Stream):
        """Replace the order of players and foods by their levels; write the sum of all levels of food."""
        first = int(2147483647)  # the three lowest levels
        second = int(2147483647)
        third = int(2147483647)
        for agent in range(num_players):
            player = state.player[env, agent]
            levels = state.player_levels[env, player[2]]
            word = philox.bits(rng, agent, philox.RESET, 0)
            level = levels[0] + philox.below(word[2], levels[1] - levels[0] + 1)
            state.player[env, agent] = wp.vec3i(player[0], player[1], level)
            third = wp.min(third, wp.max(second, level))
            second = wp.min(second, wp.max(first, level))
            first = wp.min(first, level)
        together = first
        if wp.static(num_players > 1):
            together += second
        if wp.static(num_players > 2):
            together += third
        total = int(0)
        for index in range(num_foods):
            food = state.food[env, index]
            levels = state.food_levels[env, food[2]]
            highest = wp.where(params.levels_of_players == 1, together, levels[1])
            lowest = wp.where(params.force_coop == 1, highest, wp.min(levels[0], highest))
            word = philox.bits(rng, index, philox.RESET, 2)
            level = lowest + philox.below(word[2], highest - lowest + 1)
            if index >= placed:
                level = 0
            state.food[env, index] = wp.vec3i(food[0], food[1], level)
            total += level
        state.spawned[env] = total

    @wp.func
    def sort_foods(state: State, env: int, placed: int):
        """Sort foods by row and column, the order in which they are observed."""
        index = int(1)
        while index < placed:
            food = state.food[env, index]
            slot = index
            moving = bool(True)
            while slot > 0 and moving:
                previous = state.food[env, slot - 1]
                moving = previous[0] > food[0] or (previous[0] == food[0] and previous[1] > food[1])
                if moving:
                    state.food[env, slot] = previous
                    slot -= 1
            state.food[env, slot] = food
            index += 1

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place players and foods, then sample their levels."""
        place_players(params, state, env, rng)
        placed = place_foods(params, state, env, rng)
        set_levels(params, state, env, placed, rng)
        sort_foods(state, env, placed)

    return reset
