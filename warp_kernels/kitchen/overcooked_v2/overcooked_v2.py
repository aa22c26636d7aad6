"""OvercookedV2: cooks who see a part of the kitchen cook the recipe of the day, as in JaxMARL 0.2.0.

The paper is Gessler et al. 2025, "OvercookedV2: Rethinking Overcooked for Zero-Shot Coordination". Cells are numbered
row by row from the upper left corner: ``y * width + x``. Surfaces are the pots, then the counters; timers are those of
the pots, then of the buttons.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, keyed_stream
from warp_kernels.framework.dense_arrays import dense_state
from warp_kernels.kitchen.overcooked_v2.items import (
    BUTTON,
    COOKED,
    COUNTER,
    DISH,
    FLOOR,
    GOAL,
    INGREDIENTS,
    KIND_BITS,
    PLATE,
    PLATES,
    POT,
    POT_SIZE,
    ingredient,
    num_ingredients,
)
from warp_kernels.kitchen.overcooked_v2.observation import observation
from warp_kernels.kitchen.overcooked_v2.sizes import Sizes
from warp_kernels.kitchen.overcooked_v2.start import start
from warp_kernels.rules import Rules, world_phase

RIGHT: int = wp.constant(0)
"""Action toward the column on the right."""
DOWN: int = wp.constant(1)
"""Action toward the row below."""
LEFT: int = wp.constant(2)
"""Action toward the column on the left."""
UP: int = wp.constant(3)
"""Action toward the row above."""
STAY: int = wp.constant(4)
"""Action without effect."""
INTERACT: int = wp.constant(5)
"""Action on the thing in front of the agent."""
NUM_ACTIONS = 6
"""Number of actions."""
FACING_UP: int = wp.constant(0)
"""Orientation toward the row above."""
FACING_DOWN: int = wp.constant(1)
"""Orientation toward the row below."""
FACING_RIGHT: int = wp.constant(2)
"""Orientation toward the column on the right."""
FACING_LEFT: int = wp.constant(3)
"""Orientation toward the column on the left."""


@wp.struct
class Params:
    """Environment parameters."""

    delivery_reward: float  # reward of the right dish
    indicator_activation_cost: float  # cost of pressing a button
    placement_in_pot_reward: float  # shaped reward of an ingredient of the recipe placed in a pot
    pot_start_cooking_reward: float  # shaped reward of starting a pot that holds the recipe
    dish_pickup_reward: float  # shaped reward of the right dish taken from a pot
    plate_pickup_reward: float  # shaped reward of a useful plate taken from a pile
    reward_shaping_factor: float  # share of the shaped reward in the reward
    pot_cook_time: int  # time to cook [steps]
    indicator_activation_time: int  # time that a button shows the recipe, with the step of the press [steps]
    start_cooking_interaction: int  # 1: an agent starts to cook, 0: a full pot does by itself
    negative_rewards: int  # 1: another dish than the right one costs the delivery reward
    sample_recipe_on_delivery: int  # 1: a right dish changes the recipe
    random_reset: int  # 1: episodes start with random positions, orientations and items
    random_agent_positions: int  # 1: episodes start with random positions and orientations
    num_recipes: int  # number of possible recipes
    num_permuted: int  # number of ingredients that agents see in a random order


@wp.struct
class State:
    """State of E worlds, A agents, C cells, S surfaces, T timers, N ingredients, R recipes, P permuted of N."""

    position: wp.array2d(dtype=int)  # (E, A) cell of the agent
    facing: wp.array2d(dtype=int)  # (E, A) orientation: 0 up, 1 down, 2 right, 3 left
    inventory: wp.array2d(dtype=int)  # (E, A) item in the agent's hands
    item: wp.array2d(dtype=int)  # (E, S) item on the surface
    timer: wp.array2d(dtype=int)  # (E, T) steps until a pot is ready or a button hides the recipe, 0 if idle
    recipe: wp.array(dtype=int)  # (E,) ingredients of the recipe, an item
    correct: wp.array(dtype=int)  # (E,) 1: the right dish was delivered in the last step
    permutation: wp.array3d(dtype=int)  # (E, A, N) ingredient that the agent sees as the one of an index
    shaped: wp.array2d(dtype=float)  # (E, A) shaped reward of the agent in this step
    deliveries: wp.array2d(dtype=int)  # (E, A) right dishes that the agent has delivered in this episode
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode
    target: wp.array2d(dtype=int)  # (E, A) cell to which the agent moves
    blocked: wp.array2d(dtype=int)  # (E, A) 1: another agent is in the way
    # Tables that all worlds share: row 0.
    terrain: wp.array2d(dtype=int)  # (E, C) kind of terrain in bits 0 to 4, index of the surface or timer from bit 5 on
    room: wp.array2d(dtype=int)  # (E, C) number of the room, -1 where no agent can stand
    room_size: wp.array2d(dtype=int)  # (E, A) number of cells of the agent's room
    start: wp.array2d(dtype=int)  # (E, A) cell where the agent starts
    recipes: wp.array2d(dtype=int)  # (E, R) possible recipes, as items
    permuted: wp.array2d(dtype=int)  # (E, P) ingredients that agents see in a random order


SCRATCH = ("target", "blocked")
"""Fields of State that carry nothing to the next step."""
_DENSE = ("position", "facing", "inventory", "item", "timer", "permutation", "shaped", "deliveries", *SCRATCH)


@cache
def rules(sizes: Sizes) -> Rules:
    """Build the rules for a kitchen and what agents observe of it."""
    width, num_agents, num_pots = sizes.width, sizes.num_agents, sizes.num_pots
    num_cells, num_surfaces, num_timers = sizes.num_cells, sizes.num_surfaces, sizes.num_timers
    kind_mask = (1 << KIND_BITS) - 1
    observe, global_state = observation(Params, State, sizes)
    random_recipe, reset, reset_agent = start(Params, State, sizes)

    @wp.func(inline=True)
    def ahead(cell: int, facing: int):
        """Return the adjacent cell in front."""
        down = wp.where(facing == FACING_DOWN, width, 0) - wp.where(facing == FACING_UP, width, 0)
        right = wp.where(facing == FACING_RIGHT, 1, 0) - wp.where(facing == FACING_LEFT, 1, 0)
        return wp.clamp(cell + down + right, 0, num_cells - 1)  # restored states may have agents on the border

    @wp.func(inline=True)
    def aim(state: State, env: int, agent: int, choice: int):
        """Turn the agent, and set the cell to which it moves if no agent is in its way."""
        cell = state.position[env, agent]
        state.target[env, agent] = cell
        if choice < STAY:
            facing = wp.where(choice == RIGHT, FACING_RIGHT, wp.where(choice == DOWN, FACING_DOWN, FACING_UP))
            facing = wp.where(choice == LEFT, FACING_LEFT, facing)
            state.facing[env, agent] = facing
            front = ahead(cell, facing)
            if (state.terrain[0, front] & kind_mask) == FLOOR:
                state.target[env, agent] = front

    @wp.func(inline=True)
    def share_cells(state: State, env: int):
        """Send agents with a common target back, until no two have one; return whether any had."""
        collide = bool(False)
        agent = int(0)
        while agent < num_agents:
            blocked = int(0)
            other = int(0)
            while other < num_agents:
                if other != agent and state.target[env, other] == state.target[env, agent]:
                    blocked = 1
                    collide = True
                other += 1
            state.blocked[env, agent] = blocked
            agent += 1
        if collide:
            agent = int(0)
            while agent < num_agents:
                if state.blocked[env, agent] == 1:
                    state.target[env, agent] = state.position[env, agent]
                agent += 1
        return collide

    @wp.func(inline=True)
    def move(state: State, env: int):
        """Move agents to their targets; those that would meet or exchange cells stay."""
        rounds = int(num_agents)
        while rounds > 0:  # a round sends one agent back, or is the last
            rounds = wp.where(share_cells(state, env), rounds - 1, 0)
        agent = int(0)
        while agent < num_agents:
            other = int(0)
            while other < agent:
                to_other = state.target[env, agent] == state.position[env, other]
                if to_other and state.target[env, other] == state.position[env, agent]:
                    state.target[env, agent] = state.position[env, agent]
                    state.target[env, other] = state.position[env, other]
                other += 1
            agent += 1
        agent = int(0)
        while agent < num_agents:
            state.position[env, agent] = state.target[env, agent]
            agent += 1

    @wp.func
    def is_plate_useful(state: State, env: int, plates: int):
        """Return whether pots need another plate: none is on a counter, and agents hold fewer than pots are filled."""
        filled = int(0)
        lying = int(0)
        surface = int(0)
        while surface < num_surfaces:
            item = state.item[env, surface]
            if surface < num_pots:
                filled += wp.where(item != 0, 1, 0)
            lying += wp.where(item == PLATE, 1, 0)
            surface += 1
        return lying == 0 and plates < filled

    @wp.func(inline=True)
    def use_pot(params: Params, state: State, env: int, agent: int, pot: int):
        """Take a ready dish, add an ingredient, or start to cook; return the shaped reward."""
        item = state.item[env, pot]
        hand = state.inventory[env, agent]
        recipe = state.recipe[env]
        shaped = float(0.0)
        if (item & COOKED) != 0:
            if hand == PLATE:
                state.inventory[env, agent] = item + PLATE
                state.item[env, pot] = 0
                if item + PLATE == (recipe | DISH):
                    shaped = params.dish_pickup_reward
        elif state.timer[env, pot] == 0:
            if hand > DISH and (hand & PLATE) == 0 and num_ingredients(item) != POT_SIZE:
                count = hand | (hand << 1)  # bits of the count of this ingredient
                if (item & count) < (recipe & count):
                    shaped = params.placement_in_pot_reward
                state.item[env, pot] = item + hand
                state.inventory[env, agent] = 0
            if params.start_cooking_interaction == 0:
                if num_ingredients(state.item[env, pot]) == POT_SIZE:
                    state.timer[env, pot] = params.pot_cook_time
            elif hand == 0 and item != 0:
                state.timer[env, pot] = params.pot_cook_time
                if item == recipe:
                    shaped = params.pot_start_cooking_reward
        return shaped

    @wp.func(inline=True)
    def interact(params: Params, state: State, env: int, agent: int, plates: int):
        """Use the thing in front of the agent; write its state and shaped reward, and return the common reward."""
        front = state.terrain[0, ahead(state.position[env, agent], state.facing[env, agent])]
        kind = front & kind_mask
        index = front >> KIND_BITS
        hand = state.inventory[env, agent]
        reward = float(0.0)
        if kind == COUNTER:
            item = state.item[env, index]
            if hand == 0 or item == 0:
                state.item[env, index] = hand
                state.inventory[env, agent] = item
        elif kind == POT:
            state.shaped[env, agent] = use_pot(params, state, env, agent, index)
        elif kind == GOAL:
            if (hand & COOKED) != 0:
                state.inventory[env, agent] = 0
                if hand == (state.recipe[env] | DISH):
                    reward = params.delivery_reward
                    state.correct[env] = 1
                    state.deliveries[env, agent] += 1
                elif params.negative_rewards == 1:
                    reward = -params.delivery_reward
        elif hand == 0:
            if kind == PLATES:
                if is_plate_useful(state, env, plates):
                    state.shaped[env, agent] = params.plate_pickup_reward
                state.inventory[env, agent] = PLATE
            elif kind == BUTTON:
                state.timer[env, index] = params.indicator_activation_time
                reward = -params.indicator_activation_cost
            elif kind >= INGREDIENTS:
                state.inventory[env, agent] = ingredient(kind - INGREDIENTS)
        return reward

    @wp.func(inline=True)
    def tick(state: State, env: int):
        """Advance the timers; a pot whose timer ends is ready."""
        index = int(0)
        while index < num_timers:
            steps = state.timer[env, index]
            if steps > 0:
                state.timer[env, index] = steps - 1
                if steps == 1 and index < num_pots:
                    state.item[env, index] = state.item[env, index] | COOKED
            index += 1

    @wp.func(inline=True)
    def play(params: Params, state: State, io: IO, env: int):
        """Move, interact in the order of the agents, advance timers, and draw a recipe; write State and rewards."""
        plates = int(0)
        agent = int(0)
        while agent < num_agents:
            plates += wp.where(state.inventory[env, agent] == PLATE, 1, 0)
            state.shaped[env, agent] = 0.0
            aim(state, env, agent, int(io.choice[env, agent, 0]))
            agent += 1
        move(state, env)
        state.correct[env] = 0
        reward = float(0.0)
        agent = int(0)
        while agent < num_agents:
            if int(io.choice[env, agent, 0]) == INTERACT:
                reward += interact(params, state, env, agent, plates)
            agent += 1
        tick(state, env)
        if state.correct[env] == 1 and params.sample_recipe_on_delivery == 1:
            rng = keyed_stream(io, env, state.key[env])
            state.recipe[env] = random_recipe(params, state, philox.bits(rng, 0, philox.STEP, 0)[0])
        agent = int(0)
        while agent < num_agents:
            io.reward[env, agent] = reward + params.reward_shaping_factor * state.shaped[env, agent]
            agent += 1

    tails = dict.fromkeys(_DENSE, (num_agents,)) | {
        "item": (num_surfaces,), "timer": (num_timers,), "permutation": (num_agents, sizes.num_ingredients),
    }  # fmt: skip
    tables = {"terrain": (num_cells,)}
    return Rules(
        key=f"overcooked v2 {' '.join(map(str, sizes))}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                play,
                reads=(
                    "position facing inventory item timer recipe correct shaped deliveries key target blocked terrain "
                    "recipes io.choice io.step"
                ),
                writes="position facing inventory item timer recipe correct shaped deliveries target blocked io.reward",
            ),
        ),
        observe=observe,
        reset=reset,
        reset_agent=reset_agent,
        relayout=dense_state(State, tails | tables, tables),
        global_state=global_state,
        num_choices=NUM_ACTIONS,
        max_unroll=1,
    )
