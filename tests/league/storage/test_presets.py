"""Tests of presets for best responses: they fit their games, can be overridden, and learn."""

import pytest

from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage import presets
from league.storage.open_run import open_run
from league.storage.run_config import training


@pytest.mark.parametrize("env_id", [env_id for env_id, _ in presets.TRAIN_PRESETS])
def test_presets_fit_their_games(env_id: str) -> None:
    """Every name is a setting, and PSRO accepts its own."""
    config = training(Game.of(env_id), "cpu", {})
    assert config.total_steps == presets.TRAIN_PRESETS[env_id, "cpu"]["total_steps"]
    assert config.total_steps > config.rollout_steps
    PSROConfig(**presets.psro_preset(env_id))


def test_given_settings_override_presets() -> None:
    """Given settings override presets of the league, which override those of trainers."""
    game = Game.of("KuhnPoker-v0")
    assert (
        training(game, "cpu", {}).learner.entropy_coef
        == presets.TRAIN_PRESETS[game.env_id, "cpu"]["learner.entropy_coef"]
    )
    config = training(game, "cpu", {"learner.entropy_coef": 0.5, "total_steps": 7_000})
    assert (config.learner.entropy_coef, config.total_steps) == (0.5, 7_000)
    assert config.num_envs == presets.TRAIN_PRESETS[game.env_id, "cpu"]["num_envs"]


def test_settings_of_another_algorithm_are_left_out() -> None:
    """DQN has no entropy bonus, but takes the number of steps."""
    preset = presets.train_preset("KuhnPoker-v0", "cpu", "dqn")
    assert preset["total_steps"] == presets.TRAIN_PRESETS["KuhnPoker-v0", "cpu"]["total_steps"]
    assert not any(name.startswith("learner.") or name == "algorithm" for name in preset)
    assert training(Game.of("KuhnPoker-v0"), "cpu", {"algorithm": "dqn"}).algorithm == "dqn"


def test_environments_without_preset_have_defaults() -> None:
    """Defaults depend on the type of device, not on its number."""
    assert presets.train_preset("NoSuchGame-v0", "cuda:1") == presets.FALLBACK_PRESETS["cuda"]
    assert presets.train_preset("NoSuchGame-v0", "cpu") == presets.FALLBACK_PRESETS["cpu"]
    assert presets.psro_preset("NoSuchGame-v0") == {}


@pytest.mark.learning
def test_learned_responses_solve_kuhn_poker(tmp_path) -> None:
    """Takes up to a minute on two idle cores."""
    game = Game.of("KuhnPoker-v0")
    with open_run(tmp_path / "run", game, "psro", config := PSROConfig(**presets.psro_preset(game.env_id))) as store:
        rows = PSRO(store, config).run()
    assert rows[0]["nash_conv"] == pytest.approx(0.9167, abs=1e-4)
    assert rows[-1]["best_nash_conv"] < 0.1
