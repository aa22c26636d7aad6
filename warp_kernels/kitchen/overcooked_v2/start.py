"""Start of an episode of OvercookedV2: recipe, positions of the agents, and random items."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import episode_key
from warp_kernels.kitchen.overcooked_v2.items import COOKED, DISH, PLATE, POT_SIZE, ingredient
from warp_kernels.kitchen.overcooked_v2.sizes import Sizes


def start(params: type, state: type, sizes: Sizes) -> tuple[Any, Any, Any]:
    """Build the draw of a recipe, and the resets of a world and of an agent.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct, see :class:`warp_kernels.kitchen.overcooked_v2.overcooked_v2.State`.
        sizes: Sizes of the kitchen.
    """
    Params, State = params, state
    num_cells, num_agents, num_ingredients = sizes.num_cells, sizes.num_agents, sizes.num_ingredients
    num_surfaces, num_pots, num_timers = sizes.num_surfaces, sizes.num_pots, sizes.num_timers

    @wp.func(inline=True)
    def random_recipe(params: Params, state: State, word: wp.uint32):
        return state.recipes[0, philox.below(word, params.num_recipes)]

    @wp.func
    def random_cell(state: State, env: int, agent: int, word: wp.uint32):
        """Return a random cell of the agent's room without the agents before it."""
        room = state.room[0, state.start[0, agent]]
        others = int(0)
        other = int(0)
        while other < agent:
            others += wp.where(state.room[0, state.position[env, other]] == room, 1, 0)
            other += 1
        skip = int(philox.below(word, wp.max(state.room_size[0, agent] - others, 1)))
        result = state.start[0, agent]
        cell = int(0)
        while cell < num_cells and skip >= 0:
            free = bool(state.room[0, cell] == room)
            other = int(0)
            while other < agent:
                free = free and state.position[env, other] != cell
                other += 1
            if free:
                result = cell
                skip -= 1
            cell += 1
        return result

    @wp.func(inline=True)
    def random_item(params: Params, state: State, word: wp.vec4ui, plate: float, raw: float, dish: float):
        """Return a plate, an ingredient or a dish with these probabilities, or nothing."""
        chance = philox.unit(word[0])
        result = int(0)
        if chance < plate:
            result = PLATE
        elif chance < plate + raw:
            result = ingredient(philox.below(word[1], num_ingredients))
        elif chance < plate + raw + dish:
            result = random_recipe(params, state, word[2]) | DISH
        return result

    @wp.func
    def fill_pot(params: Params, state: State, env: int, pot: int, rng: philox.Stream):
        """Fill a pot with 60 %: with 1 to 3 ingredients (35 %), or three that cook (15 %) or are ready (10 %).

        Where an agent starts to cook, pots that cook or are ready have 1 to 3 ingredients, too.
        """
        word = philox.bits(rng, num_agents + 1 + pot, philox.RESET, 0)
        more = philox.bits(rng, num_agents + 1 + pot, philox.RESET, 1)
        chance = philox.unit(word[0])
        if chance < 0.6:
            few = chance < 0.35 or params.start_cooking_interaction == 1
            count = wp.where(few, 1 + philox.below(more[0], POT_SIZE), POT_SIZE)
            item = ingredient(philox.below(word[1], num_ingredients))
            if count > 1:
                item += ingredient(philox.below(word[2], num_ingredients))
            if count > 2:
                item += ingredient(philox.below(word[3], num_ingredients))
            if chance >= 0.5:
                item |= COOKED
            elif chance >= 0.35:
                state.timer[env, pot] = 1 + philox.below(more[1], params.pot_cook_time)
            state.item[env, pot] = item

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Choose the recipe, place the agents, and empty or fill pots and counters."""
        state.key[env] = episode_key(rng)
        state.recipe[env] = random_recipe(params, state, philox.bits(rng, num_agents, philox.RESET, 0)[0])
        state.correct[env] = 0
        timer = int(0)
        while timer < num_timers:
            state.timer[env, timer] = 0
            timer += 1
        agent = int(0)
        while agent < num_agents:
            state.position[env, agent] = state.start[0, agent]
            if params.random_agent_positions == 1 or params.random_reset == 1:
                state.position[env, agent] = random_cell(state, env, agent, philox.bits(rng, agent, philox.RESET, 0)[0])
            agent += 1
        surface = int(0)
        while surface < num_surfaces:
            state.item[env, surface] = 0
            if params.random_reset == 1:
                if surface < num_pots:
                    fill_pot(params, state, env, surface, rng)
                else:
                    word = philox.bits(rng, num_agents + 1 + surface, philox.RESET, 0)
                    state.item[env, surface] = random_item(params, state, word, 0.1, 0.3, 0.1)
            surface += 1

    @wp.func(inline=True)
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        """Turn the agent, fill its hands, and shuffle the ingredients that it sees in another order."""
        facing = int(0)
        inventory = int(0)
        if params.random_agent_positions == 1 or params.random_reset == 1:
            facing = philox.below(philox.bits(rng, agent, philox.RESET, 0)[1], 4)
        if params.random_reset == 1:
            inventory = random_item(params, state, philox.bits(rng, agent, philox.RESET, 1), 0.1, 0.25, 0.15)
        state.facing[env, agent] = facing
        state.inventory[env, agent] = inventory
        state.shaped[env, agent] = 0.0
        state.deliveries[env, agent] = 0
        index = int(0)
        while index < num_ingredients:
            state.permutation[env, agent, index] = index
            index += 1
        index = int(params.num_permuted - 1)
        while index > 0:  # Fisher-Yates
            word = philox.bits(rng, agent, philox.RESET, 1 + index)
            first = state.permuted[0, index]
            second = state.permuted[0, philox.below(word[0], index + 1)]
            moved = state.permutation[env, agent, first]
            state.permutation[env, agent, first] = state.permutation[env, agent, second]
            state.permutation[env, agent, second] = moved
            index -= 1

    return random_recipe, reset, reset_agent
