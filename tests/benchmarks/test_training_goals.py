"""Goals of training: matchups with random, scripted and earlier policies."""

import dataclasses

import pytest

from benchmarks.training import goals
from benchmarks.training.goals import RANDOM, TRAINED, Matches, evaluate_goals
from benchmarks.training.tasks import Goal
from trainers.config.presets import preset
from trainers.evaluation.policy_evaluation import Estimate, EvaluationResult
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

EPISODES = 32
ONE, HALF = Estimate(1.0, 0.0), Estimate(0.5, 0.25)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a short training of TagGridworld with four checkpoints."""
    config = preset("TagGridworld-v0", "cpu")
    learner = dataclasses.replace(config.learner, hidden_sizes=(16,), rollout_length=8)
    short = {"num_envs": 16, "total_steps": 512, "checkpoint_interval": 1, "keep_last_checkpoints": 9}
    short["env"] = {"episode_length": 20}
    folder = tmp_path_factory.mktemp("run")
    Trainer(dataclasses.replace(config, eval_episodes=0, engine="torch", learner=learner, **short), folder).run()
    return folder


def test_reference_names_the_matchup_of_the_bound():
    assert Goal("return tagger", "random", ("tagger",)).reference == "random"
    assert Goal("return tagger", "scripted", ()).reference == "scripted"
    assert Goal("length", "scripted", ("tagger",), "scripted").reference == "scripted"
    assert Goal("length", "random", ("tagger",), "scripted").reference == "tagger random, others scripted"
    assert Goal("length", "checkpoint 0.5", ("runner",), "trained").reference == (
        "runner checkpoint 0.5, others trained"
    )
    assert Goal("length", 3.0, ("runner",)).reference is None
    assert Goal("return agent", "jaxmarl").reference is None
    assert Goal("won_battle ally", "jaxmarl_smax mappo-2s3z").reference is None


def test_result_of_an_episode_is_a_measure():
    outcome = EvaluationResult(4, ONE, {"a": ONE}, {"a_0": ONE}, {"a": ONE}, {"a": False}, {"won": {"a": HALF}})
    assert goals.measures(outcome)["won a"] == [0.5, 0.25]


def test_goals_are_evaluated_with_the_policies_that_they_name(run):
    goals = (
        Goal("seconds", 1.0),
        Goal("survivors runner", 1.0, ("tagger",), greedy=False),
        Goal("length", "scripted", ("tagger",), "scripted", greedy=False),
        Goal("return runner", "checkpoint 0.25", ("runner",), "trained", greedy=False),
        Goal("return runner", "checkpoint 1", ("runner",), "trained", greedy=False),
    )
    result = evaluate_goals(goals, run, EPISODES, seed=3)
    reached, opponents = result["reached"], result["others"]
    assert reached[0] is None
    matches = Matches(run, EPISODES, 3)
    assert reached[1] == matches.play({"tagger": TRAINED, "runner": RANDOM}, False)["survivors runner"]
    assert reached[2] == matches.play({"tagger": TRAINED, "runner": "scripted"}, False)["length"]
    assert opponents["random"] == matches.play({"tagger": RANDOM, "runner": RANDOM}, False)
    assert opponents["scripted"] == matches.play({"tagger": "scripted", "runner": "scripted"}, False)
    assert opponents["runner checkpoint 1, others trained"]["runner"] == reached[4], (
        "the last checkpoint is the final one"
    )
    assert opponents["runner checkpoint 0.25, others trained"] != opponents["runner checkpoint 1, others trained"]


def test_checkpoint_of_a_share_is_the_nearest(run):
    matches = Matches(run, 2, 3)
    saved = [checkpoint.load(path) for path in checkpoint.every(run / checkpoint.FOLDER)]
    assert [entry.steps for entry in saved] == [128, 256, 384, 512]
    for share, iteration in ((0.0, 1), (0.25, 1), (0.37, 1), (0.38, 2), (1.0, 4)):
        policy = goals.players_of(matches, "runner", f"checkpoint {share}")["runner"]
        assert policy is matches.policies(saved[iteration - 1])["runner"]


def test_each_matchup_is_played_once(run, monkeypatch):
    matches, played = Matches(run, 2, 3), []
    monkeypatch.setattr(goals, "measures", lambda outcome, agents: played.append(outcome) or {})
    for _ in range(2):
        matches.play({"tagger": RANDOM, "runner": "scripted"}, False)
        matches.play({"runner": "scripted", "tagger": RANDOM}, False)
    matches.play({"runner": "scripted", "tagger": RANDOM}, True)
    assert len(played) == 2
