"""Leagues of games in plain Python."""

import pytest
import torch
from random_networks import network

from gpu_envs.cli import main
from gpu_envs.errors import ConfigError
from league.evaluation.tabular_game import TabularGame
from league.exact.game_tree import GameTree
from league.game import Game
from league.matchups.matchups import simulate_matchups
from league.policies.random import RandomPolicy
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer


def _game():
    return Game.of("open_spiel:leduc_poker")


def test_players_of_a_game_are_its_roles_and_matchups_are_simulated():
    game = _game()
    assert game.roles == ("player_0", "player_1")
    assert game.zero_sum
    assert not game.has_kernels
    policies = {role: [RandomPolicy.of(game, role, seed=seed)] for seed, role in enumerate(game.roles)}
    results = simulate_matchups(policies, game=game, matchups=[[0, 0]], episodes=20, seed=1)
    assert results.count.tolist() == [20]
    assert results.total.sum() == 0
    assert results.total.any()
    with pytest.raises(ConfigError, match="engine = 'kernel': expected an environment with rules for kernels"):
        simulate_matchups(policies, game=game, matchups=[[0, 0]], episodes=20, seed=1, engine="kernel")


def test_a_network_has_the_same_nash_conv_in_both_leducs():
    """Observations of `LeducPoker-v0` are OpenSpiel's, so a network plays both."""
    values = []
    for env_id in ("open_spiel:leduc_poker", "LeducPoker-v0"):
        game = Game.of(env_id)
        networks = {role: [network(game, seat, seed=seat)] for seat, role in enumerate(game.roles)}
        values.append(TabularGame.of(game).nash_conv(networks, [torch.ones(1)] * 2))
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert values[0] > 1


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("open_spiel:backgammon", "expected an environment that declares its random outcomes"),
        ("open_spiel:liars_dice(numdice=2)", "more than 200000 histories of one length"),
    ],
)
def test_other_exact_trees_are_refused_in_one_line(env_id, message):
    with pytest.raises(ConfigError, match=f"no exact tree: {message}"):
        GameTree(Game.of(env_id))


def test_viewer_shows_a_training_without_rollouts(tmp_path, capsys):
    learner = PPOConfig(rollout_length=4, num_epochs=1, num_minibatches=1, hidden_sizes=(4,))
    Trainer(TrainConfig("gymnasium:CartPole-v1", num_envs=2, total_steps=8, learner=learner), tmp_path / "run").run()
    assert main(["watch", str(tmp_path / "run"), "--export", str(tmp_path / "page.html")]) == 0
    captured = capsys.readouterr()
    assert "left out: gymnasium:CartPole-v1: the viewer draws no host environments" in captured.err
    assert "0 rollouts" in captured.out
