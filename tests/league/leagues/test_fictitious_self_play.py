"""Fictitious and prioritized self-play converge on rock-paper-scissors; plain self-play cycles.

The builder's matches, transitions, roster and win rates are a league's. Only the training is exact: the player
becomes the best response to its matches, or moves towards it. Exploitability is the gain of the best of three actions.
"""

import numpy as np
import pytest
import small_league
import torch
from builder_rosters import league, result

from league.evaluation.tabular_game import TabularGame
from league.leagues.player import Freeze, Player
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig

BEATS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
UNEQUAL = np.array([[0.0, -1.0, 3.0], [1.0, 0.0, -2.0], [-3.0, 2.0, 0.0]])  # equilibrium (2, 3, 1) / 6
FIRST = np.array([0.8, 0.15, 0.05])


def best_response(payoffs, opponent, strategy):
    """Return the pure best response; ties go to the first action."""
    return np.eye(3)[(payoffs @ opponent).argmax()]


def exploitability(payoffs, strategy):
    return float((payoffs @ strategy).max())  # the value of the game is 0


def self_play(opponents, iterations=300, payoffs=BEATS, learn=best_response, **settings):
    """Return the strategies of the frozen copies (N, 3), oldest first, after a league with one player."""
    builder = SelfPlayBuilder(SelfPlayConfig(opponents, freeze_every=10, **settings))
    roster = league(builder)
    (name,) = roster.learning()
    strategies = {name: FIRST}
    if builder.frozen_at_start(roster.players[name]):
        roster.add(Player(f"{name}:1", roster.players[name].role, "main", name))
        strategies[f"{name}:1"] = FIRST
    for _ in range(iterations):
        matches = builder.matches(roster, roster.players[name], roster.players[name].role)
        assert sum(match.probability for match in matches) == pytest.approx(1.0)
        opponent = sum(match.probability * strategies[match.opponent] for match in matches)
        strategies[name] = learn(payoffs, opponent, strategies[name])
        for match in matches:
            games = 1000 * match.probability
            score = strategies[name] @ (np.sign(payoffs) + 1) / 2 @ strategies[match.opponent]
            roster.win_rates.add(name, match.opponent, games, games * score)
        for change in builder.build_league(result(roster, {name: 10})):
            assert change == Freeze(name)
            copy = f"{name}:{len(roster.frozen()) + 1}"
            roster.add(Player(copy, roster.players[name].role, "main", name))
            strategies[copy] = strategies[name]
    return np.array([strategies[copy] for copy in roster.frozen()])


def entropy_step(payoffs, opponent, strategy):
    """Return the strategy after one step of mirror descent with an entropy bonus, as by a regularized learner."""
    logits = 0.9 * np.log(strategy) + 2.0 * payoffs @ opponent
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@pytest.mark.parametrize("settings", [{}, {"latest": 0.0}], ids=["with the latest", "past only"])
@pytest.mark.parametrize("opponents", ["uniform", "pfsp"])
def test_average_of_fictitious_self_play_approaches_the_uniform_strategy(opponents, settings):
    copies = self_play(opponents, **settings)
    average = np.cumsum(copies, 0) / np.arange(1, len(copies) + 1)[:, None]
    gains = [exploitability(BEATS, average[at]) for at in (0, 30, 100, 300)]
    assert gains[0] > 0.6
    assert gains[3] < gains[2] < gains[1] < 0.2
    assert gains[3] < 0.05
    assert average[-1] == pytest.approx([1 / 3] * 3, abs=0.05)
    assert [exploitability(BEATS, copy) for copy in copies[1:]] == [1.0] * 300  # only the mixture is safe


def test_regularized_learner_converges_in_fictitious_self_play_and_cycles_in_self_play():
    for opponents in ("uniform", "pfsp"):
        copies = self_play(opponents, learn=entropy_step)
        assert exploitability(BEATS, copies.mean(0)) < 0.02
        assert max(exploitability(BEATS, copy) for copy in copies[-10:]) < 0.05  # the latest player, too
    copies = self_play("latest", learn=entropy_step)
    assert min(exploitability(BEATS, copy) for copy in copies[-50:]) > 0.3


def test_self_play_cycles_and_its_average_misses_the_equilibrium_of_an_unequal_game():
    copies = self_play("latest", payoffs=UNEQUAL)
    moves = copies[1:].argmax(1)
    assert (moves[1:] == (moves[:-1] + 1) % 3).all()  # always to the move that beats the last one
    late = [exploitability(UNEQUAL, copies[: 3 * count + 1][1:].mean(0)) for count in (10, 30, 100)]
    assert late == pytest.approx([2 / 3] * 3, abs=0.02)  # of the uniform strategy
    fictitious = self_play("uniform", payoffs=UNEQUAL, latest=0.0)
    assert exploitability(UNEQUAL, fictitious.mean(0)) < 0.1
    assert fictitious.mean(0) == pytest.approx([2 / 6, 3 / 6, 1 / 6], abs=0.1)


@pytest.mark.learning
@pytest.mark.parametrize("opponents", ["uniform", "pfsp"])
def test_trained_copies_of_fictitious_self_play_stay_near_the_uniform_mixture(opponents, tmp_path):
    """The settings of `test_cycles.py`, where plain self-play cycles with a median exploitability above 0.4."""
    rates = {"learner.learning_rate": 0.01, "learner.entropy_coef": 0.2}
    train = {"num_envs": 64, "learner.rollout_length": 4, "learner.hidden_sizes": [8], "learner.num_epochs": 2}
    train |= {**rates, **{f"{name}_final": value for name, value in rates.items()}}
    running = small_league.league(tmp_path, opponents, iterations=40, steps=2048, episodes=5, **train)
    running.run()
    small = TabularGame.of(small_league.RPS, required=True)
    assert small is not None
    tables = small.tabulate_all(running.populations)[0]
    copies = torch.stack(tables[1:]).double().flatten(1).numpy()  # without the random policy
    running.store.close()
    assert len(copies) == 41
    assert max(exploitability(BEATS, copy) for copy in copies) > 0.1  # they have left the middle
    assert np.median([exploitability(BEATS, copy) for copy in copies[-24:]]) < 0.25
    assert exploitability(BEATS, copies[1:].mean(0)) < 0.05
