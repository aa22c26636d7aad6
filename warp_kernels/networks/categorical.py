"""Independent categorical distributions over discrete actions, as in ``trainers.models.discrete_heads``."""

from functools import reduce
from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.networks.activations import exponential, vector
from warp_kernels.networks.distribution import Distribution
from warp_kernels.networks.mlp import padded

__all__ = ["ILLEGAL", "categorical", "in_order", "legal_of"]

ILLEGAL: float = wp.constant(-1.0e9)
"""Logit of an illegal action."""


def categorical(sizes: tuple[int, ...], length: int, masked: bool) -> Distribution:
    """Return one or several independent categoricals over a vector of logits.

    Args:
        sizes: Number of choices of each categorical.
        length: Length of the vector of outputs.
        masked: Some choices are illegal, see ``mask``.
    """
    V, legal = vector(length), legal_of(sum(sizes), length, masked)
    starts = [sum(sizes[:k]) for k in range(len(sizes))]

    def probabilities(start: int, size: int) -> Any:
        # whole vector registers, also after the last choice
        return exponential(length, start, min(start + padded(size), length))

    def normalized(start: int, size: int) -> Any:
        end, exponentials = start + size, probabilities(start, size)

        @wp.func(inline=True)
        def log_softmax(o: V):
            v = o
            top = v[start]
            for j in range(start + 1, end):
                top = wp.max(top, v[j])
            p = exponentials(v, top)
            total_mass = float(0.0)
            for j in range(start, end):
                total_mass += p[j]
            shift = top + wp.log(total_mass)
            for j in range(start, end):
                v[j] = v[j] - shift
            return v

        return log_softmax

    all_normalized = _chained([normalized(start, size) for start, size in zip(starts, sizes, strict=True)], V)

    @wp.func(inline=True)
    def prepare(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        return all_normalized(legal(o, mask, row))

    def drawn(k: int, start: int, size: int) -> Any:
        exponentials = probabilities(start, size)

        @wp.func(inline=True)
        def draw(v: V, rng: philox.Stream, agent: int, greedy: int, choice: wp.array2d(dtype=wp.int64), row: int):
            pick = int(0)
            if greedy == 1:
                top = v[start]
                for j in range(1, size):
                    if v[start + j] > top:
                        top = v[start + j]
                        pick = j
            else:
                word = philox.bits(rng, agent, philox.POLICY, k // 4)[k % 4]
                u = philox.unit(word)
                p = exponentials(v, 0.0)
                mass = float(0.0)
                is_drawn = bool(False)
                for j in range(size):
                    mass += p[start + j]
                    # The last possible choice, if rounding leaves the sum below u.
                    if not is_drawn and p[start + j] > 0.0:
                        pick = j
                        is_drawn = u < mass
            choice[row, k] = wp.int64(pick)

        return draw

    draws = [drawn(k, start, size) for k, (start, size) in enumerate(zip(starts, sizes, strict=True))]

    draw_all = in_order(draws, V)

    @wp.func(inline=True)
    def sample(
        v: V,
        rng: philox.Stream,
        agent: int,
        greedy: int,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
    ):
        draw_all(v, rng, agent, greedy, choice, row)

    def summed(terms: list[Any]) -> Any:
        def plus(first: Any, second: Any) -> Any:
            @wp.func(inline=True)
            def added(v: V, choice: wp.array2d(dtype=wp.int64), row: int):
                return first(v, choice, row) + second(v, choice, row)

            return added

        return reduce(plus, terms)

    def chosen(k: int, start: int) -> Any:
        @wp.func(inline=True)
        def of_choice(v: V, choice: wp.array2d(dtype=wp.int64), row: int):
            return v[start + int(choice[row, k])]

        return of_choice

    def entropy_of(start: int, size: int) -> Any:
        exponentials = probabilities(start, size)

        @wp.func(inline=True)
        def spread(v: V, choice: wp.array2d(dtype=wp.int64), row: int):
            p = exponentials(v, 0.0)
            total_entropy = float(0.0)
            for j in range(start, start + size):
                total_entropy -= p[j] * v[j]
            return total_entropy

        return spread

    all_log_probs = summed([chosen(k, start) for k, start in enumerate(starts)])
    all_entropies = summed([entropy_of(start, size) for start, size in zip(starts, sizes, strict=True)])

    @wp.func(inline=True)
    def log_prob(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        return all_log_probs(v, choice, row)

    @wp.func(inline=True)
    def entropy(v: V, choice: wp.array2d(dtype=wp.int64), control: wp.array2d(dtype=float), row: int):
        return all_entropies(v, choice, row)

    def slope_of(k: int, start: int, size: int) -> Any:
        spread, exponentials = entropy_of(start, size), probabilities(start, size)

        @wp.func(inline=True)
        def slope(d: V, v: V, choice: wp.array2d(dtype=wp.int64), row: int, by_log_prob: float, by_entropy: float):
            entropy = spread(v, choice, row)
            column = start + int(choice[row, k])
            p = exponentials(v, 0.0)
            e = d
            for j in range(start, start + size):
                e[j] = -p[j] * (by_log_prob + by_entropy * (v[j] + entropy))
                if j == column:
                    e[j] = e[j] + by_log_prob
            return e

        return slope

    slopes = [slope_of(k, start, size) for k, (start, size) in enumerate(zip(starts, sizes, strict=True))]

    def after(first: Any, second: Any) -> Any:
        @wp.func(inline=True)
        def chained(d: V, v: V, choice: wp.array2d(dtype=wp.int64), row: int, by_log_prob: float, by_entropy: float):
            return second(first(d, v, choice, row, by_log_prob, by_entropy), v, choice, row, by_log_prob, by_entropy)

        return chained

    all_slopes = reduce(after, slopes)

    @wp.func(inline=True)
    def gradient(
        v: V,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        row: int,
        by_log_prob: float,
        by_entropy: float,
    ):
        return all_slopes(V(), v, choice, row, by_log_prob, by_entropy)

    return Distribution(prepare, sample, log_prob, entropy, gradient)


def legal_of(choices: int, length: int, masked: bool) -> Any:
    """Build ``legal(o, mask, row)``, which returns outputs with `ILLEGAL` at illegal choices."""
    V = vector(length)

    @wp.func(inline=True)
    def legal(o: V, mask: wp.array2d(dtype=wp.bool), row: int):
        v = o
        if wp.static(masked):
            for j in range(choices):
                if not mask[row, j]:
                    v[j] = ILLEGAL
        return v

    return legal


def in_order(draws: list[Any], V: type) -> Any:
    """Return the function that writes the components of an action in order."""

    def then(first: Any, second: Any) -> Any:
        @wp.func(inline=True)
        def chained(v: V, rng: philox.Stream, agent: int, greedy: int, choice: wp.array2d(dtype=wp.int64), row: int):
            first(v, rng, agent, greedy, choice, row)
            second(v, rng, agent, greedy, choice, row)

        return chained

    return reduce(then, draws)


def _chained(functions: list[Any], V: type) -> Any:
    """Return the function that applies functions of one vector in order."""

    def then(first: Any, second: Any) -> Any:
        @wp.func(inline=True)
        def chained(v: V):
            return second(first(v))

        return chained

    return reduce(then, functions)
