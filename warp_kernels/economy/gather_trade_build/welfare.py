"""Utility of agents, and the social welfare of their coin."""

from typing import Any

import warp as wp

from warp_kernels.economy.gather_trade_build.economy_types import (
    INV_INCOME_WEIGHTED_COIN,
    INV_INCOME_WEIGHTED_UTILITY,
    Params,
    Sizes,
    State,
)
from warp_kernels.economy.saez_taxes import decimal


def welfare(sizes: Sizes) -> tuple[Any, Any]:
    """Build ``update`` of utilities and social welfare, and ``report`` of the results of a step."""
    n = sizes.num_agents
    agents = sizes.agents
    norm, twice = wp.constant(wp.float64(n / (n - 1))), wp.constant(wp.float64(2 * n))

    @wp.func(inline=True)
    def energy_coefficient(params: Params, state: wp.ref[State], env: int):
        """Return the disutility of a unit of labor, annealed from 0."""
        weight = wp.float64(1.0)
        if params.energy_warmup_constant > 0.0:
            progress = wp.where(params.energy_warmup_auto == 1, state.good_steps[env], state.completions[env])
            weight -= wp.exp(-wp.float64(progress) / decimal(params.energy_warmup_constant))
        return weight * decimal(params.energy_cost)

    @wp.func
    def utility(coin: wp.float64, labor: wp.float64, eta: wp.float64, coefficient: wp.float64):
        """Return the isoelastic utility of coin minus the cost of labor."""
        unity = wp.float64(1.0)
        value = wp.log(wp.max(coin, unity))
        if eta < unity:
            value = (wp.pow(wp.max(coin, wp.float64(0.0)), unity - eta) - unity) / (unity - eta)
        return value - labor * coefficient

    @wp.func(inline=True)
    def total_coin(state: wp.ref[State], env: int, agent: int):
        return state.coin[env, agent] + state.coin[env, n + agent]

    @wp.func(inline=True)
    def equality_of(state: wp.ref[State], env: int, total: wp.float64):
        """Return 1 - the Gini index of coin, normalized to 0 where one agent has everything."""
        difference = wp.float64(0.0)
        agent = int(0)
        while agent < n:
            other = int(agent + 1)
            while other < n:
                difference += wp.abs(total_coin(state, env, agent) - total_coin(state, env, other))
                other += 1
            agent += 1
        gini = wp.float64(2.0) * difference / (twice * total + wp.float64(1.0e-10))
        return wp.float64(1.0) - gini * norm

    @wp.func
    def update(params: Params, state: wp.ref[State], env: int):
        """Write ``value`` and ``gain``; return the sum of the agents' gains."""
        coefficient = energy_coefficient(params, state, env)
        eta = decimal(params.isoelastic_eta)
        unity = wp.float64(1.0)
        total = wp.float64(0.0)
        weights = wp.float64(0.0)
        weighted_coin = wp.float64(0.0)
        weighted_utility = wp.float64(0.0)
        gain = wp.float64(0.0)
        agent = int(0)
        while agent < n:
            coin = total_coin(state, env, agent)
            labor = state.labor[env, agent]
            value = utility(coin, labor, eta, coefficient)
            state.gain[env, agent] = value - state.value[env, agent]
            gain += state.gain[env, agent]
            state.value[env, agent] = value
            total += coin
            weight = unity / wp.max(coin, unity)
            weights += weight
            weighted_coin += coin * weight
            weighted_utility += value * weight
            agent += 1
        equality = equality_of(state, env, total)
        ignored = decimal(params.mixing_weight_gini_vs_coin)
        social = (equality * (unity - ignored) + ignored) * total / wp.float64(float(n))
        if params.planner_reward_type == INV_INCOME_WEIGHTED_COIN:
            social = weighted_coin / weights
        elif params.planner_reward_type == INV_INCOME_WEIGHTED_UTILITY:
            social = weighted_utility / weights
        state.gain[env, n] = social - state.value[env, n]
        state.value[env, n] = social
        return gain

    @wp.func
    def report(state: wp.ref[State], env: int):
        """Write the results of a step: productivity, equality, their product, and every agent's coin and labor."""
        total = wp.float64(0.0)
        agent = int(0)
        while agent < n:
            coin = total_coin(state, env, agent)
            total += coin
            state.wealth[env, agent] = float(coin)
            state.effort[env, agent] = float(state.labor[env, agent])
            agent += 1
        equality = equality_of(state, env, total)
        agent = int(0)
        while agent < agents:
            state.productivity[env, agent] = float(total)
            state.equality[env, agent] = float(equality)
            state.welfare[env, agent] = float(equality * total)
            agent += 1

    return update, report
