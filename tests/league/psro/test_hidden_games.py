"""PSRO on a game with hidden information: exact and learned responses lower the exact NashConv."""

import pytest
from psro_runs import EXACT, play

from league.game import Game
from league.storage.presets import psro_preset, train_preset

GOOFSPIEL = Game.of("Goofspiel-v0", {"num_cards": 4, "imp_info": True, "points_order": "descending"})


@pytest.mark.slow
def test_exact_responses_lower_nash_conv_of_goofspiel(tmp_path):
    rows = play(tmp_path, GOOFSPIEL, iterations=8, meta_solver="uniform", **EXACT)
    assert rows[0]["nash_conv"] == pytest.approx(17 / 12)
    assert rows[-1]["nash_conv"] == rows[-1]["best_nash_conv"] < 0.45 * rows[0]["nash_conv"]


@pytest.mark.slow
@pytest.mark.optimized  # for its many steps
def test_learned_responses_lower_nash_conv_of_goofspiel(tmp_path):
    short = {**train_preset("Goofspiel-v0", "cpu"), "total_steps": 16_000, "num_envs": 64}
    settings = {**psro_preset("Goofspiel-v0"), "iterations": 4, "meta_solver": "uniform", "episodes_per_matchup": 100}
    rows = play(tmp_path, GOOFSPIEL, train_overrides=short, **settings)
    assert rows[0]["nash_conv"] > 1.4
    assert rows[-1]["best_nash_conv"] < 0.7 * rows[0]["nash_conv"]
