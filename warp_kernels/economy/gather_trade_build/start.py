"""Start of an episode of GatherTradeBuild-v0: the world, skills, starting cells and prices."""

from typing import Any

import warp as wp

from warp_kernels import helpers, philox
from warp_kernels.economy.gather_trade_build.economy_types import (
    LOGNORMAL,
    NO_SKILL,
    PRICE_POINTS,
    VISITOR,
    Params,
    Sizes,
    State,
)
from warp_kernels.economy.gather_trade_build.random_layouts import random_layouts
from warp_kernels.economy.saez_taxes import decimal

_TWO_PI = 6.283185307179586


def start(sizes: Sizes, start_rates: Any, update: Any, report: Any) -> Any:
    """Build the reset of a world.

    Args:
        sizes: Sizes of the rules.
        start_rates: Warp function that writes the tax rates before the first day.
        update: Warp function that writes utilities and social welfare.
        report: Warp function that writes the results of a step.
    """
    n, num_land, num_prices = sizes.num_agents, sizes.num_land, sizes.num_prices
    cells, agents, num_brackets = sizes.height * sizes.width, sizes.agents, sizes.num_brackets
    is_random, is_split, water_start = sizes.is_random, sizes.scenario == "split_layout", sizes.water_row * sizes.width
    place_resources = random_layouts(sizes)[0] if is_random else None

    @wp.func
    def pareto(word: wp.uint32, shape: float):
        """Return a number with the distribution of numpy.random.pareto."""
        return wp.pow(1.0 - philox.unit(word), -1.0 / shape) - 1.0

    @wp.func
    def lognormal(first: wp.uint32, second: wp.uint32, mean: float, deviation: float):
        """Return a log-normal number, by the method of Box and Muller."""
        radius = wp.sqrt(-2.0 * wp.log(1.0 - philox.unit(first)))
        return wp.exp(mean + deviation * radius * wp.cos(_TWO_PI * philox.unit(second)))

    @wp.func
    def draw_skills(params: Params, state: wp.ref[State], env: int, agent: int, rng: philox.Stream):
        """Sample the building skill with its payment, and the gathering skill."""
        word = philox.bits(rng, agent, philox.RESET, 0)
        more = philox.bits(rng, agent, philox.RESET, 1)
        skill = float(1.0)
        rate = float(1.0)
        if params.build_skill_dist != NO_SKILL:
            skill = pareto(word[1], 4.0)
            if params.build_skill_dist == LOGNORMAL:
                skill = lognormal(word[1], more[0], -1.0, 0.5)
            limit = params.payment_max_skill_multiplier
            rate = wp.min(limit, (limit - 1.0) * skill + 1.0)
        state.skill[env, agent] = skill
        state.payment[env, agent] = wp.float64(rate * params.payment)
        bonus = float(0.0)
        if params.gather_skill_dist != NO_SKILL:
            bonus = pareto(word[2], 3.0)
            if params.gather_skill_dist == LOGNORMAL:
                bonus = lognormal(word[2], more[1], -2.022, 0.938)
            bonus = wp.min(2.0, bonus) * 0.5
        state.bonus[env, agent] = bonus

    @wp.func(inline=True)
    def put(state: wp.ref[State], env: int, agent: int, position: int):
        state.position[env, agent] = position
        state.cell[env, position] = state.cell[env, position] + VISITOR * (agent + 1)

    @wp.func(inline=True)
    def place_at_random(state: wp.ref[State], env: int, agent: int, word: wp.uint32):
        """Put an agent on a random land cell without an agent."""
        skip = philox.below(word, wp.max(num_land - agent, 1))
        index = int(0)
        position = state.land[0, 0]
        while index < num_land and skip >= 0:
            position = state.land[0, index]
            skip -= wp.where(state.cell[env, position] < VISITOR, 1, 0)
            index += 1
        put(state, env, agent, position)

    @wp.func(inline=True)
    def place_on_side(state: wp.ref[State], env: int, agent: int, above: int, word: wp.uint32):
        """Put an agent on a random land cell without an agent, above or below the row of water."""
        free = int(0)
        index = int(0)
        while index < num_land:
            candidate = state.land[0, index]
            side = wp.where(candidate < water_start, 1, 0)
            free += wp.where(side == above and state.cell[env, candidate] < VISITOR, 1, 0)
            index += 1
        skip = philox.below(word, wp.max(free, 1))
        position = state.land[0, 0]
        index = int(0)
        while index < num_land and skip >= 0:
            position = state.land[0, index]
            side = wp.where(position < water_start, 1, 0)
            skip -= wp.where(side == above and state.cell[env, position] < VISITOR, 1, 0)
            index += 1
        put(state, env, agent, position)

    @wp.func
    def place_by_rank(state: wp.ref[State], env: int, rng: philox.Stream):
        """Give the ranks of skill, with their payments and cells, to the agents in random order."""
        index = int(0)
        while index < n:
            state.turn[env, index] = index
            index += 1
        helpers.shuffle(state.turn, env, n, rng, philox.RESET, 0)
        index = n - 1
        while index >= 0:
            agent = state.turn[env, index]
            if wp.static(is_split):
                word = philox.bits(rng, index, philox.RESET, 0)
                place_on_side(state, env, agent, state.start[0, index], word[3])
            else:
                put(state, env, agent, state.start[0, index])
            state.payment[env, agent] = state.start_payment[0, index]
            index -= 1

    @wp.func
    def start_first(state: wp.ref[State], env: int):
        """Forget the episodes before, at the first episode of a stream."""
        state.completions[env] = 0
        state.finished[env] = 0
        state.good_steps[env] = 0
        state.num_samples[env] = 0
        state.elasticity[env] = wp.float64(0.5)
        bracket = int(0)
        while bracket < num_brackets:
            state.average_rates[env, bracket] = wp.float64(0.0)
            state.rates[env, bracket] = wp.float64(0.0)
            bracket += 1

    @wp.func
    def reset(params: Params, state: wp.ref[State], env: int, rng: philox.Stream):
        """Start an episode; what episodes carry over is the number of them, and the samples of the Saez formula."""
        word = philox.bits(rng, philox.MAX_AGENTS - 1, philox.RESET, philox.MAX_DRAWS - 1)
        state.key[env] = (wp.uint64(word[0]) << wp.uint64(32)) | wp.uint64(word[1])
        if rng.episode == wp.uint32(0):
            start_first(state, env)
        completions = state.completions[env]
        state.completions[env] = completions + state.finished[env]
        state.finished[env] = 0
        state.fresh[env] = 1
        if wp.static(is_random):
            place_resources(params, state, env, rng)
        index = int(0)
        while wp.static(not is_random) and index < cells:
            state.cell[env, index] = state.terrain[0, index]
            index += 1
        index = int(0)
        while index < 2 * num_prices:
            state.price_history[env, index] = wp.float64(0.0)
            index += 1
        book = int(0)
        while book < 4:
            state.num_orders[env, book] = 0
            book += 1
        state.market_rate[env, 0] = 0.0
        state.market_rate[env, 1] = 0.0
        index = int(0)
        while index < 2 * PRICE_POINTS:
            state.price_curve[env, index] = 0.0
            index += 1
        coin = decimal(params.starting_agent_coin)
        zero = wp.float64(0.0)
        agent = int(0)
        while agent < n:
            state.coin[env, agent] = coin
            state.coin[env, n + agent] = zero
            index = agent
            while index < 4 * n:
                state.goods[env, index] = 0
                index += n
            state.open_orders[env, agent] = 0
            state.open_orders[env, n + agent] = 0
            state.labor[env, agent] = zero
            state.last_coin[env, agent] = coin
            state.last_income[env, agent] = zero
            state.last_rate[env, agent] = zero
            state.incomes[env, agent] = 0.0
            state.tax[env, agent] = 0.0
            draw_skills(params, state, env, agent, rng)
            if params.fixed_four_skill_and_loc == 0 and wp.static(not is_split):
                place_at_random(state, env, agent, philox.bits(rng, agent, philox.RESET, 0)[0])
            agent += 1
        if params.fixed_four_skill_and_loc == 1 or wp.static(is_split):
            place_by_rank(state, env, rng)
        agent = int(0)
        while agent < n:
            state.turn[env, agent] = agent
            agent += 1
        state.cycle[env] = 1
        agent = int(0)
        while agent < agents:
            state.houses[env, agent] = 0
            state.gathered[env, agent] = 0
            state.sold[env, agent] = 0
            state.bought[env, agent] = 0
            agent += 1
        start_rates(params, state, env, completions)
        update(params, state, env)
        report(state, env)

    return reset
