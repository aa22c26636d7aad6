"""Tests of ratings: closed forms, comparison with OpenSpiel, and refused arguments."""

import numpy as np
import pytest
import torch
from open_spiel.python.algorithms import elo as openspiel_elo

from gpu_envs.errors import ConfigError
from league.analysis.ratings import elo, nash_average


def chances(ratings, opponents=None):
    opponents = ratings if opponents is None else opponents
    return 1 / (1 + 10 ** ((opponents - ratings[:, None]) / 400))


def test_elo_of_two_policies_has_the_closed_form():
    score = torch.tensor([[0.5, 10 / 11], [1 / 11, 0.5]])
    ratings = elo(score, torch.full((2, 2), 100), prior=0.0)
    assert float(ratings[0] - ratings[1]) == pytest.approx(400)  # odds of 10 to 1
    assert float(ratings.mean()) == pytest.approx(0)


def test_elo_recovers_the_ratings_of_expected_scores():
    truth = torch.tensor([300.0, -200, 0, 50, -150]).double()
    count = torch.arange(25).reshape(5, 5) + 3
    np.testing.assert_allclose(elo(chances(truth), count, prior=0.0), truth, atol=1e-6)
    np.testing.assert_allclose(elo(chances(truth), count.triu(), prior=0.0), truth, atol=1e-6)  # one cell per pair


def test_elo_of_two_populations_matches_one_joint_population():
    first, second = torch.tensor([300.0, -200, 0]).double(), torch.tensor([100.0, -200]).double()
    ratings = elo(chances(first, second), torch.full((3, 2), 40), prior=0.0)
    np.testing.assert_allclose(ratings, torch.cat((first, second)), atol=1e-6)


def test_elo_equals_that_of_openspiel():
    generator = np.random.default_rng(0)
    won, drawn = generator.integers(0, 30, (2, 6, 6))
    won *= 1 - np.eye(6, dtype=int)
    drawn = np.triu(drawn, 1)
    drawn = drawn + drawn.T
    games = won + won.T + drawn
    score = torch.from_numpy((won + drawn / 2) / np.maximum(games, 1))
    # Each pair's games once: OpenSpiel's draws are symmetric, here they are in one of the two cells.
    ratings = elo(score, torch.from_numpy(np.triu(games, 1)), prior=0.01).numpy()
    theirs = openspiel_elo.compute_ratings_from_matrices(won, drawn, convergence_delta=1e-12, max_iterations=1_000_000)
    np.testing.assert_allclose(ratings, theirs - theirs.mean(), atol=0.05)


def test_elo_of_undefeated_policy_is_finite():
    score, count = torch.tensor([[0.5, 1.0], [0.0, 0.5]]), torch.full((2, 2), 50)
    ratings = elo(score, count)
    assert 400 < float(ratings[0] - ratings[1]) < 4000
    assert torch.equal(elo(score, torch.zeros(2, 2)), torch.zeros(2).double())  # no episodes
    assert elo(torch.full((1, 1), 0.5), torch.ones(1, 1)).tolist() == [0]


def test_elo_ignores_cells_that_were_not_played():
    score, count = chances(torch.tensor([100.0, 0, -100])), torch.full((3, 3), 20.0)
    expected = elo(score, count, prior=0.0)
    score[0, 2] = score[2, 0] = float("nan")
    count[0, 2] = count[2, 0] = 0
    np.testing.assert_allclose(elo(score, count, prior=0.0), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("score", "count", "message"),
    [
        (torch.zeros(2, 2), torch.zeros(2, 3), "expected score and count"),
        (torch.full((2, 2), float("nan")), torch.ones(2, 2), "scores from 0 to 1"),
        (torch.full((2, 2), 1.5), torch.ones(2, 2), "scores from 0 to 1"),
        (torch.full((2, 2), 0.7), torch.ones(2, 2), "sum to 1"),
        (torch.full((2, 2), 0.5), -torch.ones(2, 2), "counts of 0 or more"),
    ],
)
def test_elo_refuses_invalid_scores(score, count, message):
    with pytest.raises(ConfigError, match=message):
        elo(score, count)


def test_nash_average_is_invariant_to_copies():
    """Of the biased rock-paper-scissors (1/4, 1/2, 1/4), all policies earn the value 0 of the game."""
    table = torch.tensor([[0.0, -1, 2], [1, 0, -1], [-2, 1, 0]])
    for rows in ([0, 1, 2], [0, 1, 1, 2]):
        copied = table[rows][:, rows]
        np.testing.assert_allclose(nash_average(torch.stack((copied, -copied)))[0], 0, atol=1e-6)


def test_nash_average_of_transitive_game_is_the_margin_to_the_best():
    strength = torch.tensor([3.0, 1, 2])
    table = strength[:, None] - strength
    np.testing.assert_allclose(nash_average(torch.stack((table, -table)))[0], strength - 3, atol=1e-6)
    table = strength[:, None] - torch.tensor([1.0, 0.0])
    first, second = nash_average(torch.stack((table, -table)))
    np.testing.assert_allclose(first, strength - 1, atol=1e-6)
    np.testing.assert_allclose(second, [-2, -3], atol=1e-6)
    with pytest.raises(ConfigError, match="expected a zero-sum game"):
        nash_average(torch.eye(2).expand(2, 2, 2))
