"""Trainings within other settings of the process."""

import sys

import pytest
import torch

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import train

CONFIG = TrainConfig(
    "CartPole-v1",
    num_envs=4,
    total_steps=64,
    eval_episodes=4,
    engine="torch",
    learner=PPOConfig(rollout_length=8, hidden_sizes=(8,), num_epochs=1),
)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_within_a_disabled_gradient_mode_equals_another_one(mode, tmp_path):
    usual = train(CONFIG, tmp_path / "usual")
    with mode():
        result = train(CONFIG, tmp_path / "within")
        assert not torch.is_grad_enabled()
    for name, value in usual.policies["agent"].net.state_dict().items():
        assert torch.equal(value, result.policies["agent"].net.state_dict()[name]), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_training_with_another_default_dtype_is_an_error(dtype, tmp_path):
    torch.set_default_dtype(dtype)
    try:
        with pytest.raises(ConfigError, match=r"^torch's default dtype: expected float32, got float\d\d; call"):
            train(CONFIG, tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)


def test_training_with_a_low_recursion_limit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "getrecursionlimit", lambda: 60)
    with pytest.raises(ConfigError, match=r"^Python's recursion limit: expected at least 1000, got 60; call"):
        train(CONFIG, tmp_path)
