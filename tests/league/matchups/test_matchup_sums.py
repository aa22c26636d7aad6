"""Sums by matchup equal PyTorch's, taken in the order of the worlds, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from league.matchups.lineups import Lineups, MatchupAdder, of_worlds
from league.matchups.matchups import scores

NUM_ENVS = 64


def expected_sums(matchups, lineups, earned, draw_margin):
    """Return sums of returns, squares and scores (K, 3 * S)."""
    worlds = of_worlds(lineups.count)
    earned = torch.from_numpy(earned).double()
    if lineups.order is not None:
        earned = torch.empty_like(earned).scatter_(1, torch.from_numpy(lineups.order[worlds]), earned)
    columns = torch.cat([earned, earned.square(), scores(earned, draw_margin)], 1)
    sums = torch.zeros((matchups, columns.shape[1]), dtype=torch.float64)
    return sums.index_add_(0, torch.from_numpy(lineups.matchup[worlds]), columns).numpy()


def make_case(generator, seats, matchups, worlds, ordered):
    """Return lineups of `worlds` worlds, in which some matchups have several lineups and some none."""
    count = generator.multinomial(worlds, np.ones(matchups + 1) / (matchups + 1))
    matchup = np.sort(generator.integers(0, matchups, matchups + 1))
    nonempty = count > 0
    order = np.array([generator.permutation(seats) for _ in count])[nonempty] if ordered else None
    policies = np.zeros((int(nonempty.sum()), seats), np.int64)
    earned = generator.normal(size=(worlds, seats)).astype(np.float32)
    earned[generator.random(earned.shape) < 0.2] = 0.0  # draws
    return Lineups(matchup[nonempty], order, policies, count[nonempty]), earned


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, NUM_ENVS),
    st.booleans(),
    st.sampled_from([0.0, 0.4, -0.3]),
)
def test_sums_equal_those_in_the_order_of_the_worlds(seed, seats, matchups, worlds, ordered, draw_margin):
    generator, adder = np.random.default_rng(seed), MatchupAdder(NUM_ENVS, seats)
    for size in (worlds, max(worlds // 2, 1)):  # buffers are used again
        lineups, earned = make_case(generator, seats, matchups, size, ordered)
        sums = np.zeros((3, matchups, seats))
        adder.add(sums, lineups, earned, draw_margin)
        expected = expected_sums(matchups, lineups, earned, draw_margin)
        np.testing.assert_array_equal(np.concatenate([*sums], 1), expected)


@pytest.mark.parametrize("seats", [2, 3])
def test_undefined_returns_rank_equal_to_all(seats):
    lineups = Lineups(np.array([0]), None, np.zeros((1, seats), np.int64), np.array([4]))
    earned = np.array([[np.nan] * seats, [1.0, np.nan, 2.0][:seats], [np.inf] * seats, [-0.0, 0.0, 0.0][:seats]])
    sums = np.zeros((3, 1, seats))
    MatchupAdder(4, seats).add(sums, lineups, earned, 0.0)
    np.testing.assert_array_equal(sums[2, 0], expected_sums(1, lineups, earned, 0.0)[0, 2 * seats :])


def test_sums_are_added_to_earlier_ones():
    lineups = Lineups(np.array([1]), None, np.zeros((1, 2), np.int64), np.array([3]))
    sums, adder = np.zeros((3, 2, 2)), MatchupAdder(3, 2)
    for _ in range(2):
        adder.add(sums, lineups, np.full((3, 2), 2.0, np.float32), 0.0)
    assert sums[:, 1].tolist() == [[12.0, 12.0], [24.0, 24.0], [3.0, 3.0]]
    assert not sums[:, 0].any()
