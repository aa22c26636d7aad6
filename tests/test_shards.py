"""Worlds split over devices play as in one core (the devices here: the CPU, several times)."""

import pytest
import torch

import gpu_envs
from gpu_envs import errors


@pytest.fixture
def pair(env_id):
    from conftest import SMALL

    settings = {"seed": 3, **SMALL[env_id]}
    whole = gpu_envs.make(env_id, 11, "cpu", **settings)
    split = gpu_envs.make(env_id, 11, devices=["cpu", "cpu", "cpu"], **settings)
    return whole, split


def test_shards_play_like_one_core(pair):
    whole, split = (env.core for env in pair)
    for seed in (None, 5, torch.arange(11)):
        left, right = whole.reset(seed)[0], split.reset(seed)[0]
        assert torch.equal(left, right)
        for _ in range(12):
            action = whole.sample_actions()
            assert torch.equal(action, split.sample_actions())
            left, right = whole.step(action), split.step(action)
            for a, b in zip(left[:4], right[:4], strict=True):
                assert torch.equal(a, b)
            done = left[2] | left[3]
            assert torch.equal(left[4]["final_obs"][done], right[4]["final_obs"][done])
            assert torch.equal(whole.alive, split.alive)
    assert torch.equal(whole.state(), split.state())
    mask = torch.arange(11) % 2 == 0
    assert torch.equal(whole.reset(mask=mask)[0], split.reset(mask=mask)[0])
    assert (whole.frame((0, 7), 32) == split.frame((0, 7), 32)).all()


def test_dicts_and_state(pair):
    whole, split = pair
    whole.reset()
    split.reset()
    kept = split.core.get_state()
    actions = split.sample_actions()
    first = split.step(actions)[0]
    split.core.set_state(kept)
    second = split.step(actions)[0]
    expected = whole.step(actions)[0]
    for agent, obs in first.items():
        assert torch.equal(obs, second[agent])
        assert torch.equal(obs, expected[agent])


def test_errors_name_the_world_of_the_batch():
    core = gpu_envs.make("SimpleTag-v0", 6, devices=["cpu", "cpu"], seed=0).core
    core.reset()
    action = core.sample_actions()
    action[4, 1] = 7
    with pytest.raises(errors.ActionError, match="world 4"):
        core.step(action)
    assert (core.steps == 1).all()
    with pytest.raises(errors.ActionError, match="got"):
        core.step(action[:3])
    for bad in ({"devices": []}, {"devices": "cuda"}, {"devices": ["cpu"], "device": "cpu"}):
        with pytest.raises(errors.ConfigError, match="devices"):
            gpu_envs.make("SimpleTag-v0", 2, **bad)
    with pytest.raises(errors.ConfigError, match="num_envs"):
        gpu_envs.make("SimpleTag-v0", 1, devices=["cpu", "cpu"])
