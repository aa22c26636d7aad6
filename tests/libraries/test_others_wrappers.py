"""Wrappers of PettingZoo, Gymnasium and TorchRL over single worlds, also with masks, and wrappers that write videos."""

import warnings

import gymnasium
import numpy as np
import pytest
import supersuit
import torch
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordVideo
from pettingzoo.utils import BaseWrapper, aec_to_parallel, parallel_to_aec
from pettingzoo.utils.wrappers import (
    AssertOutOfBoundsWrapper,
    BaseParallelWrapper,
    ClipOutOfBoundsWrapper,
    MultiEpisodeEnv,
    MultiEpisodeParallelEnv,
    OrderEnforcingWrapper,
    RecordVideoParallel,
)
from sb3_contrib import MaskablePPO
from sb3_contrib.common.wrappers import ActionMasker
from small_environments import SMALL, group_of
from stable_baselines3.common.vec_env import VecVideoRecorder
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.envs.utils import check_env_specs

import gpu_envs
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.views.sb3 import SB3VecEnv

MASKED = [name for name in gpu_envs.list_envs() if configured_definition(name, None, SMALL[name])[2].rules.masked]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo", "ignore::UserWarning:torchrl")


def small(env_id="SimpleTag-v0", **settings):
    return gpu_envs.parallel_env(env_id, **{**SMALL[env_id], **settings})


def make_single(env_id="SimpleTag-v0", **settings):
    return gymnasium.make(f"gpu_envs/{env_id}", agent=f"{group_of(env_id)}_0", **{**SMALL[env_id], **settings})


def sample(env, agent, observation):
    mask = observation["action_mask"] if isinstance(observation, dict) else None
    return env.action_space(agent).sample(mask)


def play_turns(env, limit=2**31):
    env.reset(seed=1)
    for agent in env.agent_iter(limit):
        observation, _, terminated, truncated, _ = env.last()
        env.step(None if terminated or truncated else sample(env, agent, observation))


# ---------------------------------------------------------------- PettingZoo


def test_pettingzoos_wrappers_compose():
    env = MultiEpisodeParallelEnv(BaseParallelWrapper(small()), 3)
    env.reset(seed=0)
    steps = 0
    while env.agents:
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        steps += 1
    assert steps >= 3 * 7 - 2  # one episode after another
    assert env.unwrapped.metadata["name"] == "SimpleTag-v0"
    play_turns(OrderEnforcingWrapper(AssertOutOfBoundsWrapper(parallel_to_aec(small()))), 80)
    play_turns(MultiEpisodeEnv(parallel_to_aec(small()), 2), 80)
    env = ClipOutOfBoundsWrapper(parallel_to_aec(small(continuous_actions=True)))
    env.reset(seed=0)
    env.step(np.full(5, 9.0, np.float32))


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", *MASKED])
def test_conversions_of_pettingzoo_and_supersuit_play_equal_worlds(env_id):
    """PettingZoo's conversions to AEC and back, and SuperSuit's wrapper of observations in dicts."""
    world, twin = small(env_id), aec_to_parallel(parallel_to_aec(small(env_id)))
    left, right = [world.reset(seed=1)[0]], [twin.reset(seed=1)[0]]
    while world.agents:
        np.testing.assert_equal(left, right)
        actions = {agent: sample(world, agent, left[0][agent]) for agent in world.agents}
        left, right = world.step(actions)[:4], twin.step(actions)[:4]
    np.testing.assert_equal(left, right)
    assert not twin.agents
    play_turns(supersuit.sticky_actions_v0(gpu_envs.aec_env(env_id, **SMALL[env_id]), 0.0))


class SB3ActionMaskWrapper(BaseWrapper, gymnasium.Env):
    """Wrapper of PettingZoo's tutorial "SB3: Action Masked PPO for Connect Four", which trains one policy for all."""

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.observation_space = super().observation_space(self.possible_agents[0])["observation"]
        self.action_space = super().action_space(self.possible_agents[0])
        return self.observe(self.agent_selection), {}

    def step(self, action):
        current_agent = self.agent_selection
        super().step(action)
        return (
            self.observe(self.agent_selection),
            self._cumulative_rewards[current_agent],
            self.terminations[current_agent],
            self.truncations[current_agent],
            self.infos[current_agent],
        )

    def observe(self, agent):
        return super().observe(agent)["observation"]

    def action_mask(self):
        return super().observe(self.agent_selection)["action_mask"]


def test_final_rewards_in_the_tutorial_of_pettingzoo_are_the_movers():
    """A move ends a game of tic-tac-toe won (+1) or drawn, never lost."""
    wrapped = SB3ActionMaskWrapper(gpu_envs.aec_env("TicTacToe-v0"))
    wrapped.reset(seed=0)
    env = ActionMasker(wrapped, SB3ActionMaskWrapper.action_mask)
    model = MaskablePPO("MlpPolicy", env, n_steps=256, batch_size=64, seed=0, device="cpu")
    finals = []

    def note(variables, _):
        results = zip(variables["rewards"], variables["dones"], strict=True)
        finals.extend(float(reward) for reward, done in results if done)
        return True  # go on

    model.learn(512, callback=note)
    assert len(finals) > 40
    assert set(finals) == {0.0, 1.0}
    assert finals.count(1.0) > finals.count(0.0)


# ---------------------------------------------------------------- TorchRL


@pytest.mark.parametrize("make", [gpu_envs.parallel_env, gpu_envs.aec_env])
@pytest.mark.parametrize("env_id", MASKED)
def test_torchrl_wraps_masked_worlds(env_id, make):
    """TorchRL takes the mask out of the observation; a mask in the info as well would be an error there."""
    world = make(env_id, **SMALL[env_id])
    env = PettingZooWrapper(world, use_mask=True)
    check_env_specs(env)
    data = env.reset(seed=0)
    acting = world.agents if make is gpu_envs.parallel_env else [world.agent_selection]
    masks = {agent: world._world.action_mask(agent) for agent in acting}
    for group, agents in env.group_map.items():
        for index, agent in enumerate(agents):
            assert data[group, "mask"][index] == (agent in acting)
            if agent in acting:
                np.testing.assert_array_equal(data[group, "action_mask"][index].flatten(), np.hstack(masks[agent]))
    assert env.rollout(12, break_when_any_done=False).shape == (12,)


# ---------------------------------------------------------------- Gymnasium


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "CartPole-v1"])
def test_gymnasiums_single_wrappers_compose(env_id):
    for wrap in (
        wrappers.RecordEpisodeStatistics,
        wrappers.NormalizeObservation,
        wrappers.NormalizeReward,
        wrappers.FlattenObservation,
        lambda env: wrappers.FrameStackObservation(env, 3),
        lambda env: wrappers.DelayObservation(env, 2),
        lambda env: wrappers.ClipReward(env, -1, 1),
        lambda env: wrappers.DtypeObservation(env, np.float64),
        lambda env: wrappers.TimeLimit(env, 5),
        lambda env: wrappers.TimeAwareObservation(wrappers.TimeLimit(env, 5)),
        wrappers.Autoreset,
        lambda env: wrappers.TransformReward(env, lambda reward: 2 * reward),
    ):
        env = wrap(make_single(env_id))
        obs, _ = env.reset(seed=0)
        for _ in range(12):
            assert env.observation_space.contains(obs), type(env).__name__
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if (terminated or truncated) and not isinstance(env, wrappers.Autoreset):
                obs, _ = env.reset()
        env.close()


def test_gymnasiums_wrappers_of_actions_and_tensors():
    for wrap in (wrappers.ClipAction, lambda env: wrappers.RescaleAction(env, -1.0, 1.0)):
        env = wrap(make_single(continuous_actions=True))
        env.reset(seed=0)
        env.step(np.full(5, 1.0, np.float32))
    env = wrappers.NumpyToTorch(make_single())
    assert isinstance(env.reset(seed=0)[0], torch.Tensor)
    obs, reward, *_ = env.step(torch.tensor(1))
    assert isinstance(reward, float)
    assert obs.shape == (16,)


# ---------------------------------------------------------------- videos


def test_single_worlds_write_videos(tmp_path):
    world = small(render_mode="rgb_array")
    env = RecordVideoParallel(world, str(tmp_path / "pettingzoo"), episode_trigger=lambda _: True)
    env.reset(seed=0)
    while env.agents:
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    env.close()
    single = make_single(render_mode="rgb_array")
    env = wrappers.RecordVideo(single, str(tmp_path / "gymnasium"), episode_trigger=lambda _: True)
    env.reset(seed=0)
    is_done = False
    while not is_done:
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        is_done = terminated or truncated
    env.close()
    assert [path.stat().st_size > 1000 for path in tmp_path.glob("*/*.mp4")] == [True, True]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("to_numpy", [False, True])
def test_rows_write_videos_of_their_episodes(mode, to_numpy, tmp_path):
    settings = {"group": "agent", "render_mode": "rgb_array", "device": "cpu", "autoreset_mode": mode}
    rows = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=2, max_cycles=3, to_numpy=to_numpy, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SAME_STEP has no picture of an episode's last state
        env = RecordVideo(rows, str(tmp_path), episode_trigger=lambda _: True)
    env.reset(seed=0)
    for t in range(8):
        env.step(rows.sample_actions())
        if mode is AutoresetMode.DISABLED and t == 3:
            env.reset()
    env.close()
    assert len(list(tmp_path.glob("*.mp4"))) > 1


def test_sb3_writes_videos(tmp_path):
    rows = SB3VecEnv("SimpleTag-v0", 2, group="adversary", render_mode="rgb_array", device="cpu", max_cycles=3)
    env = VecVideoRecorder(rows, str(tmp_path), lambda step: step == 2, video_length=4)
    env.reset()
    for _ in range(8):
        env.step(np.zeros(6, np.int64))
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 500
