"""Tasks of EnvPool train by examples/envpool_worlds.py, and their worlds are independent of the batch size."""

import pytest
import torch
from libraries.trained import EXAMPLES, assert_training_helps
from played import assert_same, play

from gpu_envs.runtime.factory import make_core

pytest.importorskip("envpool")
NAME = "envpool_worlds:make_worlds"


@pytest.fixture(autouse=True)
def examples_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_a_world_plays_the_same_in_batches_of_any_size(task, autoreset):
    few, many = (
        make_core(NAME, num_envs=count, seed=3, autoreset=autoreset, task=task, max_episode_steps=30)
        for count in (3, 17)
    )
    history = play(many, 100)
    assert_same(history, play(few, 100), slice(3))
    ended, truncated = (torch.stack([step[name] for step in history]) for name in ("terminated", "truncated"))
    lengths = torch.stack([step["episode_length"] for step in history])
    assert bool(ended.any()) == (task == "CartPole-v1")
    assert lengths[truncated].unique().tolist() == [30]
    assert lengths[ended].float().mean().item() < 30 or task == "Pendulum-v1"


def test_trained_policies_are_better_than_random_ones(tmp_path):
    options = ["--num-envs=32", "--total-steps=40000", "--learner.rollout-length=64"]
    assert_training_helps(NAME, options, tmp_path / "run")
