"""Scores of evaluations in a training: teams, opponents, and agents that share a policy or have their own."""

import pytest

from trainers.config.train_config import TrainConfig, make_train_core, members_by_policy
from trainers.runner import training_evaluator
from trainers.runner.training_evaluator import TrainingEvaluator


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


@pytest.mark.parametrize("sharing", ["agent", "group"])
def test_seats_of_a_zero_sum_game_are_evaluated_one_after_the_other(sharing, monkeypatch):
    """Otherwise the score of self-play would be 0, however strong the policy."""
    played, original = [], training_evaluator.evaluate_policies

    def watched(core, players, **options):
        played.append(set(players))
        return original(core, players, **options)

    monkeypatch.setattr(training_evaluator, "evaluate_policies", watched)
    row = scores_of("KuhnPoker-v0", sharing)
    assert played == [{"player_0"}, {"player_1"}]
    assert row["eval/score"] == pytest.approx(0.0, abs=1e-9)  # the same random games from both seats
    if sharing == "agent":
        assert row["eval/player_0/return"] == pytest.approx(-row["eval/player_1/return"]) != 0
    else:
        assert row["eval/player/return"] == row["eval/score"]
