"""Environments made inside ``torch.inference_mode()`` play outside it, and the other way round."""

import gymnasium
import pytest
import torch

import gpu_envs
from gpu_envs import wrappers

SETTINGS = {"num_envs": 3, "device": "cpu", "seed": 0}


def rows(**settings):
    return gymnasium.make_vec("gpu_envs/SimpleTag-v0", group="agent", max_cycles=4, **SETTINGS, **settings)


def seated(**settings):
    return rows(opponents=lambda obs: torch.zeros(obs.shape[:2], dtype=torch.int64), **settings)


def changed(**settings):
    env = gpu_envs.make("SimpleTag-v0", **SETTINGS, **settings)
    env.core.set_params(good_size=torch.tensor([0.1, 0.2, 0.3]))
    return env


MAKERS = {
    "batched": lambda: gpu_envs.make("SimpleTag-v0", max_cycles=4, **SETTINGS),
    "reused buffers": lambda: gpu_envs.make("SimpleTag-v0", max_cycles=4, reuse_buffers=True, **SETTINGS),
    "drawn constants": lambda: gpu_envs.make(
        "SimpleTag-v0", domain_randomization={"good_size": (0.1, 0.2)}, **SETTINGS
    ),
    "constants by world": changed,
    "rows": rows,
    "scripted others": seated,
    "statistics": lambda: wrappers.RecordEpisodeStatistics(rows()),
    "normalized": lambda: wrappers.NormalizeReward(wrappers.NormalizeObservation(rows())),
    "stacked": lambda: wrappers.FrameStackObservation(rows(), 3),
}


def play(env):
    """Reset, step past the end of an episode, change a constant and put a state back."""
    core = env.unwrapped.core
    env.reset(seed=0)
    state = core.get_state()
    for _ in range(6):
        env.step(env.unwrapped.sample_actions())
    core.reset(reset_mask=torch.tensor([True, False, True]))
    core.set_params(tag_reward=torch.ones(3))
    core.set_state(state)
    env.step(env.unwrapped.sample_actions())
    return core.obs.clone()


@pytest.mark.parametrize("name", MAKERS)
def test_environment_made_in_inference_mode_plays_outside(name):
    usual = play(MAKERS[name]())
    with torch.inference_mode():
        env = MAKERS[name]()
    assert torch.equal(play(env), usual)
    with torch.inference_mode():
        assert torch.equal(play(env), usual)
    assert torch.equal(play(env), usual)
