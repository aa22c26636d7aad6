"""The names of the package `trainers`."""

import subprocess
import sys

import pytest

import trainers
import trainers.cluster
from gpu_envs.errors import ConfigError


def test_import_of_the_package_does_not_load_torch():
    code = "import sys, trainers, trainers.cluster; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", trainers.__all__)
def test_public_names_can_be_imported(name):
    assert getattr(trainers, name) is not None
    assert name in dir(trainers)


def test_unknown_names_raise_attribute_errors():
    with pytest.raises(AttributeError, match="module 'trainers' has no attribute 'trian'"):
        _ = trainers.trian


def test_train_returns_policies_files_and_statistics(tmp_path):
    config = trainers.TrainConfig(
        "SimpleTag-v0", num_envs=8, total_steps=8 * 30 * 2, eval_episodes=4,
        learner=trainers.PPOConfig(rollout_length=30, hidden_sizes=(8,)),
    )  # fmt: skip
    steps = []
    result = trainers.train(config, tmp_path / "run", progress=lambda done, text: steps.append(done))
    assert steps == [240, 480]
    assert result.run_dir == tmp_path / "run"
    assert result.checkpoint == result.best_checkpoint == tmp_path / "run" / "checkpoints" / "000000002"
    assert result.members == {"adversary": ("adversary",), "agent": ("agent",)}
    assert set(result.policies) == {"adversary", "agent"}
    assert (result.steps, result.stopped_by, result.stopped_early, result.reached_goal) == (480, None, False, None)
    assert result.recent_returns == {}
    saved = trainers.load_checkpoint(result.checkpoint)
    assert saved.steps == 480
    with pytest.raises(ConfigError, match="there is a run already"):
        trainers.train(config, tmp_path / "run")
