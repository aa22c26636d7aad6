"""Tested settings of algorithms with a replay, see `trainers.config.presets`."""

from __future__ import annotations

from typing import Any

__all__ = ["OFF_POLICY_PRESETS"]

# many gradient steps per environment step
_PENDULUM: dict[str, Any] = {
    "hidden_sizes": (64, 64),
    "rollout_length": 4,
    "updates": 16,
    "replay_size": 100_000,
    "learning_starts": 1_000,
    "learning_rate": 2e-3,
    "gamma": 0.98,
    "tau": 0.01,
    "reward_scale": 0.1,
}
_SPEAKER_LISTENER: dict[str, Any] = {"num_envs": 32, "total_steps": 240_000, "num_threads": 1}
_JOINT_CRITICS: dict[str, Any] = {
    "hidden_sizes": (64, 64),
    "rollout_length": 25,
    "updates": 10,
    "replay_size": 400_000,
    "learning_rate": 3e-3,
    "gamma": 0.95,
    "tau": 0.01,
}
# Both sides explore much to the end, so that each meets all kinds of positions.
_BOTH_BY_DQN: dict[str, Any] = {
    "num_envs": 16,
    "total_steps": 100_000,
    "num_threads": 1,
    "sharing": "agent",
    "learner": dict(
        hidden_sizes=(128, 128),
        batch_size=256,
        learning_rate_final=1e-5,
        gamma=1.0,
        epsilon_final=0.5,
        epsilon_fraction=1.0,
        normalize_obs=False,
    ),
}
OFF_POLICY_PRESETS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("SimpleTag-v0", "cpu", "iql"): {
        "num_envs": 64,
        "total_steps": 600_000,
        "num_threads": 1,
        "learner": dict(
            updates=8,
            gamma=0.95,
            reward_scale=0.1,
            learning_rate=1e-3,
            hidden_sizes=(64, 64),
            epsilon_final=0.02,
            replay_size=200_000,
        ),
    },
    ("CartPole-v1", "cpu", "dqn"): {
        "num_envs": 16,
        "total_steps": 50_000,
        "num_threads": 1,
        "learner": dict(
            updates=16,
            learning_rate_final=0.0,
            reward_scale=0.02,
            n_step=5,
            tau=0.02,
            hidden_sizes=(128, 128),
        ),
    },
    # Rewards are scaled as in JaxMARL. QMIX wins most battles of 2s3z, see docs/learning.md.
    ("SMAX-v0", "cpu", "qmix"): {
        "num_envs": 32,
        "total_steps": 500_000,
        "num_threads": 1,
        "learner": dict(hidden_sizes=(128, 128), learning_rate=1e-3, epsilon_fraction=0.2, reward_scale=10.0),
    },
    # More updates than these fit the few games played so far, so that one of the sides stays weak.
    ("PhantomTicTacToe-v0", "cpu", "dqn"): {
        **_BOTH_BY_DQN,
        "total_steps": 50_000,
        "learner": {**_BOTH_BY_DQN["learner"], "updates": 2, "batch_size": 512, "tau": 0.02},
    },
    ("DarkHex-v0", "cpu", "dqn"): {
        **_BOTH_BY_DQN,
        "learner": {**_BOTH_BY_DQN["learner"], "hidden_sizes": (64, 64), "updates": 4, "epsilon_final": 0.8},
    },
    ("LiarsDice-v0", "cpu", "dqn"): _BOTH_BY_DQN,
    # Solved (about -140; threshold -200) within a minute.
    ("Pendulum-v1", "cpu", "sac"): {
        "num_envs": 16,
        "total_steps": 15_000,
        "checkpoint_interval": 100,
        "num_threads": 1,
        "learner": dict(**_PENDULUM),
    },
    ("Pendulum-v1", "cpu", "td3"): {
        "num_envs": 16,
        "total_steps": 20_000,
        "checkpoint_interval": 100,
        "num_threads": 1,
        "learner": dict(**_PENDULUM),
    },
    # -10 to -14 per agent. The best return without communication is -15.4; random play has -39.
    ("SimpleSpeakerListener-v0", "cpu", "maddpg"): {
        **_SPEAKER_LISTENER,
        "learner": dict(twin=False, policy_delay=1, target_noise=0.0, noise_final=0.0, **_JOINT_CRITICS),
    },
    ("SimpleSpeakerListener-v0", "cpu", "matd3"): {
        **_SPEAKER_LISTENER,
        "learner": dict(noise_final=0.0, **_JOINT_CRITICS),
    },
    ("SimpleSpeakerListener-v0", "cpu", "masac"): {**_SPEAKER_LISTENER, "learner": _JOINT_CRITICS},
}
