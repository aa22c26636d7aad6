"""LevelBasedForaging: players with levels collect food with levels on a grid, as in lbforaging 2.0.0.

A food is loaded if the levels of the players who load it add up to its level. Cells are (row, column) from the upper
left corner.
"""

from functools import cache

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.grid.level_based_foraging.start import start
from warp_kernels.rules import Rules, agent_phase, world_phase

NORTH: int = wp.constant(1)
"""Action to the row above."""
SOUTH: int = wp.constant(2)
"""Action to the row below."""
WEST: int = wp.constant(3)
"""Action to the column on the left."""
EAST: int = wp.constant(4)
"""Action to the column on the right."""
LOAD: int = wp.constant(5)
"""Action that loads the adjacent food."""
NUM_ACTIONS = 6
"""Number of actions; 0 stays."""


@wp.struct
class Params:
    """Environment parameters."""

    rows: int  # height of the field [cells]
    columns: int  # width of the field [cells]
    sight: int  # largest distance along an axis at which cells are observed [cells]
    force_coop: int  # 1: every food has its highest possible level
    levels_of_players: int  # 1: the highest level of food is the sum of the three lowest levels of players
    normalize_reward: int  # 1: the rewards of an episode in which all food is loaded add up to 1
    penalty: float  # subtracted from the reward of players who fail to load


@wp.struct
class State:
    """State of E worlds, A players, F foods."""

    player: wp.array2d(dtype=wp.vec3i)  # (E, A) row [cells], column [cells], level
    food: wp.array2d(dtype=wp.vec3i)  # (E, F) row [cells], column [cells], level; level 0: not there; in row order
    spawned: wp.array(dtype=int)  # (E,) sum of all levels of food at the start
    target: wp.array2d(dtype=wp.vec3i)  # (E, A) row and column that the player wants [cells], 1 + food it loads or 0
    player_levels: wp.array2d(dtype=wp.vec2i)  # (E, A) lowest and highest level, assigned to players at random
    food_levels: wp.array2d(dtype=wp.vec2i)  # (E, F) lowest and highest level, assigned to foods at random


def observation_width(num_players: int, num_foods: int, grid_sight: int, observe_levels: bool) -> int:
    """Return the width of an observation: a list of foods and players, or three layers of (2 sight + 1)^2 cells."""
    if grid_sight:
        return 3 * (2 * grid_sight + 1) ** 2
    return 3 * num_foods + (3 if observe_levels else 2) * num_players


@wp.func(inline=True)
def _adjacent(row: int, column: int, thing: wp.vec3i):
    """Return whether a player or food is north, south, west or east of a cell."""
    return wp.abs(thing[0] - row) + wp.abs(thing[1] - column) == 1


@cache
def rules(num_players: int, num_foods: int, grid_sight: int, observe_levels: bool, masked: bool) -> Rules:
    """Build the rules.

    Args:
        num_players: Number of players A.
        num_foods: Number of foods F.
        grid_sight: Sight of observations as layers of cells; 0 for a list of foods and players.
        observe_levels: Observe the levels of players.
        masked: Report which actions have an effect.
    """
    per_player = 3 if observe_levels else 2
    first_player = 3 * num_foods
    across = 2 * grid_sight + 1
    layer = across * across

    @wp.func(inline=True)
    def aim(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the cell that the player wants, and the food that it loads; an action without effect is the no-op."""
        choice = int(io.choice[env, agent, 0])
        player = state.player[env, agent]
        row = player[0] + wp.where(choice == SOUTH, 1, 0) - wp.where(choice == NORTH, 1, 0)
        column = player[1] + wp.where(choice == EAST, 1, 0) - wp.where(choice == WEST, 1, 0)
        free = row >= 0 and row < params.rows and column >= 0 and column < params.columns
        loads = int(0)
        best = int(LOAD)  # north before south, west and east, where several foods are adjacent
        for index in range(num_foods):
            food = state.food[env, index]
            if food[2] > 0:
                free = free and (food[0] != row or food[1] != column)
                if choice == LOAD and _adjacent(player[0], player[1], food):
                    side = wp.where(food[1] == player[1], wp.where(food[0] < player[0], NORTH, SOUTH), WEST)
                    side = wp.where(food[1] > player[1], EAST, side)
                    if side < best:
                        best = side
                        loads = index + 1
        state.target[env, agent] = wp.vec3i(wp.where(free, row, player[0]), wp.where(free, column, player[1]), loads)

    @wp.func(inline=True)
    def forage(params: Params, state: State, io: IO, env: int):
        """Move players whose cell no other player wants, then load; write player, food, rewards and terminated."""
        for agent in range(num_players):
            target = state.target[env, agent]
            claims = int(0)
            for other in range(num_players):
                other_target = state.target[env, other]
                claims += wp.where(other_target[0] == target[0] and other_target[1] == target[1], 1, 0)
            if claims == 1:
                state.player[env, agent] = wp.vec3i(target[0], target[1], state.player[env, agent][2])
        agent = int(0)
        while agent < num_players:  # compiles faster than an unrolled loop
            index = state.target[env, agent][2] - 1
            if index >= 0:  # players with lower rows do not load this food, or this player would have loaded with them
                food = state.food[env, index]
                total = int(0)
                for other in range(num_players):
                    other_target = state.target[env, other]
                    if other_target[2] > 0 and _adjacent(other_target[0], other_target[1], food):
                        total += state.player[env, other][2]
                share = -params.penalty
                if total >= food[2]:
                    share = float(food[2])
                    if params.normalize_reward == 1:
                        share = share / (float(total) * float(state.spawned[env]))
                    state.food[env, index] = wp.vec3i(food[0], food[1], 0)
                for other in range(num_players):
                    other_target = state.target[env, other]
                    if other_target[2] > 0 and _adjacent(other_target[0], other_target[1], food):
                        state.target[env, other] = wp.vec3i(other_target[0], other_target[1], 0)
                        level = float(state.player[env, other][2])
                        io.reward[env, other] = wp.where(total >= food[2], level * share, share)
            agent += 1
        left = int(0)
        for index in range(num_foods):
            left += state.food[env, index][2]
        if left == 0:
            for agent in range(num_players):
                io.terminated[env, agent] = True

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Allow moves to cells of the field without food, and loading beside food."""
        player = state.player[env, agent]
        row = player[0]
        column = player[1]
        north = row > 0
        south = row < params.rows - 1
        west = column > 0
        east = column < params.columns - 1
        load = bool(False)
        for index in range(num_foods):
            food = state.food[env, index]
            if food[2] > 0 and _adjacent(row, column, food):
                load = True
                north = north and food[0] >= row
                south = south and food[0] <= row
                west = west and food[1] >= column
                east = east and food[1] <= column
        io.action_mask[env, agent, 0] = True
        io.action_mask[env, agent, 1] = north
        io.action_mask[env, agent, 2] = south
        io.action_mask[env, agent, 3] = west
        io.action_mask[env, agent, 4] = east
        io.action_mask[env, agent, 5] = load

    @wp.func(inline=True)
    def observe_player(state: State, io: IO, env: int, agent: int, slot: int, player: wp.vec3i, top: int, left: int):
        column = first_player + per_player * slot
        io.obs[env, agent, column] = float(player[0] - top)
        io.obs[env, agent, column + 1] = float(player[1] - left)
        if wp.static(observe_levels):
            io.obs[env, agent, column + 2] = float(player[2])

    @wp.func(inline=True)
    def observe_list(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the visible foods, then the own row, then the other visible players, relative to the visible window."""
        observer = state.player[env, agent]
        top = wp.max(observer[0] - params.sight, 0)
        left = wp.max(observer[1] - params.sight, 0)
        slot = int(0)
        for index in range(num_foods):
            food = state.food[env, index]
            far = wp.max(wp.abs(food[0] - observer[0]), wp.abs(food[1] - observer[1]))
            if food[2] > 0 and far <= params.sight:
                io.obs[env, agent, 3 * slot] = float(food[0] - top)
                io.obs[env, agent, 3 * slot + 1] = float(food[1] - left)
                io.obs[env, agent, 3 * slot + 2] = float(food[2])
                slot += 1
        while slot < num_foods:
            io.obs[env, agent, 3 * slot] = -1.0
            io.obs[env, agent, 3 * slot + 1] = -1.0
            io.obs[env, agent, 3 * slot + 2] = 0.0
            slot += 1
        observe_player(state, io, env, agent, 0, observer, top, left)
        slot = int(1)
        for index in range(num_players):
            player = state.player[env, index]
            near = wp.min(player[0] - top, player[1] - left)
            far = wp.max(player[0] - top, player[1] - left)
            if index != agent and near >= 0 and far <= 2 * params.sight:
                observe_player(state, io, env, agent, slot, player, top, left)
                slot += 1
        while slot < num_players:
            observe_player(state, io, env, agent, slot, wp.vec3i(-1, -1, 0), 0, 0)
            slot += 1

    @wp.func(inline=True)
    def observe_grid(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the layers of players, foods and free cells around the own cell, row by row."""
        observer = state.player[env, agent]
        top = observer[0] - grid_sight
        left = observer[1] - grid_sight
        cell = int(0)
        while cell < layer:
            row = top + cell // across
            column = left + cell % across
            inside = row >= 0 and row < params.rows and column >= 0 and column < params.columns
            io.obs[env, agent, cell] = 0.0
            io.obs[env, agent, layer + cell] = 0.0
            io.obs[env, agent, 2 * layer + cell] = wp.where(inside, 1.0, 0.0)
            cell += 1
        for index in range(num_players):
            player = state.player[env, index]
            row = player[0] - top
            column = player[1] - left
            if row >= 0 and row < across and column >= 0 and column < across:
                cell = row * across + column
                level = float(1.0)
                if wp.static(observe_levels):
                    level = float(player[2])
                io.obs[env, agent, cell] = level
                io.obs[env, agent, 2 * layer + cell] = 0.0
        for index in range(num_foods):
            food = state.food[env, index]
            row = food[0] - top
            column = food[1] - left
            if food[2] > 0 and row >= 0 and row < across and column >= 0 and column < across:
                cell = row * across + column
                io.obs[env, agent, layer + cell] = float(food[2])
                io.obs[env, agent, 2 * layer + cell] = 0.0

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write row, column and level of every food and player, then the time."""
        player = state.player[env, agent]
        for axis in range(3):
            io.global_state[env, 3 * (num_foods + agent) + axis] = float(player[axis])
        if agent == 0:
            for index in range(num_foods):
                food = state.food[env, index]
                is_present = food[2] > 0
                io.global_state[env, 3 * index] = wp.where(is_present, float(food[0]), -1.0)
                io.global_state[env, 3 * index + 1] = wp.where(is_present, float(food[1]), -1.0)
                io.global_state[env, 3 * index + 2] = float(food[2])
            time = float(io.step[env]) / float(wp.max(io.max_steps, 1))
            io.global_state[env, 3 * (num_foods + num_players)] = time

    return Rules(
        key=f"level_based_foraging {num_players} {num_foods} {grid_sight} {observe_levels} {masked}",
        params=Params,
        state=State,
        num_agents=num_players,
        action_size=1,
        continuous=False,
        phases=(
            agent_phase(aim, reads="player food io.choice", writes="target"),
            world_phase(
                forage, reads="player food spawned target", writes="player food target io.reward io.terminated"
            ),
        ),
        observe=observe_grid if grid_sight else observe_list,
        legal=legal if masked else None,
        reset=start(Params, State, num_players, num_foods),
        global_state=global_state,
        masked=masked,
        illegal_noop=masked,
        num_choices=NUM_ACTIONS,
        max_unroll=1,  # unrolled, four players and three foods take twice as long to compile, and step no faster
    )
