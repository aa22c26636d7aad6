"""PettingZoo's and Gymnasium's own wrappers over single-world interfaces, and the wrappers that write videos."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers as gym_wrappers
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordVideo
from pettingzoo.test import api_test
from pettingzoo.utils import aec_to_parallel, parallel_to_aec
from pettingzoo.utils.wrappers import (
    AssertOutOfBoundsWrapper,
    BaseParallelWrapper,
    ClipOutOfBoundsWrapper,
    MultiEpisodeEnv,
    MultiEpisodeParallelEnv,
    OrderEnforcingWrapper,
    RecordVideoParallel,
)
from small_environments import GROUP, SMALL
from stable_baselines3.common.vec_env import VecVideoRecorder

import gpu_envs
from gpu_envs.views.sb3 import SB3VecEnv


def small(env_id="SimpleTag-v0", **settings):
    return gpu_envs.parallel_env(env_id, **{**SMALL[env_id], **settings})


def make_single(env_id="SimpleTag-v0", **settings):
    return gymnasium.make(f"gpu_envs/{env_id}", agent=f"{GROUP[env_id]}_0", **{**SMALL[env_id], **settings})


def act(env):
    return {agent: env.action_space(agent).sample() for agent in env.agents}


# ---------------------------------------------------------------- PettingZoo


def test_pettingzoos_wrappers_compose():
    env = MultiEpisodeParallelEnv(BaseParallelWrapper(small()), 3)
    env.reset(seed=0)
    steps = 0
    while env.agents:
        env.step(act(env))
        steps += 1
    assert steps >= 3 * 7 - 2  # one episode after another
    assert env.unwrapped.metadata["name"] == "SimpleTag-v0"
    for env in (
        OrderEnforcingWrapper(AssertOutOfBoundsWrapper(parallel_to_aec(small()))),
        ClipOutOfBoundsWrapper(parallel_to_aec(small(continuous_actions=True))),
        MultiEpisodeEnv(parallel_to_aec(small()), 2),
    ):
        env.reset(seed=0)
        for agent in env.agent_iter(80):
            _, _, termination, truncation, _ = env.last()
            env.step(None if termination or truncation else env.action_space(agent).sample())
    env = ClipOutOfBoundsWrapper(parallel_to_aec(small(continuous_actions=True)))
    env.reset(seed=0)
    env.step(np.full(5, 9.0, np.float32))


def test_conversion_to_aec_and_back_gives_equal_results():
    """Steps after the conversion to AEC and back equal those before."""
    left, right = small(), aec_to_parallel(parallel_to_aec(small()))
    np.testing.assert_equal(left.reset(seed=3)[0], right.reset(seed=3)[0])
    while left.agents:
        actions = act(left)
        for mine, theirs in zip(left.step(actions)[:4], right.step(actions)[:4], strict=True):
            np.testing.assert_equal(mine, theirs)
    assert not right.agents


def test_games_of_turns_through_aec():
    """An illegal action loses, as in the core; TerminateIllegalWrapper of PettingZoo needs native AEC environments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(parallel_to_aec(small("TicTacToe-v0", illegal_actions="loss")), num_cycles=40)


def test_pettingzoo_writes_videos(tmp_path):
    env = RecordVideoParallel(small(render_mode="rgb_array"), str(tmp_path), episode_trigger=lambda episode: True)
    env.reset(seed=0)
    while env.agents:
        env.step(act(env))
    env.close()
    assert [path.stat().st_size > 1000 for path in tmp_path.glob("*.mp4")] == [True]


# ---------------------------------------------------------------- Gymnasium


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "CartPole-v1"])
def test_gymnasiums_single_wrappers_compose(env_id):
    for wrap in (
        gym_wrappers.RecordEpisodeStatistics,
        gym_wrappers.NormalizeObservation,
        gym_wrappers.NormalizeReward,
        gym_wrappers.FlattenObservation,
        lambda env: gym_wrappers.FrameStackObservation(env, 3),
        lambda env: gym_wrappers.DelayObservation(env, 2),
        lambda env: gym_wrappers.ClipReward(env, -1, 1),
        lambda env: gym_wrappers.DtypeObservation(env, np.float64),
        lambda env: gym_wrappers.TimeLimit(env, 5),
        lambda env: gym_wrappers.TimeAwareObservation(gym_wrappers.TimeLimit(env, 5)),
        gym_wrappers.Autoreset,
        lambda env: gym_wrappers.TransformReward(env, lambda reward: 2 * reward),
    ):
        env = wrap(make_single(env_id))
        obs, _ = env.reset(seed=0)
        for _ in range(12):
            assert env.observation_space.contains(obs), type(env).__name__
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if (terminated or truncated) and not isinstance(env, gym_wrappers.Autoreset):
                obs, _ = env.reset()
        env.close()


def test_gymnasiums_wrappers_of_single_actions():
    for wrap in (gym_wrappers.ClipAction, lambda env: gym_wrappers.RescaleAction(env, -1.0, 1.0)):
        env = wrap(make_single(continuous_actions=True))
        env.reset(seed=0)
        env.step(np.full(5, 1.0, np.float32))
    env.step(np.full(5, -1.0, np.float32))


def test_gymnasiums_torch_conversion():
    torch = pytest.importorskip("torch")
    env = gym_wrappers.NumpyToTorch(make_single())
    obs, _ = env.reset(seed=0)
    assert isinstance(obs, torch.Tensor)
    obs, reward, _, _, _ = env.step(torch.tensor(1))
    assert isinstance(reward, float)
    assert obs.shape == (16,)


def test_wrapped_environment_passes_check_env():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(gym_wrappers.FrameStackObservation(make_single().unwrapped, 2), skip_render_check=True)


def test_gymnasium_writes_videos(tmp_path):
    """One world, and the vector of rows, with tensors or arrays, in every mode."""
    env = gym_wrappers.RecordVideo(
        make_single(render_mode="rgb_array"), str(tmp_path / "one"), episode_trigger=lambda _: True
    )
    env.reset(seed=0)
    done = False
    while not done:
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        done = terminated or truncated
    env.close()
    assert list((tmp_path / "one").glob("*.mp4"))
    for mode in AutoresetMode:
        for to_numpy in (False, True):
            folder = tmp_path / f"{mode.name} {to_numpy}"
            settings = {"group": "agent", "render_mode": "rgb_array", "device": "cpu", "autoreset_mode": mode}
            rows = gymnasium.make_vec("gpu_envs/SimpleTag-v0", num_envs=2, max_cycles=3, to_numpy=to_numpy, **settings)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SAME_STEP has no picture of an episode's last state
                env = RecordVideo(rows, str(folder), episode_trigger=lambda _: True)
            env.reset(seed=0)
            for t in range(8):
                _, _, terminated, truncated, _ = env.step(rows.sample_actions())
                if mode is AutoresetMode.DISABLED and t == 3:
                    env.reset()
            env.close()
            assert len(list(folder.glob("*.mp4"))) > 1


def test_sb3_writes_videos(tmp_path):
    settings = {"group": "adversary", "render_mode": "rgb_array", "device": "cpu", "max_cycles": 3}
    env = VecVideoRecorder(
        SB3VecEnv("SimpleTag-v0", 2, **settings), str(tmp_path), lambda step: step == 2, video_length=4
    )
    env.reset()
    for _ in range(8):
        env.step(np.zeros(6, np.int64))
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 500
