"""Options of a reset: one word for the mask in every view, and no key that is passed over in silence."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import gpu_envs
from gpu_envs.errors import ActionError, ConfigError


def batched(id="SimpleTag-v0"):
    return gpu_envs.make(id, 2, "cpu", autoreset="disabled", seed=0)


def rows(id="SimpleTag-v0"):
    group = "agent"  # one agent a world
    mode = AutoresetMode.DISABLED
    return gymnasium.make_vec(f"gpu_envs/{id}", 2, group=group, autoreset_mode=mode, device="cpu", seed=0)


def learner(id="SimpleTag-v0"):
    return gymnasium.make(f"gpu_envs/{id}", agent=None if id == "CartPole-v1" else "agent_0", seed=0)


def parallel(id="SimpleTag-v0"):
    return gpu_envs.parallel_env(id, seed=0)


@pytest.mark.parametrize("make", [batched, rows])
def test_reset_mask_resets_its_worlds_alone(make):
    env = make()
    env.reset()
    for _ in range(3):
        env.step(env.unwrapped.sample_actions())
    env.reset(options={"reset_mask": torch.tensor([False, True])})
    assert env.unwrapped.core.elapsed_steps.tolist() == [3, 0]


@pytest.mark.parametrize("make", [batched, rows, learner, parallel])
@pytest.mark.parametrize(
    ("id", "options", "words"),
    [
        ("SimpleTag-v0", {"something": 1}, "no reset option named 'something'"),
        ("CartPole-v1", {"lo": 1}, "no reset option named 'lo'; did you mean low?"),
        ("SimpleTag-v0", {3: 1}, "no reset option named 3"),
        ("SimpleTag-v0", "low", "options: expected a dict by name or None, got 'low'"),
        ("SimpleTag-v0", [1], r"options: expected a dict by name or None, got \[1\]"),
    ],
)
def test_unknown_options_and_non_dict_options_raise(make, id, options, words):
    env = make(id)
    env.reset()
    with pytest.raises(ConfigError, match=words):
        env.reset(options=options)


@pytest.mark.parametrize("make", [learner, parallel])
def test_single_world_takes_no_mask(make):
    env = make()
    env.reset()
    with pytest.raises(ConfigError, match="no reset option named 'reset_mask'; there are none"):
        env.reset(options={"reset_mask": np.array([True])})


def test_mask_given_twice_raises():
    env, mask = batched(), torch.tensor([True, False])
    env.reset()
    with pytest.raises(ConfigError, match="reset_mask was given twice"):
        env.reset(options={"reset_mask": mask}, reset_mask=mask)


def test_invalid_masks_raise():
    env = batched()
    env.reset()
    for bad in (torch.ones(3).bool(), torch.ones(2), np.ones(2, bool), torch.ones(2).bool().to_sparse()):
        with pytest.raises(ActionError, match=r"reset_mask: expected a torch.bool tensor \(2,\) on cpu, got"):
            env.reset(reset_mask=bad)
    assert env.core.elapsed_steps.tolist() == [0, 0]


def test_pettingzoo_ignores_the_key_of_its_own_tests():
    env = parallel()
    assert set(env.reset(options={"options": 1})[0]) == set(env.possible_agents)
