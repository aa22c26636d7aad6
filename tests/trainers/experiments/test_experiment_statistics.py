"""Statistics of runs on several tasks, by hand; tests/libraries/test_experiments.py compares them with rliable's."""

import numpy as np
import pytest

from trainers.experiments import statistics

SCORES = {"a": np.array([0.0, 0.2, 0.4, 2.0]), "b": np.array([1.0, 1.0, 1.0, 1.0])}


def test_measures_over_tasks():
    tasks = list(SCORES.values())
    assert statistics.mean(tasks) == pytest.approx((0.65 + 1.0) / 2)
    assert statistics.median(tasks) == pytest.approx((0.65 + 1.0) / 2)
    assert statistics.interquartile_mean(tasks) == pytest.approx((0.4 + 1.0 + 1.0 + 1.0 + 1.0) / 5 - 0.03)
    assert statistics.optimality_gap(tasks) == pytest.approx((1.0 + 0.8 + 0.6 + 0.0) / 4 / 2)


def test_runs_are_drawn_within_their_task():
    a, b = statistics.resampled(SCORES, 100)
    assert (a.shape, b.shape) == ((100, 4), (100, 4))
    assert set(a.ravel()) <= set(SCORES["a"])
    assert set(b.ravel()) == {1.0}
    assert len({tuple(row) for row in a}) > 50


def test_intervals_contain_the_estimate_and_are_points_without_spread():
    value, low, high = statistics.estimate(statistics.mean, SCORES)
    assert low < value < high
    assert statistics.estimate(statistics.mean, {"b": SCORES["b"]}) == (1.0, 1.0, 1.0)


def test_profile_is_the_share_of_runs_above_each_threshold():
    shares, low, high = statistics.performance_profile(SCORES, np.array([0.1, 0.5, 1.5]))
    np.testing.assert_allclose(shares, [(0.75 + 1.0) / 2, (0.25 + 1.0) / 2, 0.25 / 2])
    assert (low <= shares).all()
    assert (shares <= high).all()


def test_improvement_counts_pairs_of_runs_and_half_of_ties():
    value, low, high = statistics.improvement({"a": SCORES["a"]}, {"a": np.array([0.2, 0.3])})
    assert value == pytest.approx((0.0 + 0.25 + 1.0 + 1.0) / 4)
    assert low <= value <= high


def test_improvements_of_a_pair_mirror_each_other():
    scores = {
        "ppo": SCORES,
        "a2c": {"a": np.array([0.1, 0.3, 0.5]), "b": np.array([0.4, 1.0, 1.5])},
        "dqn": {"a": np.array([0.25, 2.5, 0.45]), "b": np.array([0.9, 1.1])},
    }
    estimates = statistics.improvements(scores)
    assert list(estimates) == [(a, b) for a in scores for b in scores if a != b]
    assert estimates["ppo", "dqn"] == statistics.improvement(scores["ppo"], scores["dqn"])
    for (a, b), (value, low, high) in estimates.items():
        assert low <= value <= high
        assert (value, low, high) == pytest.approx([1.0 - x for x in np.array(estimates[b, a])[[0, 2, 1]]], abs=1e-15)
    assert estimates["dqn", "ppo"][0] == pytest.approx(
        statistics.improvement(scores["dqn"], scores["ppo"])[0], abs=1e-15
    )


def test_curve_is_of_the_steps_at_which_all_runs_have_a_score():
    runs = [{30: 3.0, 10: 1.0, 20: 5.0}, {10: 3.0, 30: 3.0}, {10: 2.0, 30: 3.0, 40: 9.0}]
    (first, last) = statistics.mean_curve(runs)
    assert first == (10, *statistics.estimate(statistics.mean, {"": np.array([1.0, 3.0, 2.0])}))
    assert last == (30, 3.0, 3.0, 3.0)
    assert statistics.mean_curve([]) == []


def test_one_run_has_no_interval():
    value, low, high = statistics.estimate(statistics.mean, {"a": np.array([3.0])})
    assert value == 3.0
    assert np.isnan([low, high]).all()
