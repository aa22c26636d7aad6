"""A small training run for tests of the viewer."""

from pathlib import Path

import pytest

from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("run") / "cart"
    learner = PPOConfig(rollout_length=4, hidden_sizes=(4,), num_epochs=1, num_minibatches=1)
    settings = {"max_episode_steps": 6}
    Trainer(TrainConfig("CartPole-v1", settings, 4, 16, eval_episodes=0, learner=learner), path).run()
    return path
