"""Trainings with worlds in plain Python."""

import json
import warnings
from dataclasses import replace

import pytest
import torch
from host_worlds import Countdown

import gpu_envs
from gpu_envs.errors import ConfigError, HostError
from trainers.algorithms.off_policy.dqn import DQNConfig
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.evaluate import eval_command
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

ID = "host_worlds:make_countdown"


def _config(steps=32, **settings):
    learner = PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=1, hidden_sizes=(8,), normalize_obs=False)
    return TrainConfig(ID, total_steps=steps, num_envs=4, num_threads=1, eval_episodes=2, learner=learner, **settings)


def test_rollouts_bootstrap_from_the_last_observation_of_truncated_agents_only(tmp_path):
    trainer = Trainer(_config(env={"masks": True}), tmp_path)
    trainer.collector.collect()
    for name, agents in (("walker", 2), ("flyer", 1)):
        rollout = trainer.assignments[name].learner.rollout
        stored = rollout.final_slot < rollout.final_obs.shape[0] - 1  # (T, E, n)
        cut = torch.zeros(8, 4, agents, dtype=torch.bool)
        cut[3], cut[7] = True, True
        if name == "walker":
            cut[:, :, 0] = False  # walker_0 was terminated
            assert not rollout.valid[2:4, :, 0].any()
            assert rollout.terminated[1, :, 0].all()
        assert torch.equal(stored, cut)
        last = rollout.final_obs[rollout.final_slot[cut]]
        assert (last[:, 0] == 4).all()  # not the first observation of the next episode, which is 0
    trainer.close()


@pytest.mark.slow
def test_a_command_trains_evaluates_and_resumes_with_new_episodes(tmp_path, capsys):
    options = ["--num-envs", "4", "--num-threads", "1", "--eval-episodes", "2", "--learner.rollout-length", "8"]
    options += ["--learner.hidden_sizes", "8", "--learner.num-epochs", "1", "--device", "cpu", "--env-arg", "limit=3"]
    assert train_command([ID, "--total-steps", "64", "--run-dir", str(tmp_path / "run"), *options]) == 0
    out = capsys.readouterr().out
    assert "no video: host_worlds:make_countdown: host environments cannot draw a frame" in out
    assert json.loads((tmp_path / "run/config.json").read_text())["env"] == {"limit": 3}
    assert eval_command([str(tmp_path / "run"), "--episodes", "4", "--device", "cpu"]) == 0
    assert "walker" in capsys.readouterr().out
    with pytest.warns(UserWarning, match="its episodes start anew"):
        assert train_command(["--resume", str(tmp_path / "run"), "--total-steps", "96"]) == 0
    assert checkpoint.load(tmp_path / "run").steps == 96


def test_an_error_of_a_world_ends_the_training_with_a_checkpoint(tmp_path, monkeypatch):
    trainer = Trainer(_config(steps=320), tmp_path)
    trainer.iterate()

    def step(self, actions):
        raise RuntimeError("the gripper broke")

    monkeypatch.setattr(Countdown, "step", step)
    with pytest.raises(HostError, match="world 0: RuntimeError: the gripper broke"):
        trainer.run()
    assert checkpoint.load(tmp_path).steps == 32
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Trainer(_config(steps=64), tmp_path, checkpoint.load(tmp_path)).run()
    assert checkpoint.load(tmp_path).steps == 64


@pytest.mark.parametrize("learner", [PPOConfig(), DQNConfig(learning_starts=16, window=2, network="gru")])
def test_new_episodes_after_a_resume_start_without_memory(learner, tmp_path):
    config = _config(env={"limit": 100})  # no episode ends before the checkpoint
    algorithm = "dqn" if isinstance(learner, DQNConfig) else "ppo"
    learner = replace(learner, network="gru", rollout_length=8, hidden_sizes=(8,))
    config = replace(config, algorithm=algorithm, learner=learner)
    Trainer(config, tmp_path).run()
    with pytest.warns(UserWarning, match="its episodes start anew"):
        resumed = Trainer(replace(config, total_steps=64), tmp_path, checkpoint.load(tmp_path))
    for assignment in resumed.assignments.values():
        rollout = assignment.learner.rollout
        assert rollout.episode_starts[0].all()
        if algorithm == "dqn":  # the stored steps keep theirs
            assert assignment.learner.replay.buffers["episode_starts"][:8].sum() == 4
    resumed.close()


def test_the_engine_kernel_is_refused_in_one_line(tmp_path):
    with pytest.raises(ConfigError, match="engine = 'kernel': expected an environment with rules for kernels"):
        Trainer(_config(engine="kernel"), tmp_path)


@pytest.mark.slow
def test_a_training_repeats_itself_with_any_number_of_worker_processes(tmp_path):
    def weights(folder, **settings):
        trainer = Trainer(_config(steps=64, **settings), tmp_path / folder)
        trainer.run()
        return trainer.learners.policies()["walker"].actor.state_dict()

    first, second = weights("a"), weights("b", env_workers=2)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.slow
def test_a_function_of_a_program_is_trained_by_a_factory(tmp_path):
    def factory(config, num_envs, seed, **settings):
        return gpu_envs.from_pettingzoo(Countdown, num_envs, seed=seed, reuse_buffers=True)

    core = make_train_core(_config(), 2, 0)
    assert core.possible_agents == factory(_config(), 2, 0).possible_agents
    trainer = Trainer(_config(), tmp_path, factory=factory)
    trainer.run()
