"""Start of an episode of Overcooked: cells of the players, and random items in pots and hands."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.kitchen.overcooked.items import DISH, ONION, SOUP, TICK, figure


def start(params: type, state: type, num_surfaces: int, num_pots: int) -> tuple[Any, Any]:
    """Build the resets of a world and of an agent.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct, see :class:`warp_kernels.kitchen.overcooked.overcooked.State`.
        num_surfaces: Number of surfaces S.
        num_pots: Number of pots among them.
    """
    Params, State = params, state

    @wp.func(inline=True)
    def random_soup(onions: wp.uint32, tomatoes: wp.uint32):
        """Return a soup of 1 to 3 onions, and at most the tomatoes that fit, that does not cook."""
        count = 1 + philox.below(onions, 3)
        return SOUP | (count + 16 * philox.below(tomatoes, 4 - count)) << 3

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the players and empty the surfaces; put random items in pots and hands."""
        surface = int(0)
        while surface < num_surfaces:
            state.item[env, surface] = 0
            state.seen_item[env, surface] = 0
            surface += 1
        first = state.start[0, 0]
        second = state.start[0, 1]
        if params.random_start_pos == 1:
            word = philox.bits(rng, 0, philox.RESET, 1)
            first_index = philox.below(word[0], params.num_floor)
            second_index = philox.below(word[1], params.num_floor - 1)
            first = state.floor[0, first_index]
            second = state.floor[0, second_index + wp.where(second_index >= first_index, 1, 0)]
        state.position[env, 0] = first
        state.position[env, 1] = second
        pot = int(0)
        while pot < num_pots:
            word = philox.bits(rng, 2 + pot, philox.RESET, 0)
            if philox.unit(word[0]) < params.rnd_obj_prob_thresh:
                cooks = philox.unit(word[3]) < params.rnd_obj_prob_thresh
                state.item[env, pot] = random_soup(word[1], word[2]) + wp.where(cooks, TICK, 0)
            state.seen_item[env, pot] = state.item[env, pot]
            pot += 1

    @wp.func(inline=True)
    def reset_agent(params: Params, state: State, env: int, agent: int, rng: philox.Stream):
        """Turn the player north and fill its hands."""
        state.facing[env, agent] = 0
        item = int(0)
        word = philox.bits(rng, agent, philox.RESET, 0)
        if philox.unit(word[0]) < params.rnd_obj_prob_thresh:
            kind = philox.unit(word[3])
            item = wp.where(kind < 0.8, ONION, random_soup(word[1], word[2]))
            item = wp.where(kind < 0.2, DISH, item)
        state.inventory[env, agent] = item
        state.sparse[env, agent] = 0.0
        state.shaped[env, agent] = 0.0
        state.soups[env, agent] = 0
        state.seen_player[env, agent] = figure(state.position[env, agent], 0, item)

    return reset, reset_agent
