"""Stable-Baselines3 learns on the rows, beside others that are random, scripted or frozen models."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import toy
from small_environments import GROUP, SMALL
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from gpu_envs.views.sb3 import SB3VecEnv, _Model

sys.path.append(str(Path(__file__).parents[2] / "examples"))


@pytest.fixture
def toys(monkeypatch):
    toy.announce(monkeypatch)


def make(env_id="SimpleTag-v0", num_envs=4, **settings):
    usual = {"group": GROUP.get(env_id), "device": "cpu", **SMALL.get(env_id, {})}
    return SB3VecEnv(env_id, num_envs, **{**usual, **settings})


def actions_of(env):
    """Return random legal actions from the worlds' own streams, in the format of SB3."""
    return env.rows.sample_actions()


# ---------------------------------------------------------------- the others


class Always:
    """An object with the `predict` method of an SB3 model."""

    def __init__(self, choice):
        self.choice, self.observations = choice, []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.observations.append(observation.copy())
        return np.full(len(observation), self.choice), None


def test_opponents_are_models_callables_or_random():
    model = Always(2)
    settings = {"group": "agent", "seed": 5}
    models, callables = (
        make(opponents={"adversary": model}, **settings),
        make(opponents=lambda obs: torch.full(obs.shape[:2], 2), **settings),
    )
    np.testing.assert_array_equal(models.reset(), callables.reset())
    for t in range(8):
        expected = models.core.obs[:, :3, :16].reshape(12, 16).numpy().copy()
        action = actions_of(models)
        for left, right in zip(models.step(action)[:3], callables.step(action)[:3], strict=True):
            np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(model.observations[t], expected)
    models.set_opponents("random")
    models.step(actions_of(models))
    assert len(model.observations) == 8
    with pytest.raises(ConfigError, match="opponents has no 'fox' to play"):
        models.set_opponents({"fox": model})


@pytest.mark.parametrize("continuous", [False, True])
def test_sb3_model_acts_as_an_opponent(continuous):
    chase = make(seed=6, continuous_actions=continuous)
    chasers = PPO("MlpPolicy", chase, n_steps=2, batch_size=24, device="cpu", seed=0)
    flight = make(group="agent", opponents=chasers, seed=6, continuous_actions=continuous)
    obs = flight.reset()
    for _ in range(9):
        obs, *_ = flight.step(actions_of(flight))
    assert np.isfinite(obs).all()
    PPO("MlpPolicy", flight, n_steps=8, batch_size=32, device="cpu", seed=0).learn(32)


def test_opponent_with_action_masks_receives_them(toys):
    """MaskablePPO of sb3-contrib has such a method."""

    class Legal:
        def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
            assert action_masks.shape == (len(observation), 3)
            return action_masks.argmax(1), None

    core = make_core("Toy-v0", 4, "cpu", seed=0)
    obs, info = core.reset()
    chosen = _Model(Legal())(obs, info["action_mask"])
    assert chosen.shape == (4, 3)
    assert info["action_mask"].gather(2, chosen[..., None]).all()
    assert (_Model(Always(1))(obs, info["action_mask"]) == 1).all()


# ---------------------------------------------------------------- training


def random_return(env, episodes):
    returns = []
    env.reset()
    while len(returns) < episodes:
        _, _, dones, infos = env.step(actions_of(env))
        returns += [infos[row]["episode"]["r"] for row in np.flatnonzero(dones)]
    return np.mean(returns)


def test_ppo_beats_random_on_simple_tag():
    torch.set_num_threads(1)
    env = SB3VecEnv("SimpleTag-v0", 64, group="adversary", device="cpu", seed=0)
    settings = {"n_steps": 25, "batch_size": 1200, "n_epochs": 4, "learning_rate": 3e-3, "gamma": 0.95}
    scaled = VecNormalize(env, norm_obs=False, gamma=0.95)
    model = PPO("MlpPolicy", scaled, seed=0, device="cpu", **settings).learn(160_000)
    assert len(model.ep_info_buffer) == 100  # the view's own "episode"
    fresh = SB3VecEnv("SimpleTag-v0", 32, group="adversary", device="cpu", seed=99)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no Monitor: the view has the same figures
        mean, _ = evaluate_policy(model, fresh, n_eval_episodes=192, deterministic=False)
    chance = random_return(fresh, 192)
    assert mean > chance + 6, f"PPO {mean:.1f}, random {chance:.1f}"


def test_off_policy_learners_run():
    env = make(num_envs=2)
    DQN("MlpPolicy", env, learning_starts=20, buffer_size=200, train_freq=2, device="cpu", seed=0).learn(120)


def test_example_trains_with_small_settings():
    import sb3_simple_tag

    results = sb3_simple_tag.train(steps=9_600, num_envs=8, verbose=0)
    assert len(results) == 5
    assert all(np.isfinite(value) for value in results.values())
