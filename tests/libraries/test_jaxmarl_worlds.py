"""Environments of JaxMARL train by examples/jaxmarl_worlds.py, and their worlds are independent of the batch size."""

import pytest
import torch
from libraries.trained import EXAMPLES, assert_training_helps
from played import play

from gpu_envs.runtime.factory import make_core

NAME = "jaxmarl_worlds:make_worlds"
SETTINGS = {
    "MPE_simple_spread_v3": {"max_steps": 25},
    "HeuristicEnemySMAX": {"max_steps": 15, "num_allies": 3, "num_enemies": 3},
}


@pytest.fixture(autouse=True)
def examples_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_world_plays_the_same_in_batches_of_any_size(name):
    few, many = (make_core(NAME, num_envs=count, seed=3, name=name, **SETTINGS[name]) for count in (3, 32))
    assert (few.action_mask is not None) == (name == "HeuristicEnemySMAX")
    for left, right in zip(play(few, 80), play(many, 80), strict=True):
        for entry, values in left.items():
            torch.testing.assert_close(values, right[entry][:3], rtol=1e-4, atol=1e-4)
    assert few.episode_index.min() >= 2
    assert len(few.reset()[0][:, 0].unique(dim=0)) == 3  # worlds differ


def test_battles_end_by_deaths_or_are_truncated():
    history = play(
        make_core(NAME, num_envs=32, seed=0, name="HeuristicEnemySMAX", **SETTINGS["HeuristicEnemySMAX"]), 40
    )
    terminated, truncated = (torch.stack([step[flag] for step in history]) for flag in ("terminated", "truncated"))
    assert terminated.any()
    assert truncated.any()
    assert not (terminated & truncated).any()
    lengths = torch.stack([step["episode_length"] for step in history])
    assert lengths[truncated].unique().tolist() == [15]


def test_trained_policies_are_better_than_random_ones(tmp_path):
    options = ["--num-envs=64", "--total-steps=150000", "--env-arg=num_agents=2", "--env-arg=num_landmarks=2"]
    assert_training_helps(NAME, options, tmp_path / "run")
