"""PSRO on games with hidden information: exact and learned responses lower the exact NashConv."""

import pytest
from psro_runs import EXACT, play

from league.game import Game
from league.storage.presets import TRAIN_PRESETS

GOOFSPIEL = Game.of("Goofspiel-v0", {"num_cards": 4, "imp_info": True, "points_order": "descending"})
LIARS_DICE = Game.of("LiarsDice-v0", {"dice_sides": 3})


@pytest.mark.parametrize("game", [GOOFSPIEL, LIARS_DICE], ids=["goofspiel", "liar's dice"])
def test_exact_responses_lower_nash_conv(game, tmp_path):
    rows = play(tmp_path, game, iterations=10, **EXACT)
    print([row["nash_conv"] for row in rows])
    assert rows[-1]["best_nash_conv"] < 0.25 * rows[0]["nash_conv"]


@pytest.mark.slow
@pytest.mark.parametrize("game", [GOOFSPIEL, LIARS_DICE], ids=["goofspiel", "liar's dice"])
def test_learned_responses_lower_nash_conv(game, tmp_path):
    overrides = {**TRAIN_PRESETS[game.env_id, "cpu"], "total_steps": 16_000, "num_envs": 64}
    settings = {"response_init": "scratch", "train_overrides": overrides, "episodes_per_matchup": 200}
    rows = play(tmp_path, game, iterations=6, **settings)
    print([row["nash_conv"] for row in rows])
    assert rows[-1]["best_nash_conv"] < 0.6 * rows[0]["nash_conv"]
