"""Settings that are known to work, by environment and type of device."""

from __future__ import annotations

from typing import Any

from trainers.config import TrainConfig
from trainers.ppo import PPOConfig

PRESETS: dict[tuple[str, str], dict[str, Any]] = {
    # A small Tag that two CPU cores learn within three minutes.
    ("TagContinuous-v0", "cpu"): {
        "env": {
            "num_taggers": 3,
            "num_runners": 12,
            "grid_length": 10.0,
            "episode_length": 200,
            "num_other_agents_observed": 4,
        },
        "num_envs": 64,
        "total_steps": 300_000,
        "checkpoint_every": 50,
        "threads": 1,  # small networks: a second thread gains little, and waits badly where cores are shared
        "ppo": PPOConfig(
            rollout_length=25,
            reward_scale=0.1,
            learning_rate=3e-3,
            learning_rate_end=1e-3,
            entropy=0.003,
            gae_lambda=0.6,
            activation="relu",
        ),
    },
    # WarpDrive's tutorial 5: 5 taggers and 100 runners, its networks; the rest as found on a CPU. Not yet run on a GPU.
    # A rollout is 1.3 M rows of 71 numbers: 0.4 GB, and a few times that while it is learned from.
    ("TagContinuous-v0", "cuda"): {
        "num_envs": 512,
        "total_steps": 20_000_000,
        "checkpoint_every": 200,
        "ppo": PPOConfig(
            rollout_length=25,
            reward_scale=0.1,
            entropy=0.003,
            gae_lambda=0.6,
            hidden=(256, 256),
            activation="relu",
        ),
    },
    ("TagGridworld-v0", "cpu"): {
        "num_envs": 64,
        "total_steps": 300_000,
        "threads": 1,
        "ppo": PPOConfig(reward_scale=0.3, learning_rate=3e-3, entropy=0.003, gae_lambda=0.8, activation="relu"),
    },
    ("SimpleTag-v0", "cpu"): {
        "num_envs": 256,
        "total_steps": 1_000_000,
        "threads": 1,
        "ppo": PPOConfig(rollout_length=25, reward_scale=0.1, gamma=0.95),
    },
    ("SimpleTag-v0", "cuda"): {
        "num_envs": 4096,
        "total_steps": 50_000_000,
        "checkpoint_every": 100,
        "ppo": PPOConfig(rollout_length=25, reward_scale=0.1, gamma=0.95, hidden=(128, 128)),
    },
    # classic control
    # Solved (475) within ten seconds; ten seeds of ten end at 500.
    ("CartPole-v1", "cpu"): {
        "num_envs": 64,
        "total_steps": 200_000,
        "threads": 1,
        "ppo": PPOConfig(gamma=0.99, learning_rate=3e-3, reward_scale=0.05, entropy=0.005),
    },
}
FALLBACK: dict[str, dict[str, Any]] = {
    "cpu": {"num_envs": 64, "total_steps": 500_000, "threads": 1},
    "cuda": {"num_envs": 2048, "total_steps": 20_000_000, "checkpoint_every": 100},
}


def preset(env_id: str, device: str) -> TrainConfig:
    """The preset of an environment on "cpu", "cuda" or "cuda:<i>"; a general one where it has none of its own."""
    kind = device.partition(":")[0]
    settings = PRESETS.get((env_id, kind), FALLBACK[kind])
    return TrainConfig(env_id=env_id, device=device, **settings)
