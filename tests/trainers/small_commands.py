"""Options and a file of small training runs, and such a run, for tests of several rooms."""

import shutil
import sys

import pytest

from trainers.cli.train import train_command

SMALL = [
    "SimpleTag-v0", "--device", "cpu", "--num-envs", "16", "--total-steps", "1000", "--num-threads", "1",
    "--eval-episodes", "8", "--checkpoint-interval", "2", "--env-arg", "num_good=2", "--no-video",
    "--learner.rollout-length", "10", "--learner.hidden_sizes", "16", "--learner.num-epochs", "1",
]  # fmt: skip
WITHOUT_VIDEO = [option for option in SMALL if option != "--no-video"]
SMALL_FILE = """
env_id: SimpleTag-v0
env: {num_good: 2}
policies: {adversary: hunters}
device: cpu
num_envs: 16
total_steps: 640
num_threads: 1
eval_episodes: 4
checkpoint_interval: 2
video: false
learner:
  rollout_length: 10
  hidden_sizes: [16, 8]
  learning_rate: 1e-3
  normalize_obs: false
  clip_range_vf: null
"""
"""A configuration file of a small training."""


_trained = []


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run; each file that imports it gets a copy. One training serves them all."""
    if not _trained:
        _trained.append(tmp_path_factory.mktemp("trained"))
        assert train_command([*SMALL, "--run-dir", str(_trained[0])]) == 0
    return shutil.copytree(_trained[0], tmp_path_factory.mktemp("copy") / "run")


@pytest.fixture
def no_curves(monkeypatch):
    """Let commands draw no curves at their end, which takes longer than a small training."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
