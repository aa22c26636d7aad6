"""Settings of best responses by game: they fit, give way to what is asked for, and learn."""

import pytest

from league import presets
from league.game import Game
from league.psro import PSRO, PSROConfig
from league.run import opened, training


@pytest.mark.parametrize("env_id", [env_id for env_id, _ in presets.TRAIN])
def test_presets_fit_their_games(env_id: str) -> None:
    """Every name is one of a setting, and PSRO takes its own."""
    config = training(Game.of(env_id), "cpu", {})
    assert config.total_steps == presets.TRAIN[env_id, "cpu"]["total_steps"]
    assert config.total_steps > config.rollout_steps
    PSROConfig(**presets.psro(env_id))


def test_settings_that_are_given_win() -> None:
    """Over presets of the league, as those win over the trainers'."""
    game = Game.of("KuhnPoker-v0")
    assert training(game, "cpu", {}).learner.entropy == presets.TRAIN[game.env_id, "cpu"]["learner.entropy"]
    given = training(game, "cpu", {"learner.entropy": 0.5, "total_steps": 7_000})
    assert (given.learner.entropy, given.total_steps) == (0.5, 7_000)
    assert given.num_envs == presets.TRAIN[game.env_id, "cpu"]["num_envs"]


def test_settings_of_another_algorithm_are_left_out() -> None:
    """Entropy is nothing that DQN knows; the number of steps is."""
    found = presets.train("KuhnPoker-v0", "cpu", "dqn")
    assert found["total_steps"] == presets.TRAIN["KuhnPoker-v0", "cpu"]["total_steps"]
    assert not any(name.startswith("learner.") or name == "algorithm" for name in found)
    assert training(Game.of("KuhnPoker-v0"), "cpu", {"algorithm": "dqn"}).algorithm == "dqn"


def test_other_environments_have_something_to_begin_with() -> None:
    """By the type of device, of which there may be several."""
    assert presets.train("NoSuchGame-v0", "cuda:1") == presets.FALLBACK["cuda"]
    assert presets.train("NoSuchGame-v0", "cpu") == presets.FALLBACK["cpu"]
    assert presets.psro("NoSuchGame-v0") == {}


@pytest.mark.learning
def test_learned_responses_solve_kuhn_poker(tmp_path) -> None:
    """Within a minute on two cores that have nothing else to do."""
    game = Game.of("KuhnPoker-v0")
    with opened(tmp_path / "run", game, "psro", config := PSROConfig(**presets.psro(game.env_id))) as store:
        rows = PSRO(store, config).run()
    assert rows[0]["nash_conv"] == pytest.approx(0.9167, abs=1e-4)
    assert rows[-1]["best_so_far"] < 0.1
