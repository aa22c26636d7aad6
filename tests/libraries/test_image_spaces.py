"""Libraries that read images and named blocks: Stable-Baselines3 and TorchRL."""

import numpy as np
import pictures
import pytest
from pictures import SPACES, equal
from stable_baselines3 import PPO
from torchrl.envs.utils import check_env_specs
from toy import announce

from gpu_envs.views.sb3 import SB3VecEnv
from gpu_envs.views.torchrl import TorchRLEnv

KINDS = pytest.mark.parametrize("kind", SPACES)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Pictures-v0", pictures)


@KINDS
def test_sb3_has_the_shape_of_the_space(kind):
    rows = SB3VecEnv("Pictures-v0", 3, device="cpu", kind=kind)
    equal(rows.reset(), 0, kind, (6,))
    assert rows.observation_space == SPACES[kind]
    for _ in range(4):
        observations, *_, infos = rows.step(np.zeros(6, dtype=np.int64))
    equal(observations, 0, kind, (6,))
    equal(infos[5]["terminal_observation"], 4, kind)


@KINDS
def test_sb3_learns_and_its_model_plays_as_an_opponent(kind):
    policy = "MultiInputPolicy" if kind == "named" else "MlpPolicy"
    rows = SB3VecEnv("Pictures-v0", 2, agent="viewer_0", device="cpu", kind=kind)
    model = PPO(policy, rows, n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu").learn(32)
    against = SB3VecEnv("Pictures-v0", 2, agent="viewer_0", opponents=model, device="cpu", kind=kind)
    against.reset()
    observations, *_ = against.step(np.zeros(2, dtype=np.int64))
    equal(observations, 1, kind, (2,))


@KINDS
def test_torchrl_has_the_shape_of_the_space(kind):
    env = TorchRLEnv("Pictures-v0", 3, device="cpu", kind=kind)
    check_env_specs(env)
    equal(env.reset()["viewer", "observation"], 0, kind, (3, 2))
    data = env.rollout(3)
    equal(data["next", "viewer", "observation"][:, 2], 3, kind, (3, 2))
