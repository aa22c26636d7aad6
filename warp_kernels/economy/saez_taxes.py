"""Tax rates by the formula of Saez (2001), "Using Elasticities to Derive Optimal Income Tax Rates", with 100 bins.

A world estimates the elasticity and the distribution of incomes from the last 500 incomes of its episodes. Until
it has 500, its rates are random.
"""

from typing import Any

import warp as wp

from warp_kernels import philox

SAMPLES = 500
"""Number of incomes that the formula uses."""
BINS = 100
"""Number of bins of these incomes."""

_BINS: int = wp.constant(BINS)
_SAMPLES: int = wp.constant(SAMPLES)
_WELFARE: int = wp.constant(BINS + 1)  # first column of the welfare weights in State.bin
_RATES: int = wp.constant(2 * (BINS + 1))  # first column of the rates
_ZERO = wp.constant(wp.float64(0.0))
_ONE = wp.constant(wp.float64(1.0))
_HALF = wp.constant(wp.float64(0.5))
_TINY = wp.constant(wp.float64(1.0e-9))
_COUNT = wp.constant(wp.float64(SAMPLES))


@wp.func(inline=True)
def decimal(number: float) -> wp.float64:
    """Return a parameter rounded to six decimals in double precision: as float32, 0.21 is 6e-9 too small."""
    million = wp.float64(1000000.0)
    return wp.rint(wp.float64(number) * million) / million


def saez_taxes(params_type: Any, state_type: Any, num_brackets: int, cutoff_of: Any) -> tuple[Any, Any]:
    """Build ``set_rates``, for a new period, and ``remember``, which keeps the income of an agent.

    Args:
        params_type: Params with ``rate_min``, ``saez_fixed_elas`` (negative: estimated) and ``uniform_pareto_weights``.
        state_type: State, or a reference to it, with float64 arrays ``sample`` (E, 2 ``SAMPLES``), ``elasticity`` (E,),
            ``rates`` and ``average_rates`` (E, B), ``bin`` (E, 3 (``BINS`` + 1)), and ``num_samples`` (E,).
        num_brackets: Number of tax brackets B.
        cutoff_of: Warp function that returns the lowest income of a bracket of a world in double precision.
    """

    @wp.func
    def remember(state: state_type, env: int, income: wp.float64, highest: wp.float64):
        """Replace the oldest income and its marginal rate, which is at most the highest one."""
        rate = _ZERO
        bracket = int(0)
        while bracket < num_brackets:
            if income >= _ZERO and income >= cutoff_of(state, env, bracket):
                rate = wp.min(state.rates[env, bracket], highest)
            bracket += 1
        slot = state.num_samples[env] % _SAMPLES
        state.sample[env, slot] = income
        state.sample[env, _SAMPLES + slot] = rate
        count = state.num_samples[env] + 1
        if count >= 2 * _SAMPLES:
            count -= _SAMPLES
        state.num_samples[env] = count

    @wp.func
    def update_elasticity(state: state_type, env: int):
        """Regress log income on log (1 - rate); keep 2 % of the slope and 98 % of the last estimate."""
        count = _ZERO
        sum_x = _ZERO
        sum_y = _ZERO
        sum_rate = _ZERO
        index = int(0)
        while index < _SAMPLES:
            income = state.sample[env, index]
            rate = state.sample[env, _SAMPLES + index]
            if income > _ZERO and rate < _ONE:
                count += _ONE
                sum_x += wp.log(wp.max(_ONE - rate, _TINY))
                sum_y += wp.log(wp.max(income, _TINY))
                sum_rate += rate
            index += 1
        mean_x = sum_x / wp.max(count, _ONE)
        mean_y = sum_y / wp.max(count, _ONE)
        mean_rate = sum_rate / wp.max(count, _ONE)
        square = _ZERO
        product = _ZERO
        spread = _ZERO
        index = int(0)
        while index < _SAMPLES:
            income = state.sample[env, index]
            rate = state.sample[env, _SAMPLES + index]
            if income > _ZERO and rate < _ONE:
                x = wp.log(wp.max(_ONE - rate, _TINY)) - mean_x
                square += x * x
                product += x * (wp.log(wp.max(income, _TINY)) - mean_y)
                spread += (rate - mean_rate) * (rate - mean_rate)
            index += 1
        if count >= wp.float64(10.0) and wp.sqrt(spread / count) >= wp.float64(1.0e-6):
            slope = wp.max(product / square, _ZERO)
            old = state.elasticity[env]
            state.elasticity[env] = wp.float64(0.02) * slope + wp.float64(0.98) * old

    @wp.func
    def weight(params: params_type, income: wp.float64):
        """Return the Pareto weight of an income."""
        value = _ONE / wp.max(income, _ONE)
        if params.uniform_pareto_weights == 1:
            value = _ONE
        return value

    @wp.func
    def edge(top: wp.float64, index: int):
        """Return the left edge of a bin."""
        return wp.where(index == _BINS, top, wp.float64(index) * (top / wp.float64(100.0)))

    @wp.func
    def fill_bins(params: params_type, state: state_type, env: int, elasticity: wp.float64):
        """Write the tax rate of every bin; bins without incomes lie on lines between those with incomes."""
        top = cutoff_of(state, env, num_brackets - 1)
        index = int(0)
        while index <= _BINS:
            state.bin[env, index] = _ZERO
            index += 1
        weight_below = _ZERO
        weight_above = _ZERO
        num_above = _ZERO
        sum_above = _ZERO
        index = int(0)
        while index < _SAMPLES:
            income = state.sample[env, index]
            if income < _ZERO:
                weight_below += weight(params, _ZERO)
            elif income > top:
                weight_above += weight(params, income)
                num_above += _ONE
                sum_above += income
            else:
                at = wp.min(int(income / top * wp.float64(100.0)), _BINS - 1)
                if income < edge(top, at):
                    at -= 1
                elif at + 1 < _BINS and income >= edge(top, at + 1):
                    at += 1
                state.bin[env, at] = state.bin[env, at] + _ONE
            index += 1
        total = weight_below + weight_above
        index = int(0)
        while index < _BINS:
            middle = _HALF * (edge(top, index) + edge(top, index + 1))
            value = state.bin[env, index] * weight(params, middle)
            state.bin[env, _WELFARE + index] = value
            total += value
            index += 1
        total += _TINY
        # From the top down: mean weights of all incomes above the left edge of a bin.
        welfare = weight_above / total
        share = num_above / _COUNT
        last = welfare / (share + _TINY)
        average = _ZERO
        if num_above > _ZERO:
            average = sum_above / num_above
            average = average / (average - top + _TINY)
        state.bin[env, _RATES + _BINS] = (_ONE - last) / (_ONE - last + average * elasticity + _TINY)
        above = share  # probability of an income above the bin
        index = _BINS - 1
        while index >= 0:
            density = state.bin[env, index] / _COUNT
            welfare += state.bin[env, _WELFARE + index] / total
            share += density
            current = welfare / (share + _TINY)
            g = _HALF * (current + last)
            last = current
            left = edge(top, index)
            right = edge(top, index + 1)
            beyond = wp.clamp(above + _HALF * density, _ZERO, _ONE)
            a = _HALF * (left + right) * density / (beyond + _TINY) / (right - left)
            state.bin[env, _RATES + index] = (_ONE - g) / (_ONE - g + a * elasticity + _TINY)
            above += density
            index -= 1
        # Rates of the bins without incomes.
        real = int(-1)
        real_rate = _ZERO
        index = int(0)
        while index <= _BINS:
            if index == _BINS or state.bin[env, index] > _ZERO:
                rate = state.bin[env, _RATES + index]
                gap = int(real + 1)
                while gap < index:
                    part = wp.float64(gap - real) / wp.float64(index - real)
                    state.bin[env, _RATES + gap] = real_rate + (rate - real_rate) * part
                    gap += 1
                real = int(index)
                real_rate = rate
            index += 1

    @wp.func
    def set_rates(params: params_type, state: state_type, env: int, highest: wp.float64, rng: philox.Stream):
        """Write the rates of the brackets: random ones at first, then the means of their bins."""
        lowest = decimal(params.rate_min)
        if state.num_samples[env] < _SAMPLES:
            bracket = int(0)
            while bracket < num_brackets:
                share = wp.float64(philox.unit(philox.bits(rng, bracket, philox.STEP, 2)[0]))
                state.rates[env, bracket] = lowest + (highest - lowest) * share
                bracket += 1
        else:
            update_elasticity(state, env)
            elasticity = state.elasticity[env]
            if params.saez_fixed_elas >= 0.0:
                elasticity = decimal(params.saez_fixed_elas)
            fill_bins(params, state, env, elasticity)
            top = cutoff_of(state, env, num_brackets - 1)
            previous = _ZERO
            bracket = int(0)
            while bracket < num_brackets:
                rate = state.bin[env, _RATES + _BINS]
                if bracket + 1 < num_brackets:
                    right = cutoff_of(state, env, bracket + 1)
                    tax = _ZERO
                    index = int(0)
                    while index < _BINS:
                        size = edge(top, index + 1) - edge(top, index)
                        inside = wp.clamp(right - edge(top, index), _ZERO, size)
                        tax += state.bin[env, _RATES + index] * inside
                        index += 1
                    tax = wp.max(tax, _ZERO)
                    rate = (tax - previous) / (right - cutoff_of(state, env, bracket))
                    previous = tax
                rate = wp.clamp(rate, lowest, highest)
                state.rates[env, bracket] = rate
                old = state.average_rates[env, bracket]
                state.average_rates[env, bracket] = wp.float64(0.99) * old + wp.float64(0.01) * rate
                bracket += 1

    return set_rates, remember
