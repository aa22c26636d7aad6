"""Worlds of other libraries that step at once."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from host_worlds import Broken

import gpu_envs
from gpu_envs.errors import ActionError, ConfigError, HostError
from gpu_envs.runtime.factory import make_core


class Climb:
    """Two agents climb by their choice; agent_0 has terminated at height 2, and both are truncated at step 4."""

    agents = ("agent_0", "agent_1")
    num_envs = 3

    def __init__(self, choices=None, shape=(3, 2)):
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_spaces = dict.fromkeys(self.agents, box)
        self.action_spaces = dict.fromkeys(self.agents, choices or spaces.Discrete(3))
        self.height, self.steps, self.start = torch.zeros(3, 2), torch.zeros(3), torch.zeros(3)
        self.shape = shape

    def _observe(self):
        return torch.stack([self.height, self.start[:, None].expand(3, 2)], 2)

    def reset(self, seed, mask):
        self.height[mask], self.steps[mask] = 0.0, 0.0
        self.start[mask] = (seed[mask] % 1000).float()
        return self._observe()

    def step(self, action):
        self.height += action
        self.steps += 1
        terminated = self.height.ge(2) & torch.tensor([True, False])
        truncated = (self.steps >= 4).numpy()[:, None].repeat(2, 1)  # arrays may be of several libraries
        return self._observe(), action.float().reshape(self.shape), terminated, truncated


def test_flags_final_observations_and_resets_of_worlds_that_step_at_once():
    core = gpu_envs.from_batched(Climb(), seed=5)
    obs, _ = core.reset()
    first = obs[:, :, 1].clone()
    assert len(first[:, 0].unique()) == 3  # seeds differ
    action = torch.tensor([[1, 2], [0, 1], [2, 0]])
    for _ in range(2):
        obs, reward, terminated, truncated, info = core.step(action)
    assert terminated.tolist() == [[True, False], [False, False], [False, False]]
    assert info["valid"].tolist() == [[True, True], [True, True], [False, True]]  # agent_0 of world 2 has left
    assert reward.tolist() == [[1, 2], [0, 1], [0, 0]]
    assert obs[2].tolist() == [[0, 0], [0, first[2, 1]]]
    for _ in range(2):
        obs, _, terminated, truncated, info = core.step(action)
    assert truncated.tolist() == [[False, True], [True, True], [False, True]]
    assert info["final_obs"][:, 1, 0].tolist() == [8, 4, 0]
    assert obs[:, :, 0].tolist() == [[0, 0]] * 3
    assert not torch.equal(obs[:, :, 1], first)
    assert core.episode_index.tolist() == [1, 1, 1]


def test_results_that_do_not_fit_are_one_line():
    core = gpu_envs.from_batched(Climb(shape=(2, 3)))
    core.reset(seed=0)
    with pytest.raises(HostError, match=r"batched:Climb: reward: expected a shape \(3, 2\), got \(2, 3\)"):
        core.step(core.sample_actions())
    with pytest.raises(ConfigError, match="action space of agent_0: expected choices from 0 on or a flat Box"):
        gpu_envs.from_batched(Climb(spaces.Discrete(3, start=1)))
    with pytest.raises(ConfigError, match="batched:Climb: workers: expected 1, as its worlds step at once, got 2"):
        gpu_envs.from_batched(Climb(), workers=2)
    with pytest.raises(ConfigError, match="batched:Broken: expected num_envs as in BatchedWorlds, got none"):
        gpu_envs.from_batched(Broken("raise"))
    env = Climb()
    env.observation_spaces = env.observation_spaces | {"agent_1": spaces.Box(0, 1, (3,), np.float32)}
    with pytest.raises(ConfigError, match=r"batched:Climb: expected observations of one shape, got \(2,\), \(3,\)"):
        gpu_envs.from_batched(env)
    env.observation_spaces = {"agent_0": env.observation_spaces["agent_0"]}
    with pytest.raises(ConfigError, match="batched:Climb: expected a space of every agent, got none of agent_1"):
        gpu_envs.from_batched(env)


class MaskedClimb(Climb):
    """At the start no agent may climb by two."""

    @property
    def action_mask(self):
        mask = torch.ones(3, 2, 3, dtype=torch.bool)
        mask[..., 2] = self.steps[:, None] > 0
        return mask


def make_masked(num_envs=3):
    return MaskedClimb()


def test_a_function_by_id_makes_worlds_with_masks_at_once():
    core = make_core(f"{__name__}:make_masked", num_envs=3, seed=0)
    _, info = core.reset()
    assert info["action_mask"].tolist() == [[[True, True, False]] * 2] * 3
    with pytest.raises(ActionError, match="action of agent_0 in world 0: expected a legal action"):
        core.step(torch.full((3, 2), 2))
    for _ in range(3):
        _, _, _, _, info = core.step(core.sample_actions())
    assert info["action_mask"].all()
    *_, info = core.step(core.sample_actions())  # its end starts the next episode
    assert info["action_mask"].tolist() == [[[True, True, False]] * 2] * 3
    with pytest.raises(ConfigError, match="num_envs: expected 4 worlds, got an environment of 3"):
        make_core(f"{__name__}:make_masked", num_envs=4)


class LateMask(Climb):
    closed = 0

    def reset(self, seed, mask):
        self.action_mask = torch.ones(3, 2, 3, dtype=torch.bool)
        return super().reset(seed, mask)

    def close(self):
        LateMask.closed += 1


def make_late(num_envs, height=None):
    if height is not None:
        raise ValueError(f"height {height}")
    return LateMask()


class NoMask(Climb):
    action_mask = None


def test_a_mask_of_none_allows_all_choices():
    core = gpu_envs.from_batched(NoMask())
    core.reset(seed=0)
    core.step(core.sample_actions())
    assert core.action_mask is None


def test_masks_that_appear_late_and_functions_that_fail_are_one_line():
    core = gpu_envs.from_batched(LateMask())
    with pytest.raises(HostError, match="action_mask: expected it from the start"):
        core.reset()
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    with pytest.raises(ConfigError, match="action_mask: expected none with continuous actions"):
        gpu_envs.from_batched(MaskedClimb(box))
    name = f"{__name__}:make_late"
    with pytest.raises(HostError, match=f"{name}: making the worlds failed: ValueError: height 2"):
        make_core(name, num_envs=3, height=2)
    with pytest.raises(ConfigError, match="workers: expected 1"):
        make_core(name, num_envs=3, workers=2)
    assert LateMask.closed == 0
    with pytest.raises(ConfigError, match="expected 4 worlds, got an environment of 3"):
        make_core(name, num_envs=4)
    assert LateMask.closed == 1
