"""Configuration that the tests of searches change."""

from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig


def cartpole(**changes):
    learner = PPOConfig(rollout_length=8, num_epochs=1, num_minibatches=2, hidden_sizes=(8,), learning_rate_final=0.0)
    settings = {"num_envs": 8, "total_steps": 64 * 6, "eval_episodes": 2, "num_threads": 1, "learner": learner}
    return TrainConfig("CartPole-v1", **{**settings, **changes})
