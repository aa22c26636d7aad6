"""Settings that are known to work, by environment, type of device and algorithm."""

from __future__ import annotations

from typing import Any

from trainers import algorithms
from trainers.config import TrainConfig

# many gradient steps on few steps of few worlds
_PENDULUM: dict[str, Any] = {
    "hidden": (64, 64),
    "rollout_length": 4,
    "updates": 16,
    "replay_size": 100_000,
    "learning_starts": 1_000,
    "learning_rate": 2e-3,
    "gamma": 0.98,
    "tau": 0.01,
    "reward_scale": 0.1,
}
PRESETS: dict[tuple[str, str, str], dict[str, Any]] = {
    # A small Tag that two CPU cores learn within three minutes.
    ("TagContinuous-v0", "cpu", "ppo"): {
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
        "learner": dict(
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
    ("TagContinuous-v0", "cuda", "ppo"): {
        "num_envs": 512,
        "total_steps": 20_000_000,
        "checkpoint_every": 200,
        "learner": dict(
            rollout_length=25,
            reward_scale=0.1,
            entropy=0.003,
            gae_lambda=0.6,
            hidden=(256, 256),
            activation="relu",
        ),
    },
    ("TagGridworld-v0", "cpu", "ppo"): {
        "num_envs": 64,
        "total_steps": 300_000,
        "threads": 1,
        "learner": dict(reward_scale=0.3, learning_rate=3e-3, entropy=0.003, gae_lambda=0.8, activation="relu"),
    },
    ("SimpleTag-v0", "cpu", "ppo"): {
        "num_envs": 128,
        "total_steps": 1_000_000,
        "threads": 1,
        "learner": dict(rollout_length=25, learning_rate=3e-3, gamma=0.95, entropy=0.003, reward_scale=0.1),
    },
    ("SimpleTag-v0", "cuda", "ppo"): {
        "num_envs": 4096,
        "total_steps": 50_000_000,
        "checkpoint_every": 100,
        "learner": dict(rollout_length=25, reward_scale=0.1, gamma=0.95, hidden=(128, 128)),
    },
    # classic control
    # Solved (475) within ten seconds; ten seeds of ten end at 500.
    ("CartPole-v1", "cpu", "ppo"): {
        "num_envs": 64,
        "total_steps": 200_000,
        "threads": 1,
        "learner": dict(gamma=0.99, learning_rate=3e-3, reward_scale=0.05, entropy=0.005),
    },
    # Ten seeds of ten end at 500; advantages of eight steps alone, undecayed, leave one of three behind.
    ("CartPole-v1", "cpu", "a2c"): {
        "num_envs": 64,
        "total_steps": 400_000,
        "threads": 1,
        "learner": dict(rollout_length=16, gae_lambda=0.95, gamma=0.99, reward_scale=0.05, entropy=0.005),
    },
    ("CartPole-v1", "cpu", "dqn"): {
        "num_envs": 16,
        "total_steps": 50_000,
        "threads": 1,
        "learner": dict(
            updates=16,
            learning_rate_end=0.0,
            reward_scale=0.02,
            n_step=5,
            tau=0.02,
            hidden=(128, 128),
        ),
    },
    # Three times nearer to the landmarks than JaxMARL's IPPO after as many steps, see docs/learning.md.
    ("SimpleSpread-v0", "cpu", "ppo"): {
        "num_envs": 64,
        "total_steps": 1_000_000,
        "threads": 1,
        "learner": dict(rollout_length=25, learning_rate=3e-3, gamma=0.95, entropy=0.005, reward_scale=0.1),
    },
    # Swings up and stays (about -140; -200 is the bar) within a minute.
    ("Pendulum-v1", "cpu", "sac"): {
        "num_envs": 16,
        "total_steps": 15_000,
        "checkpoint_every": 100,
        "threads": 1,
        "learner": dict(**_PENDULUM),
    },
    ("Pendulum-v1", "cpu", "td3"): {
        "num_envs": 16,
        "total_steps": 20_000,
        "checkpoint_every": 100,
        "threads": 1,
        "learner": dict(**_PENDULUM),
    },
    ("SimpleSpeakerListener-v0", "cpu", "ppo"): {
        "num_envs": 64,
        "total_steps": 1_000_000,
        "threads": 1,
        "learner": dict(rollout_length=25, learning_rate=3e-3, gamma=0.95, entropy=0.005, reward_scale=0.1),
    },
    # -10 to -12 per agent; -15.4 is the most that a listener reaches who does not understand, -39 is chance.
    ("SimpleSpeakerListener-v0", "cpu", "maddpg"): {
        "num_envs": 32,
        "total_steps": 240_000,
        "threads": 1,
        "learner": dict(
            twin=False,
            policy_delay=1,
            target_noise=0.0,
            noise_end=0.0,
            hidden=(64, 64),
            rollout_length=25,
            updates=10,
            replay_size=400_000,
            learning_rate=3e-3,
            gamma=0.95,
            tau=0.01,
        ),
    },
}
FALLBACK: dict[str, dict[str, Any]] = {
    "cpu": {"num_envs": 64, "total_steps": 500_000, "threads": 1},
    "cuda": {"num_envs": 2048, "total_steps": 20_000_000, "checkpoint_every": 100},
}
"""By kind of device: where nothing is known of an environment."""


def preset(env_id: str, device: str, algorithm: str = "ppo") -> TrainConfig:
    """The preset of an environment and algorithm on "cpu", "cuda" or "cuda:<i>".

    An algorithm without one of its own takes that of another of the same settings (mappo that of ppo); an environment
    without one takes general ones.
    """
    kind, wanted = device.partition(":")[0], algorithms.find(algorithm)
    near = [
        settings
        for (id, on, of), settings in PRESETS.items()
        if (id, on) == (env_id, kind) and algorithms.find(of).config_type is wanted.config_type
    ]
    settings = PRESETS.get((env_id, kind, algorithm)) or next(iter(near), None)
    of_all = (each["env"] for (id, on, _), each in PRESETS.items() if (id, on) == (env_id, kind) and "env" in each)
    env = next(of_all, {})  # one game for all algorithms
    if settings is None:
        return TrainConfig(env_id=env_id, device=device, algorithm=algorithm, env=env, **FALLBACK[kind])
    given = {name: value for name, value in settings["learner"].items() if name not in wanted.fixed}
    own = {"env_id": env_id, "env": env, "device": device, "algorithm": algorithm, "learner": wanted.settings(**given)}
    return TrainConfig(**{**settings, **own})
