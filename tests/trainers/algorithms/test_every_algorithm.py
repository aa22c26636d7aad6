"""Requirements on all algorithms: training, resuming, evaluation, export, and use as opponents."""

import dataclasses

import pytest
import torch
from checkpoints import assert_equal_checkpoints

from gpu_envs.errors import CheckpointError, ConfigError
from trainers import load_policy
from trainers.algorithms import algorithm_specs
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.algorithms.on_policy import advantages
from trainers.cli.evaluate import eval_command
from trainers.cli.export import export_command
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.evaluation.policy_evaluation import policies_of, teams
from trainers.models.networks import Network
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

CONTINUOUS = ("ddpg", "td3")
MULTI_DISCRETE = ("ppo", "mat", "maddpg", "matd3", "sac", "masac")


def config_of(name: str, more: dict | None = None, **settings) -> TrainConfig:
    """Return the configuration of a small run that learns in its last rollouts, with more settings of the learner."""
    algorithm = algorithm_specs.find(name)
    fields = {field.name for field in dataclasses.fields(algorithm.config_type)}
    few = {"rollout_length": 8, "hidden_sizes": (8,), "learning_starts": 32, "batch_size": 8, "replay_size": 1000}
    few["reservoir_size"] = 200
    few = {key: value for key, value in few.items() if key in fields}
    learner = algorithm.settings(**few | (more or {}))
    env = {"continuous_actions": True} if name in CONTINUOUS else {}
    arguments = {"num_envs": 4, "total_steps": 96, "eval_episodes": 0, "num_threads": 1, **settings}
    return TrainConfig("SimpleTag-v0", env, algorithm=name, learner=learner, **arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a run of each algorithm, trained at first use."""
    runs = {}

    def run(name: str):
        if name not in runs:
            runs[name] = tmp_path_factory.mktemp(name) / "run"
            Trainer(config_of(name, sharing="group"), runs[name]).run()
        return runs[name]

    return run


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("ppo", "dqn", "qmix"))) for name in ALGORITHMS],
)
def test_checkpoints_can_be_evaluated_exported_and_used_as_opponents(name, trained, tmp_path, capsys):
    run = trained(name)
    assert eval_command([str(run), "--episodes", "4", "--opponents", str(run)]) == 0
    assert "adversary" in capsys.readouterr().out
    assert export_command([str(run), "--output", str(tmp_path / "policy.pt2"), "--policy", "agent"]) == 0
    assert (tmp_path / "policy.pt2").exists()
    policy = load_policy(run, "adversary")
    assert policy.act(torch.zeros(2, 3, policy.obs_width), greedy=True).shape[:2] == (2, 3)
    opponents = {"eval_episodes": 4, "eval_opponents": str(checkpoint.find(run))}
    config = config_of(name, sharing="group", total_steps=64, **opponents)
    Trainer(config, tmp_path / "against").run()


TAG = {"env_id": "TagContinuous-v0", "env": {"num_taggers": 2, "num_runners": 3, "episode_length": 10}}
"""An environment whose actions have several components, and whose agents die."""
GRU = {"network": "gru"}
RESUMED = [
    *((name, {}, {}) for name in ALGORITHMS),
    *(
        pytest.param(name, {}, TAG, marks=[pytest.mark.slow] * (name not in ("ppo", "masac")))
        for name in MULTI_DISCRETE
    ),
    ("dqn", {"prioritized": True, "n_step": 3, "dueling": True}, {}),
    ("nfsp", {"anticipatory_param": 0.5}, {"env_id": "KuhnPoker-v0", "sharing": "agent"}),
    ("qmix", {**GRU, "window": 3, "burn_in": 1}, {}),
    ("dqn", {**GRU, "window": 3, "burn_in": 1, "n_step": 2}, {}),
    ("iql", {**GRU, "window": 3, "burn_in": 1}, {"env_id": "PhantomTicTacToe-v0"}),
    ("sac", {**GRU, "window": 3, "burn_in": 1}, {}),
    ("td3", {**GRU, "window": 3, "burn_in": 1}, {}),
    ("ppo", GRU, TAG),
    ("mappo", GRU, {}),
    pytest.param("a2c", {**GRU, "critic_input": "state", "optimizer": "adam"}, {}, marks=pytest.mark.slow),
    *((name, {"normalize_obs": True}, {}) for name in ("td3", "sac", "maddpg", "masac")),
]


@pytest.mark.parametrize(("name", "more", "settings"), RESUMED)
def test_resumed_run_equals_the_uninterrupted_one(name, more, settings, tmp_path):
    """Bit for bit, from the middle, after some learning; with several policies, and agents that die."""
    config = dataclasses.replace(config_of(name, more, checkpoint_interval=2, keep_last_checkpoints=9), **settings)
    uninterrupted = Trainer(config, tmp_path / "whole")
    uninterrupted.iterate()
    uninterrupted.iterate()
    middle = checkpoint.load(tmp_path / "whole")
    last = uninterrupted.run()
    resumed = Trainer(config, tmp_path / "resumed", middle)
    resumed.run()
    assert_equal_checkpoints(last.parents[1], tmp_path / "resumed")


@pytest.mark.parametrize("name", ["ppo", "a2c", "dqn", "qmix", "td3", "sac", "maddpg", "masac"])
def test_equal_seeds_learn_equally_and_global_streams_are_not_used(name, tmp_path):
    weights = []
    for number, seed in enumerate((0, 0, 1)):
        trainer = Trainer(config_of(name, seed=seed), tmp_path / str(number))
        torch.manual_seed(number)
        state = torch.get_rng_state()
        trainer.run()
        assert torch.equal(torch.get_rng_state(), state)
        weights.append(trainer.assignments["agent"].learner.actor.module.body[0].weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("name", ["qmix", "mat"])
def test_policies_of_another_space_or_team_are_refused(name, trained):
    core = make_train_core(TrainConfig("SimpleTag-v0", {"num_good": 2}), 2, 0)
    saved = checkpoint.load(trained(name))
    with pytest.raises(CheckpointError, match="obs_width"):
        policies_of(saved, {"adversary": ["adversary"]}, core)
    core = make_train_core(TrainConfig("SimpleTag-v0"), 2, 0)
    with pytest.raises(CheckpointError, match="ids: expected 1 as in this environment, got 3"):
        policies_of(saved, {"adversary": ["adversary_0"]}, core)


def test_teams_are_those_that_share_a_group_or_a_reward():
    core = make_train_core(TrainConfig("SimpleSpeakerListener-v0"), 32, 0)
    assert teams(core, {"speaker": ["speaker"], "listener": ["listener"]}, 1) == [["speaker", "listener"]]
    core = make_train_core(TrainConfig("SimpleTag-v0"), 32, 0)
    sides = {"agent": ["agent"], "one": ["adversary_0"], "two": ["adversary_1", "adversary_2"]}
    assert teams(core, sides, 1) == [["agent"], ["one", "two"]]


def test_cooperative_team_is_evaluated_together(tmp_path, monkeypatch):
    """Best checkpoint and patience use the joint play of trained policies if they share rewards."""
    from trainers.runner import training_evaluator

    played, original = [], training_evaluator.evaluate_policies

    def watched(core, players, **keywords):
        played.append(set(players))
        return original(core, players, **keywords)

    monkeypatch.setattr(training_evaluator, "evaluate_policies", watched)
    config = dataclasses.replace(config_of("ppo"), env_id="SimpleSpeakerListener-v0", eval_episodes=4, total_steps=32)
    Trainer(config, tmp_path / "run").run()
    assert played == [{"speaker", "listener"}]


@pytest.mark.parametrize(
    ("name", "settings", "line"),
    [
        ("sac", {"learning_starts": 100}, "learner.learning_starts: expected fewer than total_steps = 96, .*, got 100"),
        ("dqn", {"replay_size": 10}, "learner.replay_size: expected at least 32, that is 8 steps of 4 worlds, got 10"),
        ("dqn", {"n_step": 9, "replay_size": 32}, "expected at least 36, that is 9 steps of 4 worlds"),
        (
            "qmix",
            {"network": "gru", "window": 20, "burn_in": 3, "replay_size": 64},
            "expected at least 92, that is 23 steps",
        ),
        ("td3", {"replay_size": 28}, "learner.replay_size: expected at least 32, .*, got 28"),
    ],
)
def test_invalid_training_setups_are_refused(name, settings, line, tmp_path):

    def train():
        config = config_of(name)
        learner = dataclasses.replace(config.learner, **settings)
        Trainer(dataclasses.replace(config, learner=learner), tmp_path / "run")

    with pytest.raises(ConfigError, match=line):
        train()
    assert not (tmp_path / "run").exists()


def test_environment_is_equal_for_all_algorithms():
    games = {str(preset("TagContinuous-v0", "cpu", name).env) for name in ("ppo", "mappo", "a2c", "maddpg", "qmix")}
    assert len(games) == 1
    assert "num_runners" in games.pop()


@pytest.mark.parametrize("name", ["ppo", "mappo", "appo"])
def test_values_of_slices_equal_those_of_all_rows(name, tmp_path, monkeypatch):
    trainer = Trainer(config_of(name, engine="torch"), tmp_path)
    trainer.iterate()
    trainer.collector.collect()
    learners = [assignment.learner for assignment in trainer.assignments.values()]
    batches, rows = [learner.batch() for learner in learners], []
    monkeypatch.setattr(advantages, "SLICE_ROWS", 7)
    for learner, expected in zip(learners, batches, strict=True):
        learner.net.critic.register_forward_hook(lambda module, inputs, outputs: rows.append(outputs.numel()))
        batch = learner.batch()
        for entry, tensor in expected.items():
            torch.testing.assert_close(batch[entry], tensor, rtol=1e-5, atol=1e-6)
    assert max(rows) <= 7
    trainer.log.close()


@pytest.mark.parametrize("name", ["ppo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mappo", "appo"))])
def test_values_of_slices_of_sequences_equal_those_of_all_sequences(name, tmp_path, monkeypatch):
    trainer = Trainer(config_of(name, {"network": "gru"}), tmp_path)
    trainer.iterate()
    trainer.collector.collect()
    learners = [assignment.learner for assignment in trainer.assignments.values()]
    batches = [learner.batch() for learner in learners]
    hidden = [learner.recurrent_state.critic_next.clone() for learner in learners]
    rows, unroll = [], Network.unroll

    def counted(self, x, *arguments):
        rows.append(x.shape[0] * x.shape[1])
        return unroll(self, x, *arguments)

    limit = 3 * (trainer.config.learner.rollout_length + 1)
    monkeypatch.setattr(advantages, "SLICE_ROWS", limit)
    monkeypatch.setattr(Network, "unroll", counted)
    for learner, expected, state in zip(learners, batches, hidden, strict=True):
        batch = learner.batch()
        for entry, tensor in expected.items():
            torch.testing.assert_close(batch[entry], tensor, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(learner.recurrent_state.critic_next, state, rtol=1e-5, atol=1e-6)
    assert max(rows) <= limit < sum(rows)
    trainer.log.close()
