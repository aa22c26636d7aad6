"""Component PeriodicBracketTax: taxes on the income of a period, returned to all agents in equal parts."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.economy.gather_trade_build.economy_types import Params, Sizes, State
from warp_kernels.economy.saez_taxes import decimal, saez_taxes
from warp_kernels.episode import IO


@wp.func
def highest_rate_of(params: Params, completions: int):
    """Return the highest tax rate after a number of episodes, which annealing lowers."""
    highest = decimal(params.rate_max)
    if params.annealing == 1:
        share = decimal(params.annealing_slope) * (wp.float64(completions) - decimal(params.annealing_warmup))
        highest *= wp.clamp(share, wp.float64(0.0), wp.float64(1.0))
    return highest


def marginal_rate_of(sizes: Sizes) -> Any:
    """Build ``marginal_rate``: the rate of the bracket of an income."""
    num_brackets = sizes.num_brackets

    @wp.func(inline=True)
    def marginal_rate(state: wp.ref[State], env: int, income: wp.float64):
        rate = wp.float64(0.0)
        if income >= wp.float64(0.0):
            bracket = int(0)
            while bracket < num_brackets:
                if income >= state.cutoff[0, bracket]:
                    rate = state.rates[env, bracket]
                bracket += 1
        return rate

    return marginal_rate


def bracket_taxes(sizes: Sizes) -> tuple[Any, Any]:
    """Build ``start_rates``, for the start of an episode, and ``tax``, for every step."""
    n, num_brackets, num_rates, model = sizes.num_agents, sizes.num_brackets, sizes.num_rates, sizes.tax_model
    marginal_rate = marginal_rate_of(sizes)

    @wp.func(inline=True)
    def cutoff_of(state: wp.ref[State], env: int, bracket: int):
        return state.cutoff[0, bracket]

    set_saez_rates, remember = (None, None)
    if model == "saez":
        set_saez_rates, remember = saez_taxes(Params, wp.ref[State], num_brackets, cutoff_of)

    @wp.func(inline=True)
    def start_rates(params: Params, state: wp.ref[State], env: int, completions: int):
        """Write the rates before the first day; ``completions`` sets the highest one."""
        highest = highest_rate_of(params, completions)
        bracket = int(0)
        while bracket < num_brackets:
            rate = wp.float64(0.0)
            if wp.static(model == "given"):
                rate = wp.min(state.table[0, bracket], highest)
            elif wp.static(model == "saez"):
                rate = state.rates[env, bracket]  # from the last period: the original shows them at the start
            elif wp.static(model == "planner"):
                rate = state.table[0, 0]
            state.rates[env, bracket] = rate
            bracket += 1

    @wp.func
    def set_rates(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, rng: philox.Stream):
        """Set the rates of the new period."""
        if wp.static(model == "planner"):
            bracket = int(0)
            while bracket < num_brackets:
                choice = int(io.choice[env, n, bracket])
                if choice > 0:
                    index = wp.min(choice - 1, num_rates - 1)
                    rate = state.table[0, index]
                    if params.annealing == 0 or rate <= highest_rate_of(params, state.completions[env]):
                        state.rates[env, bracket] = rate
                bracket += 1
        elif wp.static(model == "saez"):
            set_saez_rates(params, state, env, highest_rate_of(params, state.completions[env]), rng)
        elif wp.static(model == "given"):
            start_rates(params, state, env, state.completions[env])

    @wp.func(inline=True)
    def tax_due(state: wp.ref[State], env: int, income: wp.float64):
        tax = wp.float64(0.0)
        bracket = int(0)
        while bracket < num_brackets:
            inside = wp.max(income - state.cutoff[0, bracket], wp.float64(0.0))
            if bracket + 1 < num_brackets:
                inside = wp.min(inside, state.cutoff[0, bracket + 1] - state.cutoff[0, bracket])
            tax += state.rates[env, bracket] * inside
            bracket += 1
        return tax

    @wp.func
    def collect(params: Params, state: wp.ref[State], env: int):
        """Take the taxes from inventories, not from escrow; return them in equal parts, and sort the incomes."""
        revenue = wp.float64(0.0)
        agent = int(0)
        while agent < n:
            income = state.coin[env, agent] + state.coin[env, n + agent] - state.last_coin[env, agent]
            paid = wp.min(state.coin[env, agent], tax_due(state, env, income))
            state.last_income[env, agent] = income
            state.last_rate[env, agent] = marginal_rate(state, env, income)
            state.coin[env, agent] = state.coin[env, agent] - paid
            state.tax[env, agent] = float(paid)
            revenue += paid
            at = agent
            while at > 0 and state.incomes[env, at - 1] > float(income):
                state.incomes[env, at] = state.incomes[env, at - 1]
                at -= 1
            state.incomes[env, at] = float(income)
            agent += 1
        share = revenue / wp.float64(float(n))
        agent = int(0)
        while agent < n:
            state.coin[env, agent] = state.coin[env, agent] + share
            state.last_coin[env, agent] = state.coin[env, agent] + state.coin[env, n + agent]
            agent += 1
        if wp.static(model == "saez"):
            highest = highest_rate_of(params, state.completions[env])
            agent = int(0)
            while agent < n:
                remember(state, env, state.last_income[env, agent], highest)
                agent += 1

    @wp.func(inline=True)
    def tax(params: Params, state: wp.ref[State], io: wp.ref[IO], env: int, rng: philox.Stream):
        """Set rates on the first day of a period, and collect taxes on its last day."""
        day = state.cycle[env]
        if day == 1:
            set_rates(params, state, io, env, rng)
        if day >= params.period:
            collect(params, state, env)
            day = int(0)
        state.cycle[env] = day + 1

    return start_rates, tax
