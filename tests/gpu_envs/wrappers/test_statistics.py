"""Episode statistics and normalization of tensor rows, compared with Gymnasium's on NumPy rows."""

import numpy as np
import pytest
import torch
from gymnasium.wrappers import vector as gymnasiums
from pairs import DISABLED, FALLS, MODES, NEXT_STEP, SAME_STEP, Pair, before_1_4, close, rows

from gpu_envs import wrappers
from gpu_envs.errors import ConfigError

# ---------------------------------------------------------------- episode statistics


@pytest.mark.parametrize("mode", MODES)
def test_episode_statistics_equal_gymnasiums(mode):
    if mode is SAME_STEP and before_1_4:
        pytest.skip("Gymnasium counts wrongly with SAME_STEP before 1.4")
    pair = Pair(
        "CartPole-v1",
        mode,
        lambda env: wrappers.RecordEpisodeStatistics(env, buffer_length=4),  # fewer than may end in one step
        lambda env: gymnasiums.RecordEpisodeStatistics(env, buffer_length=4),
        **FALLS,
    )
    pair.reset(seed=1)
    ended = 0
    for left, right in pair.steps(120):
        info, expected = left[4], right[4]
        done = right[2] | right[3]
        np.testing.assert_array_equal(info["_episode"].numpy(), done)
        ended += done.sum()
        if done.any():
            for name, dtype in (("r", torch.float64), ("l", torch.int64)):
                assert info["episode"][name].dtype == dtype
                np.testing.assert_array_equal(info["episode"][name].numpy(), expected["episode"][name])
            assert (info["episode"]["t"].numpy()[done] > 0).all()
            np.testing.assert_allclose(info["episode"]["t"].numpy(), expected["episode"]["t"], atol=0.5)
        assert list(pair.ours.return_queue) == [float(value) for value in pair.theirs.return_queue]
        assert list(pair.ours.length_queue) == [int(value) for value in pair.theirs.length_queue]
        assert len(pair.ours.time_queue) == len(pair.theirs.time_queue)
        assert pair.ours.episode_count == ended
    assert ended > 12


def test_episode_statistics_equal_the_cores():
    """An agent's return equals its row's return, as it gets no reward after it left. A used name raises."""
    env = wrappers.RecordEpisodeStatistics(rows("TagContinuous-v0", mode=SAME_STEP))
    env.reset(seed=0)
    for _ in range(20):
        *_, info = env.step(env.unwrapped.sample_actions())
        done, figures = info["_episode"], info["final_info"]
        close(info["episode"]["r"][done], figures["episode_return"][done].numpy())
        assert (info["episode"]["l"][done] >= figures["episode_length"][done]).all()
    twice = wrappers.RecordEpisodeStatistics(env)
    twice.reset()
    with pytest.raises(ConfigError, match="already has 'episode'; choose another stats_key"):
        twice.step(env.unwrapped.sample_actions())
    named = wrappers.RecordEpisodeStatistics(env, stats_key="mine")
    named.reset()
    assert {"mine", "_mine", "episode"} <= set(named.step(env.unwrapped.sample_actions())[4])


# ---------------------------------------------------------------- normalization


def test_observations_are_normalized_as_by_gymnasium():
    pair = Pair("CartPole-v1", NEXT_STEP, wrappers.NormalizeObservation, gymnasiums.NormalizeObservation, **FALLS)
    close(*pair.reset(seed=2), 1e-4)
    for left, right in pair.steps(60):
        close(left[0], right[0], 1e-4)
        for index in (1, 2, 3):
            np.testing.assert_array_equal(left[index].numpy(), right[index])
    close(pair.ours.obs_rms.mean, pair.theirs.obs_rms.mean)
    pair.ours.update_running_mean = pair.theirs.update_running_mean = False
    count = pair.ours.obs_rms.count.clone()
    for left, right in pair.steps(5):
        close(left[0], right[0], 1e-4)
    close(*pair.reset(), 1e-4)
    assert pair.ours.obs_rms.count == count
    assert pair.ours.single_observation_space == pair.theirs.single_observation_space
    assert pair.ours.observation_space == pair.theirs.observation_space


@pytest.mark.parametrize("mode", MODES)
def test_each_observation_is_counted_once(mode):
    """Agents leave one by one; in this game only the observations of agents that have left are all zeros."""
    plain, env = (rows("TagContinuous-v0", mode=mode) for _ in range(2))
    env = wrappers.NormalizeObservation(env)
    batches = [plain.reset(seed=3)[0]]
    env.reset(seed=3)
    waiting, lefts = torch.zeros(env.num_envs, dtype=torch.bool), 0
    for t in range(30):
        action = plain.sample_actions()
        obs, _, terminated, truncated, info = plain.step(action)
        normalized, _, _, _, shown_info = env.step(action)
        true = obs.any(1)
        lefts += int((~true).sum())
        if mode is SAME_STEP:
            batches.append(info["final_obs"][info["_final_obs"] & info["valid"]])
        batches.append(obs[true])
        assert not normalized[~true].any()
        rms = env.obs_rms
        everything = torch.cat(batches).double()
        close(rms.mean, everything.mean(0).numpy(), 1e-4)
        close(rms.var, everything.var(0, correction=0).numpy(), 1e-3)
        assert rms.count == pytest.approx(len(everything) + 1e-4)
        expected = (obs - rms.mean) / (rms.var + 1e-8).sqrt()
        close(normalized[true], expected[true].numpy(), 5e-3)  # what never changes has hardly any variance to divide by
        if mode is SAME_STEP:
            ended = info["_final_obs"]
            expected = (info["final_obs"] - rms.mean) / (rms.var + 1e-8).sqrt()
            close(shown_info["final_obs"][ended], expected[ended].numpy(), 5e-3)
        waiting |= terminated | truncated
        if mode is DISABLED and t % 4 == 3:  # what has ended, and world 0 in mid-episode
            waiting[: len(plain.agents)] = True
            options = {"reset_mask": waiting.clone()}
            reset_obs, _ = plain.reset(options=options)
            env.reset(options=options)
            batches.append(reset_obs[waiting])
            waiting[:] = False
    assert lefts > 0


@pytest.mark.skipif(before_1_4, reason="Gymnasium knows no SAME_STEP here before 1.4")
@pytest.mark.parametrize("env_id", ["CartPole-v1", "SimpleTag-v0"])
def test_rewards_are_normalized_as_by_gymnasium(env_id):
    settings = FALLS if env_id == "CartPole-v1" else {}
    pair = Pair(
        env_id,
        SAME_STEP,
        lambda env: wrappers.NormalizeReward(env, gamma=0.9),
        lambda env: gymnasiums.NormalizeReward(env, gamma=0.9),
        **settings,
    )
    pair.reset(seed=4)
    for left, right in pair.steps(60):
        close(left[1], right[1], 1e-4)
        close(pair.ours.accumulated_reward, pair.theirs.accumulated_reward, 1e-4)
    pair.ours.update_running_mean = pair.theirs.update_running_mean = False
    variance = pair.ours.return_rms.var.clone()
    for left, right in pair.steps(5):
        close(left[1], right[1], 1e-4)
    assert pair.ours.return_rms.var == variance


@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED])
def test_rewards_are_normalized_alike_in_every_mode(mode):
    """If all worlds end together the modes agree, except for the steps of resets."""

    def story(mode):
        env = wrappers.NormalizeReward(rows("SimpleTag-v0", mode=mode))
        env.reset(seed=5)
        rewards = []
        for _ in range(40):
            _, reward, terminated, truncated, info = env.step(env.unwrapped.sample_actions())
            if info["valid"].any():
                rewards.append(reward)
            if mode is DISABLED and (terminated | truncated).any():
                env.reset(options={"reset_mask": terminated | truncated})
        return torch.stack(rewards[:30])

    expected = story(SAME_STEP)
    assert expected.any()
    close(story(mode), expected.numpy(), 1e-6)
