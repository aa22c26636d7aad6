"""OneStepEconomy: workers choose labor under bracket taxes of a planner, as in ai-economist 1.7.1.

A tax period begins with the planner's rates and ends with taxes on the income since its beginning, which all workers
share equally. Rows 0 to n - 1 are workers, row n is the planner.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase

__all__ = ["HOURS", "Params", "Sizes", "State", "planner_width", "rules", "worker_width"]

HOURS: int = wp.constant(100)
"""Most hours of labor in a step."""
TIE = wp.constant(1e-6)  # tolerance of comparisons of rates with their limit
EXACT_GINI = 30  # fewest workers for which the original uses its fast formula of the Gini index


@dataclass(frozen=True)
class Sizes:
    """Settings that the rules use as constants."""

    workers: int  # number of workers n
    brackets: int  # number of tax brackets B
    rates: int  # number of rates R that the planner chooses from; 0: rates are fixed
    isoelastic: bool  # utility of coin is isoelastic and that of labor linear
    weighs_equality: bool  # welfare is equality times productivity


@wp.struct
class Params:
    """Environment parameters."""

    episode_length: int  # length of an episode [steps]
    period: int  # length of a tax period [steps]
    mask_first_step: int  # 1: workers do not work in the first step
    labor_cost: float  # coefficient of labor in utilities
    labor_exponent: float  # exponent of labor [hours] in "coin_minus_labor_cost"
    isoelastic_eta: float  # shape of the isoelastic utility, in [0, 1]
    mixing_weight_gini_vs_coin: float  # weight of productivity against equality, in [0, 1]
    payment_max_skill_multiplier: float  # scale of observed skills [coin/hour]
    rate_max: float  # largest rate
    tax_limit: float  # largest rate at present, as a fraction of rate_max


@wp.struct
class State:
    """State of E worlds, n workers, B brackets, R rates."""

    skill: wp.array2d(dtype=float)  # (E, n) income per hour [coin/hour]
    cutoff: wp.array2d(dtype=float)  # (E, B) lowest income of each bracket [coin]
    rate: wp.array2d(dtype=float)  # (E, R) rates to choose from; the rates of the B brackets if they are fixed
    rate_index: wp.array2d(dtype=int)  # (E, B) index of each bracket's rate
    period_step: wp.array(dtype=int)  # (E,) steps since the start of the tax period [steps]
    coin: wp.array2d(dtype=float)  # (E, n) [coin]
    labor: wp.array2d(dtype=float)  # (E, n) labor of the last step with labor [hours]
    production: wp.array2d(dtype=float)  # (E, n) income before taxes since the start [coin]
    income: wp.array2d(dtype=float)  # (E, n) income of the present tax period [coin]
    last_income: wp.array2d(dtype=float)  # (E, n) income of the last period [coin]
    sorted_income: wp.array2d(dtype=float)  # (E, n) the same in ascending order [coin]
    last_marginal_rate: wp.array2d(dtype=float)  # (E, n) marginal rate of that income
    utility: wp.array2d(dtype=float)  # (E, n + 1) utilities of the workers and social welfare


def worker_width(s: Sizes) -> int:
    """Return the width of a worker's observation."""
    return s.brackets + s.workers + 6


def planner_width(s: Sizes) -> int:
    """Return the width of the planner's observation."""
    return s.brackets + s.workers + 6 + 3 * s.workers


@cache
def rules(s: Sizes) -> Rules:
    """Build the rules."""
    workers, brackets, rates = s.workers, s.brackets, s.rates
    isoelastic, weighs_equality, few = s.isoelastic, s.weighs_equality, s.workers < EXACT_GINI
    chooses = rates > 0
    count, next_count, share_of_others = float(workers), float(workers + 1), (workers - 1) / workers

    @wp.func
    def rate_of(params: Params, state: State, env: int, bracket: int):
        """Return the rate of a bracket."""
        rate = float(0.0)
        if wp.static(chooses):
            rate = state.rate[env, state.rate_index[env, bracket]]
        else:
            rate = wp.min(state.rate[env, bracket], params.tax_limit * params.rate_max)
        return rate

    @wp.func
    def marginal_rate(params: Params, state: State, env: int, income: float):
        """Return the rate of the bracket of an income."""
        rate = float(0.0)
        for bracket in range(brackets):
            if income >= state.cutoff[env, bracket]:
                rate = rate_of(params, state, env, bracket)
        return rate

    @wp.func
    def taxes_due(params: Params, state: State, env: int, income: float):
        """Return the taxes on an income [coin]."""
        due = float(0.0)
        for bracket in range(brackets):
            part = wp.max(income - state.cutoff[env, bracket], 0.0)
            if bracket + 1 < brackets:
                part = wp.min(part, state.cutoff[env, bracket + 1] - state.cutoff[env, bracket])
            due += rate_of(params, state, env, bracket) * part
        return due

    @wp.func
    def total_coin(state: State, env: int):
        total = float(0.0)
        for worker in range(workers):
            total += state.coin[env, worker]
        return total

    @wp.func
    def equality(state: State, env: int):
        """Return 1 minus the Gini index of the workers' coin."""
        total = total_coin(state, env)
        found = float(0.0)
        for worker in range(workers):
            own = state.coin[env, worker]
            for other in range(workers):
                there = state.coin[env, other]
                if wp.static(few):
                    found += wp.abs(own - there)
                elif there < own or (there == own and other <= worker):  # a term of a cumulative sum in sorted order
                    found += there
        if wp.static(few):
            return 1.0 - found / (2.0 * count * total + 1e-10) / share_of_others
        return 2.0 / next_count * found / (total + 1e-10)

    @wp.func
    def utility_of(params: Params, state: State, env: int, worker: int):
        """Return the utility of a worker."""
        coin = state.coin[env, worker]
        labor = state.labor[env, worker]
        if wp.static(isoelastic):
            gain = wp.log(wp.max(coin, 1.0))
            if params.isoelastic_eta < 1.0:
                power = 1.0 - params.isoelastic_eta
                gain = (wp.pow(coin, power) - 1.0) / power
            return gain - labor * params.labor_cost
        return coin - wp.pow(labor, params.labor_exponent) * params.labor_cost

    @wp.func
    def welfare(params: Params, state: State, env: int):
        """Return the social welfare."""
        if wp.static(weighs_equality):
            weight = 1.0 - params.mixing_weight_gini_vs_coin
            return (weight * equality(state, env) + 1.0 - weight) * total_coin(state, env) / count
        total = float(0.0)
        weights = float(0.0)
        for worker in range(workers):
            weight = 1.0 / wp.max(state.production[env, worker], 1.0)
            weights += weight
            total += weight * state.utility[env, worker]
        return total / weights

    @wp.func
    def collect(params: Params, state: State, env: int):
        """Tax the incomes of the period and share the taxes."""
        revenue = float(0.0)
        for worker in range(workers):
            income = state.income[env, worker]
            paid = wp.min(state.coin[env, worker], taxes_due(params, state, env, income))
            state.coin[env, worker] = state.coin[env, worker] - paid
            state.last_income[env, worker] = income
            state.last_marginal_rate[env, worker] = marginal_rate(params, state, env, income)
            revenue += paid
        for worker in range(workers):
            state.coin[env, worker] = state.coin[env, worker] + revenue / count
            state.income[env, worker] = 0.0
            own = state.last_income[env, worker]
            rank = int(0)
            for other in range(workers):
                there = state.last_income[env, other]
                rank += int(there < own or (there == own and other < worker))
            state.sorted_income[env, rank] = own

    @wp.func(inline=True)
    def play(params: Params, state: State, io: IO, env: int):
        """Let workers work, set new rates, collect taxes; write all changing fields and the rewards."""
        elapsed = state.period_step[env]
        for worker in range(workers):
            hours = float(io.choice[env, worker, 0])
            if hours > 0.0:
                state.labor[env, worker] = hours
                pay = hours * state.skill[env, worker]
                state.production[env, worker] = state.production[env, worker] + pay
                state.income[env, worker] = state.income[env, worker] + pay
                state.coin[env, worker] = state.coin[env, worker] + pay
        if wp.static(chooses):
            if elapsed == 0:
                for bracket in range(brackets):
                    choice = int(io.choice[env, workers, bracket])
                    if choice > 0:
                        state.rate_index[env, bracket] = choice - 1
        elapsed += 1
        if elapsed >= params.period:
            collect(params, state, env)
            elapsed = 0
        state.period_step[env] = elapsed
        for worker in range(workers):
            utility = utility_of(params, state, env, worker)
            io.reward[env, worker] = utility - state.utility[env, worker]
            state.utility[env, worker] = utility
        total = welfare(params, state, env)
        io.reward[env, workers] = total - state.utility[env, workers]
        state.utility[env, workers] = total

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark rates up to the limit in every bracket for the planner, and all hours for workers."""
        if agent == workers:
            io.to_move[env, agent] = state.period_step[env] == 0
            if wp.static(chooses):
                limit = params.tax_limit * state.rate[env, rates - 1] + TIE
                column = int(0)
                for _ in range(brackets):
                    io.action_mask[env, agent, column] = True
                    for choice in range(rates):
                        io.action_mask[env, agent, column + 1 + choice] = state.rate[env, choice] <= limit
                    column += rates + 1
            else:
                io.action_mask[env, agent, 0] = True
        else:
            io.to_move[env, agent] = io.step[env] > 0 or params.mask_first_step == 0
            for hours in range(HOURS + 1):
                io.action_mask[env, agent, hours] = True

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the tax system, then what a worker or the planner sees."""
        for bracket in range(brackets):
            io.obs[env, agent, bracket] = rate_of(params, state, env, bracket)
        elapsed = state.period_step[env]
        period = float(params.period)
        column = int(brackets)
        io.obs[env, agent, column] = float(elapsed == 0)
        io.obs[env, agent, column + 1] = float(elapsed + 1 >= params.period)
        column += 2
        for worker in range(workers):
            io.obs[env, agent, column + worker] = state.sorted_income[env, worker] / period
        column += workers
        phase = float(elapsed + 1) / period
        time = float(io.step[env]) / float(params.episode_length)
        if agent < workers:
            io.obs[env, agent, column] = marginal_rate(params, state, env, state.income[env, agent])
            io.obs[env, agent, column + 1] = phase
            io.obs[env, agent, column + 2] = state.skill[env, agent] / params.payment_max_skill_multiplier
            io.obs[env, agent, column + 3] = time
        else:
            io.obs[env, agent, column] = phase
            io.obs[env, agent, column + 1] = time
            io.obs[env, agent, column + 2] = equality(state, env)
            io.obs[env, agent, column + 3] = total_coin(state, env) / count / 1000.0
            column += 4
            for worker in range(workers):
                io.obs[env, agent, column] = marginal_rate(params, state, env, state.income[env, worker])
                io.obs[env, agent, column + 1] = state.last_income[env, worker] / period
                io.obs[env, agent, column + 2] = state.last_marginal_rate[env, worker]
                column += 3

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Start without coin, labor and taxes."""
        for bracket in range(brackets):
            state.rate_index[env, bracket] = 0
        state.period_step[env] = 0
        for worker in range(workers):
            state.coin[env, worker] = 0.0
            state.labor[env, worker] = 0.0
            state.production[env, worker] = 0.0
            state.income[env, worker] = 0.0
            state.last_income[env, worker] = 0.0
            state.sorted_income[env, worker] = 0.0
            state.last_marginal_rate[env, worker] = 0.0
            state.utility[env, worker] = utility_of(params, state, env, worker)
        state.utility[env, workers] = welfare(params, state, env)

    return Rules(
        key=f"one_step_economy {s}",
        params=Params,
        state=State,
        num_agents=workers + 1,
        action_size=brackets if chooses else 1,
        continuous=False,
        phases=(world_phase(play),),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        max_unroll=4,
    )
