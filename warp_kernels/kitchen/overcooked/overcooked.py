"""Overcooked: two cooks fill pots, cook soups and serve them, as overcooked_ai 1.1.0.

Cells are numbered column by column from the upper left corner: ``x * height + y``. Surfaces are the pots, then the
counters beside a floor cell; only they hold items.
"""

from functools import cache

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.framework.dense_arrays import dense_state
from warp_kernels.kitchen.overcooked.items import (
    COUNTER,
    DISH,
    DISH_DISPENSER,
    FLOOR,
    NUM_RECIPES,
    ONION,
    ONION_DISPENSER,
    POT,
    SERVING,
    SOUP,
    TICK,
    TOMATO,
    TOMATO_DISPENSER,
    item_kind,
    item_recipe,
    item_tick,
    num_ingredients,
)
from warp_kernels.kitchen.overcooked.observation import observation
from warp_kernels.kitchen.overcooked.start import start
from warp_kernels.rules import Rules, world_phase

NORTH: int = wp.constant(0)
"""Action and orientation toward the row above."""
SOUTH: int = wp.constant(1)
"""Action and orientation toward the row below."""
EAST: int = wp.constant(2)
"""Action and orientation toward the column on the right."""
WEST: int = wp.constant(3)
"""Action and orientation toward the column on the left."""
STAY: int = wp.constant(4)
"""Action without effect."""
INTERACT: int = wp.constant(5)
"""Action on the thing in front of the player."""
NUM_ACTIONS = 6
"""Number of actions."""
NUM_PLAYERS = 2
"""Number of players; the encoding of the original is for two."""


@wp.struct
class Params:
    """Environment parameters."""

    placement_in_pot_reward: float  # shaped reward of an ingredient placed in a pot
    dish_pickup_reward: float  # shaped reward of a useful dish taken from a dispenser
    soup_pickup_reward: float  # shaped reward of a soup taken from a pot
    reward_shaping_factor: float  # share of the shaped reward in the reward
    old_dynamics: int  # 1: three ingredients start to cook by themselves, 0: a player starts
    max_num_ingredients: int  # ingredients of a full pot
    random_start_pos: int  # 1: players start on random floor cells
    rnd_obj_prob_thresh: float  # probability of a random item in each pot and hand at the start [1]
    num_floor: int  # number of floor cells


@wp.struct
class State:
    """State of E worlds, A = 2 players, C cells, S surfaces, F floor cells."""

    position: wp.array2d(dtype=int)  # (E, A) cell of the player
    facing: wp.array2d(dtype=int)  # (E, A) orientation, an action in 0 .. 3
    inventory: wp.array2d(dtype=int)  # (E, A) item in the player's hands
    item: wp.array2d(dtype=int)  # (E, S) item on the surface
    sparse: wp.array2d(dtype=float)  # (E, A) reward of soups that the player served in this step
    shaped: wp.array2d(dtype=float)  # (E, A) shaped reward of the player in this step
    soups: wp.array2d(dtype=int)  # (E, A) soups that the player has served in this episode
    seen_item: wp.array2d(dtype=int)  # (E, S) item on the surface in the last observations
    seen_player: wp.array2d(dtype=int)  # (E, A) cell + 4096 (orientation + 4 * item in hands) in the last observations
    seen_urgent: wp.array2d(dtype=int)  # (E, A) 1: the agent's last observation says that time is short
    is_blank: wp.array2d(dtype=int)  # (E, A) 1: the agent's next observation is written in full
    num_changed: wp.array(dtype=int)  # (E,) number of surfaces that this step has changed
    changed: wp.array2d(dtype=int)  # (E, S) these surfaces
    was_player: wp.array2d(dtype=int)  # (E, A) seen_player of the step before
    # Tables that all worlds share: row 0.
    terrain: wp.array2d(dtype=int)  # (E, C) kind of terrain in bits 0 to 2, index of the surface from bit 3 on
    surface: wp.array2d(dtype=int)  # (E, S) cell of the surface
    floor: wp.array2d(dtype=int)  # (E, F) floor cells
    start: wp.array2d(dtype=int)  # (E, A) cell where the player starts
    cook_time: wp.array2d(dtype=int)  # (E, 256) time to cook, by recipe [steps]
    value: wp.array2d(dtype=float)  # (E, 256) reward of serving, by recipe


_DENSE = (
    *("position", "facing", "inventory", "item", "sparse", "shaped", "soups"),
    *("seen_item", "seen_player", "seen_urgent", "is_blank", "changed", "was_player"),
)
"""Fields of State that kernels view with constant sizes."""
SCRATCH = ("num_changed", "changed", "was_player")
"""Fields of State that carry nothing to the next step."""


@cache
def rules(width: int, height: int, num_surfaces: int, num_pots: int, channels_first: bool) -> Rules:
    """Build the rules.

    Args:
        width: Number of columns of the kitchen.
        height: Number of rows.
        num_surfaces: Number of pots and counters that players can reach into, S.
        num_pots: Number of pots among them.
        channels_first: Observe (26, width, height) instead of (width, height, 26).
    """
    num_cells = width * height
    note_changes, observe, forget, global_state = observation(
        Params, State, width, height, num_surfaces, num_pots, channels_first
    )

    @wp.func(inline=True)
    def ahead(cell: int, direction: int):
        """Return the adjacent cell in a direction."""
        target = cell + wp.where(direction < EAST, 2 * direction - 1, (5 - 2 * direction) * height)
        return wp.min(wp.max(target, 0), num_cells - 1)  # restored states may have players on the border

    @wp.func(inline=True)
    def pots_in_use(params: Params, state: State, env: int):
        """Return the number of pots that cook, are ready, or have some but not all ingredients."""
        count = int(0)
        pot = int(0)
        while pot < num_pots:
            soup = state.item[env, pot]
            used = item_tick(soup) > 0 or num_ingredients(soup) < params.max_num_ingredients
            count += wp.where(soup != 0 and used, 1, 0)
            pot += 1
        return count

    @wp.func(inline=True)
    def is_dish_useful(state: State, env: int, in_use: int):
        """Return whether the pots need another dish: none is on a counter, and hands hold fewer than pots are in use.

        ``in_use`` counts pots before any action of this step, as in the original.
        """
        dishes = wp.where(item_kind(state.inventory[env, 0]) == DISH, 1, 0)
        dishes += wp.where(item_kind(state.inventory[env, 1]) == DISH, 1, 0)
        lying = int(0)
        surface = int(num_pots)
        while surface < num_surfaces:
            lying += wp.where(item_kind(state.item[env, surface]) == DISH, 1, 0)
            surface += 1
        return lying == 0 and dishes < in_use

    @wp.func(inline=True)
    def use_pot(params: Params, state: State, env: int, agent: int, pot: int):
        """Start to cook, take a ready soup on a dish, or add an ingredient; return the shaped reward."""
        soup = state.item[env, pot]
        hand = state.inventory[env, agent]
        kind = item_kind(hand)
        shaped = float(0.0)
        if hand == 0:
            if params.old_dynamics == 0 and soup != 0 and item_tick(soup) == 0:
                state.item[env, pot] = soup + TICK
        elif kind == DISH:
            if item_tick(soup) > state.cook_time[0, item_recipe(soup)]:  # never 0, which is not cooking
                state.inventory[env, agent] = soup & (TICK - 1)
                state.item[env, pot] = 0
                shaped = params.soup_pickup_reward
        elif kind == ONION or kind == TOMATO:  # noqa: SIM109  # Warp has no tuples here
            if item_tick(soup) == 0 and num_ingredients(soup) < params.max_num_ingredients:
                state.item[env, pot] = (soup | SOUP) + wp.where(kind == ONION, 1 << 3, 16 << 3)
                state.inventory[env, agent] = 0
                shaped = params.placement_in_pot_reward
        return shaped

    @wp.func(inline=True)
    def interact(params: Params, state: State, env: int, agent: int, in_use: int):
        """Use the thing in front of the player; write inventory, item, sparse, shaped and soups."""
        front = state.terrain[0, ahead(state.position[env, agent], state.facing[env, agent])]
        terrain = front & 7
        surface = front >> 3
        hand = state.inventory[env, agent]
        if terrain == COUNTER:
            item = state.item[env, surface]
            if hand == 0 or item == 0:
                state.item[env, surface] = hand
                state.inventory[env, agent] = item
        elif terrain == POT:
            state.shaped[env, agent] = use_pot(params, state, env, agent, surface)
        elif terrain == SERVING:
            if item_kind(hand) == SOUP:
                state.sparse[env, agent] = state.value[0, item_recipe(hand)]
                state.soups[env, agent] += 1
                state.inventory[env, agent] = 0
        elif hand == 0:
            if terrain == ONION_DISPENSER:
                state.inventory[env, agent] = ONION
            elif terrain == TOMATO_DISPENSER:
                state.inventory[env, agent] = TOMATO
            elif terrain == DISH_DISPENSER:
                if is_dish_useful(state, env, in_use):
                    state.shaped[env, agent] = params.dish_pickup_reward
                state.inventory[env, agent] = DISH

    @wp.func(inline=True)
    def wanted_cell(state: State, env: int, agent: int, choice: int):
        """Turn the player; return the cell that it moves to if no player is in its way. It has no branches."""
        cell = state.position[env, agent]
        moves = choice < STAY
        state.facing[env, agent] = wp.where(moves, choice, state.facing[env, agent])
        next = wp.where(moves, ahead(cell, choice), cell)
        return wp.where((state.terrain[0, next] & 7) == FLOOR, next, cell)

    @wp.func(inline=True)
    def cook(params: Params, state: State, env: int):
        """Advance the soups that cook; with the old dynamics, three ingredients start to cook."""
        pot = int(0)
        while pot < num_pots:
            soup = state.item[env, pot]
            if soup != 0:
                if params.old_dynamics == 1 and item_tick(soup) == 0 and num_ingredients(soup) == 3:
                    soup += TICK
                tick = item_tick(soup)
                if tick > 0 and tick <= state.cook_time[0, item_recipe(soup)]:
                    soup += TICK
                state.item[env, pot] = soup
            pot += 1

    @wp.func(inline=True)
    def play(params: Params, state: State, io: IO, env: int):
        """Interact in the order of players, move unless players collide, then cook; write all of State and rewards."""
        first_action = int(io.choice[env, 0, 0])
        second_action = int(io.choice[env, 1, 0])
        state.sparse[env, 0] = 0.0
        state.sparse[env, 1] = 0.0
        state.shaped[env, 0] = 0.0
        state.shaped[env, 1] = 0.0
        if first_action == INTERACT or second_action == INTERACT:
            in_use = pots_in_use(params, state, env)
            agent = int(0)
            while agent < 2:
                if wp.where(agent == 0, first_action, second_action) == INTERACT:
                    interact(params, state, env, agent, in_use)
                agent += 1
        first = state.position[env, 0]
        second = state.position[env, 1]
        first_target = wanted_cell(state, env, 0, first_action)
        second_target = wanted_cell(state, env, 1, second_action)
        collide = first_target == second_target or (first_target == second and second_target == first)
        state.position[env, 0] = wp.where(collide, first, first_target)
        state.position[env, 1] = wp.where(collide, second, second_target)
        cook(params, state, env)
        note_changes(state, env)
        served = state.sparse[env, 0] + state.sparse[env, 1]
        io.reward[env, 0] = served + params.reward_shaping_factor * state.shaped[env, 0]
        io.reward[env, 1] = served + params.reward_shaping_factor * state.shaped[env, 1]

    per_surface = ("item", "seen_item", "changed")
    tails = {name: (num_surfaces if name in per_surface else NUM_PLAYERS,) for name in _DENSE}
    tables = {"terrain": (num_cells,), "cook_time": (NUM_RECIPES,), "value": (NUM_RECIPES,)}
    reset, reset_agent = start(Params, State, num_surfaces, num_pots)
    return Rules(
        key=f"overcooked {width} {height} {num_surfaces} {num_pots} {channels_first}",
        params=Params,
        state=State,
        num_agents=NUM_PLAYERS,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                play,
                reads=(
                    "position facing inventory item sparse shaped soups seen_item seen_player terrain cook_time value "
                    "io.choice"
                ),
                writes=(
                    "position facing inventory item sparse shaped soups seen_item seen_player num_changed changed "
                    "was_player io.reward"
                ),
            ),
        ),
        observe=observe,
        forget=forget,
        reset=reset,
        reset_agent=reset_agent,
        relayout=dense_state(State, tails | tables, tables),
        global_state=global_state,
        num_choices=NUM_ACTIONS,
        max_unroll=1,  # unrolled, it compiles for a quarter longer, and steps no faster
    )
