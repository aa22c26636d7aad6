"""OneStepEconomy: workers choose labor under bracket taxes of a planner, as in ai-economist 1.7.1.

A tax period begins with the planner's rates, or the rates of Saez's formula, and ends with taxes on the income since
then, which all workers share equally. Rows 0 to n - 1 are workers, row n is the planner.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.economy.saez_taxes import BINS, SAMPLES, saez_taxes
from warp_kernels.episode import IO, episode_key, keyed_stream
from warp_kernels.rules import Rules, world_phase

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
    isoelastic: bool  # utility is isoelastic in coin and linear in labor
    weighs_equality: bool  # welfare is equality times productivity
    saez: bool  # rates come from the formula of Saez

    def saez_shapes(self) -> dict[str, tuple[int]]:
        """Return the shapes of the fields of State that only the formula of Saez needs."""
        columns = {"rates": self.brackets, "average_rates": self.brackets, "sample": 2 * SAMPLES, "bin": 3 * (BINS + 1)}
        return {name: (count * self.saez,) for name, count in columns.items()}


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
    rate_min: float  # smallest rate, in [0, 1]
    rate_max: float  # largest rate, in [0, 1]
    tax_limit: float  # largest rate at present, as a fraction of rate_max, in [0, 1]
    saez_fixed_elas: float  # elasticity of incomes in the formula of Saez [1]; negative: estimated
    uniform_pareto_weights: int  # 1: that formula weights all incomes equally, 0: inversely


@wp.struct
class State:
    """State of E worlds, n workers, B brackets, R rates."""

    skill: wp.array2d(dtype=float)  # (E, n) income per hour [coin/hour]
    cutoff: wp.array2d(dtype=float)  # (E, B) lowest income of each bracket [coin]
    rate: wp.array2d(dtype=float)  # (E, R) rates to choose from; the rates of the B brackets without a choice
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
    # Of the formula of Saez, whose samples and means last over episodes.
    key: wp.array(dtype=wp.uint64)  # (E,) random key of the episode
    fresh: wp.array(dtype=int)  # (E,) 1: no step of this episode has been played
    rates: wp.array2d(dtype=wp.float64)  # (E, B) rates of the formula, of which `rate` is a copy [1]
    average_rates: wp.array2d(dtype=wp.float64)  # (E, B) running mean of these rates [1]
    elasticity: wp.array(dtype=wp.float64)  # (E,) running estimate of the elasticity of incomes
    sample: wp.array2d(dtype=wp.float64)  # (E, 1,000) last incomes [coin], then their marginal rates
    num_samples: wp.array(dtype=int)  # (E,) number of incomes so far
    bin: wp.array2d(dtype=wp.float64)  # (E, 303) counts, welfare weights and rates of the income bins


def worker_width(s: Sizes) -> int:
    """Return the width of a worker's observation."""
    return s.brackets + s.workers + 6


def planner_width(s: Sizes) -> int:
    """Return the width of the planner's observation."""
    return s.brackets + s.workers + 6 + 3 * s.workers


@cache
def rules(s: Sizes) -> Rules:
    """Build the rules."""
    workers, brackets, rates, saez = s.workers, s.brackets, s.rates, s.saez
    isoelastic, weighs_equality, few, chooses = s.isoelastic, s.weighs_equality, workers < EXACT_GINI, rates > 0
    count, next_count, share_of_others = float(workers), float(workers + 1), (workers - 1) / workers

    @wp.func
    def cutoff_of(state: State, env: int, bracket: int):
        return wp.float64(state.cutoff[env, bracket])

    set_saez_rates, remember = saez_taxes(Params, State, brackets, cutoff_of) if saez else (None, None)

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
        if wp.static(saez):
            if state.fresh[env] == 1:  # the original starts episodes at its mean rates, without showing them
                rate = wp.min(float(state.average_rates[env, 0]), params.tax_limit * params.rate_max)
        return rate

    @wp.func
    def taxes_due(params: Params, state: State, env: int, income: float):
        """Return the taxes on an income [coin]."""
        tax = float(0.0)
        for bracket in range(brackets):
            part = wp.max(income - state.cutoff[env, bracket], 0.0)
            if bracket + 1 < brackets:
                part = wp.min(part, state.cutoff[env, bracket + 1] - state.cutoff[env, bracket])
            tax += rate_of(params, state, env, bracket) * part
        return tax

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
        difference = float(0.0)
        for worker in range(workers):
            coin = state.coin[env, worker]
            for other in range(workers):
                other_coin = state.coin[env, other]
                if wp.static(few):
                    difference += wp.abs(coin - other_coin)
                # A term of a cumulative sum in sorted order.
                elif other_coin < coin or (other_coin == coin and other <= worker):
                    difference += other_coin
        if wp.static(few):
            return 1.0 - difference / (2.0 * count * total + 1e-10) / share_of_others
        return 2.0 / next_count * difference / (total + 1e-10)

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
            if wp.static(saez):
                remember(state, env, wp.float64(income), wp.float64(params.tax_limit * params.rate_max))
            revenue += paid
        for worker in range(workers):
            state.coin[env, worker] = state.coin[env, worker] + revenue / count
            state.income[env, worker] = 0.0
            last_income = state.last_income[env, worker]
            rank = int(0)
            for other in range(workers):
                other_income = state.last_income[env, other]
                rank += int(other_income < last_income or (other_income == last_income and other < worker))
            state.sorted_income[env, rank] = last_income

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
        if wp.static(saez):
            state.fresh[env] = 0
            if elapsed == 0:
                highest = wp.float64(params.tax_limit * params.rate_max)
                set_saez_rates(params, state, env, highest, keyed_stream(io, env, state.key[env]))
                for bracket in range(brackets):
                    state.rate[env, bracket] = float(state.rates[env, bracket])
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
        io.obs[env, agent, brackets] = float(elapsed == 0)
        io.obs[env, agent, brackets + 1] = float(elapsed + 1 >= params.period)
        column = int(brackets + 2)
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
        """Start without coin, labor and taxes; the samples and means of the formula of Saez stay."""
        if wp.static(saez):
            state.key[env] = episode_key(rng)
            state.fresh[env] = 1
            if rng.episode == wp.uint32(0):
                state.num_samples[env] = 0
                state.elasticity[env] = wp.float64(0.5)
                for bracket in range(brackets):
                    state.rate[env, bracket] = 0.0
                    state.rates[env, bracket] = wp.float64(0.0)
                    state.average_rates[env, bracket] = wp.float64(0.0)
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
        phases=(
            world_phase(
                play,
                reads=(
                    "skill cutoff rate rate_index period_step coin labor production income last_income utility key "
                    "fresh rates average_rates elasticity sample num_samples bin io.choice io.step"
                ),
                writes=(
                    "rate rate_index period_step coin labor production income last_income sorted_income "
                    "last_marginal_rate utility fresh rates average_rates elasticity sample num_samples bin "
                    "io.reward"
                ),
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        max_unroll=4,
    )
