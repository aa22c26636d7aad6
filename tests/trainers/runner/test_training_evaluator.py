"""Scores of evaluations in a training: teams, opponents, and agents that share a policy or have their own."""

import dataclasses

import pytest

from trainers.config.train_config import TrainConfig, make_train_core, members_by_policy
from trainers.runner import training_evaluator
from trainers.runner.trainer import Trainer
from trainers.runner.training_evaluator import TrainingEvaluator
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows


def scores_of(env_id, sharing, env=None):
    """Return the scores of untrained policies in 256 episodes."""
    config = TrainConfig(env_id, env or {}, num_envs=2, total_steps=32, eval_episodes=256, sharing=sharing)
    core = make_train_core(config, 2, 0)
    sides = {name: tuple(members) for name, members in members_by_policy(config, core).items()}
    evaluator = TrainingEvaluator(config, core, sides)
    row = evaluator.scores(dict.fromkeys(sides))
    assert list(row) == evaluator.columns
    return row


def test_score_of_a_team_does_not_depend_on_which_agents_share_a_policy():
    shared, separate = scores_of("SimpleSpread-v0", "group"), scores_of("SimpleSpread-v0", "agent")
    assert separate["eval/score"] == shared["eval/score"] == shared["eval/agent/return"]
    assert separate["eval/agent/return"] == shared["eval/agent/return"]
    assert separate["eval/agent/collisions_mean"] == pytest.approx(shared["eval/agent/collisions_mean"], rel=1e-6)
    returns = [separate[f"eval/agent_{index}/return"] for index in range(3)]
    assert sum(returns) == pytest.approx(shared["eval/score"], rel=1e-6)


@pytest.mark.parametrize(
    ("env_id", "sharing", "matchups"),
    [
        ("KuhnPoker-v0", "agent", [{"player_0"}, {"player_1"}]),
        ("KuhnPoker-v0", "group", [{"player_0"}, {"player_1"}]),
        ("DarkHex-v0", "group", [{"black"}, {"white"}]),
        ("DarkHex-v0", "all", [{"black"}, {"white"}]),
    ],
)
def test_roles_of_a_zero_sum_game_are_evaluated_one_after_the_other(env_id, sharing, matchups, monkeypatch):
    """Otherwise the score of self-play would be 0, however strong the policy."""
    players, evaluate = [], training_evaluator.evaluate_policies

    def record(core, policies, **options):
        players.append(set(policies))
        return evaluate(core, policies, **options)

    monkeypatch.setattr(training_evaluator, "evaluate_policies", record)
    row = scores_of(env_id, sharing)
    assert players == matchups
    assert row["eval/score"] == pytest.approx(0.0, abs=1e-9)  # the same random games from both seats
    returns = [value for name, value in row.items() if name.endswith("/return")]
    assert sum(returns) == pytest.approx(0.0, abs=1e-9)
    assert (returns[0] != 0) == (len(returns) == 2)


def test_opponents_of_the_policy_of_all_seats_play_the_other_seats(tmp_path, monkeypatch):
    config = TrainConfig("KuhnPoker-v0", num_envs=8, total_steps=256, eval_episodes=64, eval_greedy=True)
    Trainer(config, tmp_path).run()
    core, policy = make_train_core(config, 2, 0), checkpoint.load_policy(tmp_path)
    config = dataclasses.replace(config, eval_opponents=str(tmp_path))
    evaluator = TrainingEvaluator(config, core, {"player": ("player",)})
    is_trained, evaluate = [], training_evaluator.evaluate_policies

    def record(core, players, **options):
        is_trained.append({seat: player is policy for seat, player in players.items()})
        return evaluate(core, players, **options)

    monkeypatch.setattr(training_evaluator, "evaluate_policies", record)
    scores = evaluator.scores({"player": policy})
    assert is_trained == [{"player_0": True, "player_1": False}, {"player_0": False, "player_1": True}]
    assert scores["eval/score"] == pytest.approx(0.0, abs=1e-9)  # the same games against itself from both seats


@pytest.mark.parametrize("engine", ["torch", "kernel"])
def test_trained_policy_of_all_seats_scores_against_random_ones(engine, tmp_path):
    """It bets with the king and folds the jack, and so wins in both seats; in self-play it would get 0."""
    settings = {"num_envs": 64, "total_steps": 64 * 400, "eval_episodes": 256, "checkpoint_interval": 25}
    Trainer(TrainConfig("KuhnPoker-v0", engine=engine, **settings), tmp_path).run()
    assert float(read_rows(tmp_path / "metrics.csv")[-1]["eval/score"]) > 0.1
