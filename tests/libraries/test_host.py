"""Environments of other libraries train, and their games are played in leagues."""

import pytest
from libraries.trained import EXAMPLES, assert_training_helps

from gpu_envs.cli import main
from league.storage.run_store import RunStore

pytest.importorskip("Box2D")
pytest.importorskip("magent2")
pytest.importorskip("vmas")

TRAININGS = {
    "gymnasium:LunarLander-v3": ["--num-envs=32", "--total-steps=60000", "--learner.rollout-length=128"],
    "pettingzoo:pettingzoo.sisl.pursuit_v5": [
        *("--num-envs=8", "--total-steps=6000"),
        *(f"--env-arg={pair}" for pair in ("n_evaders=6", "n_pursuers=4", "x_size=8", "y_size=8", "max_cycles=100")),
    ],
    "vmas_worlds:make_worlds": ["--num-envs=64", "--total-steps=100000", "--env-arg=n_agents=2"],
    "pettingzoo:magent2.environments.battle_v4": ["--num-envs=2", "--total-steps=2000", "--env-arg=max_cycles=100"],
}
"""Options of trainings by environment. Battle has 162 agents."""


@pytest.mark.parametrize("env_id", TRAININGS)
def test_trained_policies_are_better_than_random_ones(env_id, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    assert_training_helps(env_id, TRAININGS[env_id], tmp_path / "run")


LEAGUE = [
    *("--algorithm=psro", "--iterations=1", "--episodes-per-matchup=256", "--seed=0", "--device=cpu"),
    *(f"--train-overrides={pair}" for pair in ("total_steps=40000", "num_envs=16", "learner.rollout_length=64")),
    "--train-overrides=learner.learning_rate=0.001",
]


@pytest.mark.parametrize("env_id", ["pettingzoo:pettingzoo.classic.connect_four_v3", "open_spiel:hex(board_size=5)"])
def test_responses_in_a_league_beat_random_policies(env_id, tmp_path):
    assert main(["league", "train", env_id, *LEAGUE, f"--run-dir={tmp_path / 'run'}"]) == 0
    with RunStore.open(tmp_path / "run", write=False) as store:
        gain = store.iterations()[1]["previous_nash_conv_lower_bound"]
    assert gain > 0.5  # of at most 2; responses of both players to random ones
