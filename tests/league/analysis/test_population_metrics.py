"""Tests of population metrics: closed forms and refused arguments."""

import math

import numpy as np
import pytest
import torch

from gpu_envs.errors import ConfigError
from league.analysis.population_metrics import (
    decompose_game,
    effective_diversity,
    expected_cardinality,
    relative_population_performance,
)

RPS = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def zero_sum(table):
    return torch.stack((table, -table))


def disc(number=200, spread=1.0):
    """Return points of the disc game, in which a point further round wins (Balduzzi et al. 2019)."""
    points = torch.randn(number, 2, generator=torch.manual_seed(0), dtype=torch.float64) * spread
    return points[:, :1] * points[:, 1] - points[:, 1:] * points[:, 0]


def test_rock_paper_scissors_and_disc_game_are_cyclic():
    assert decompose_game(zero_sum(RPS)).cyclic_share == pytest.approx(1)
    assert decompose_game(zero_sum(RPS)).transitive_share == pytest.approx(0)
    assert decompose_game(zero_sum(disc())).cyclic_share > 0.97
    ring = 2 * math.pi * torch.arange(12) / 12
    assert decompose_game(zero_sum(torch.sin(ring - ring[:, None]))).cyclic_share == pytest.approx(1)


def test_game_of_elo_ratings_is_transitive():
    ratings = torch.tensor([300.0, -200, 0, 50])
    log_odds = (ratings[:, None] - ratings) * math.log(10) / 400
    parts = decompose_game(zero_sum(log_odds))
    assert parts.cyclic_share == pytest.approx(0, abs=1e-6)
    assert parts.transitive_share == pytest.approx(1)
    chances = 1 / (1 + torch.exp(-log_odds))
    assert (
        decompose_game(torch.stack((chances, chances.T))).cyclic_share < 0.2
    )  # probabilities are squashed, so only approximately


def test_transitive_and_cyclic_parts_add_up():
    strength = torch.tensor([2.0, 1, 0])
    parts = decompose_game(zero_sum(RPS * 3 + strength[:, None] - strength))
    assert parts.cyclic_share**2 + parts.transitive_share**2 == pytest.approx(1)
    assert parts.cyclic_share == pytest.approx(math.sqrt(54 / 66))
    assert decompose_game(torch.zeros(2, 3, 3)).cyclic_share == 0


def test_relative_population_performance_has_known_values():
    assert relative_population_performance(zero_sum(RPS)) == pytest.approx(0, abs=1e-9)
    assert relative_population_performance(zero_sum(RPS[:1])) == pytest.approx(-1)  # rock against all three moves
    assert relative_population_performance(zero_sum(RPS[:, :1])) == pytest.approx(1)
    # Matching pennies with a better side: 3 for heads, 1 for tails: value (3 1 - 1 1) / 6.
    assert relative_population_performance(zero_sum(torch.tensor([[3.0, -1], [-1, 1]]))) == pytest.approx(1 / 3)


def test_effective_diversity_has_known_values():
    assert effective_diversity(zero_sum(RPS)) == pytest.approx(3 / 9)
    assert effective_diversity(zero_sum(RPS * 5)) == pytest.approx(15 / 9)
    strength = torch.tensor([2.0, 1, 0])
    assert effective_diversity(zero_sum(strength[:, None] - strength)) == pytest.approx(0, abs=1e-9)
    twice = RPS[[0, 0, 1, 2]][:, [0, 0, 1, 2]]
    assert effective_diversity(zero_sum(twice)) == pytest.approx(3 / 9)


def test_expected_cardinality_has_known_values():
    assert expected_cardinality(torch.eye(4)) == pytest.approx(2)
    assert expected_cardinality(torch.ones(5, 3)) == pytest.approx(15 / 16)  # equal policies count at most once
    table = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 7)))
    kernel = table @ table.T
    expected = float(torch.trace(torch.eye(4) - torch.linalg.inv(kernel + torch.eye(4))))
    assert expected_cardinality(table) == pytest.approx(expected)


@pytest.mark.parametrize("measure", [decompose_game, effective_diversity])
def test_measures_of_one_population_refuse_other_games(measure):
    with pytest.raises(ConfigError, match="expected one population on both seats"):
        measure(zero_sum(RPS[:2]))
    with pytest.raises(ConfigError, match="expected a symmetric game, but payoffs of swapped policies differ by 2"):
        measure(zero_sum(torch.eye(3)))
    with pytest.raises(ConfigError, match="expected a zero-sum game"):
        measure(torch.eye(3).expand(2, 3, 3))


@pytest.mark.parametrize("measure", [decompose_game, effective_diversity, relative_population_performance])
def test_measures_refuse_invalid_payoffs(measure):
    with pytest.raises(ConfigError, match="expected two seats, got 3"):
        measure(torch.zeros(3, 2, 2, 2))
    with pytest.raises(ConfigError, match="NaN"):
        measure(torch.full((2, 2, 2), float("nan")))


def test_expected_cardinality_refuses_invalid_payoffs():
    with pytest.raises(ConfigError, match="expected one table"):
        expected_cardinality(torch.zeros(2, 3, 3))
    with pytest.raises(ConfigError, match="NaN"):
        expected_cardinality(torch.full((2, 2), float("nan")))
