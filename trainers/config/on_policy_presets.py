"""Tested settings of algorithms without a replay, see `trainers.config.presets`."""

from __future__ import annotations

from typing import Any

__all__ = ["ON_POLICY_PRESETS"]

_MPE_PPO: dict[str, Any] = {
    "num_envs": 64,
    "total_steps": 1_000_000,
    "num_threads": 1,
    "learner": dict(rollout_length=25, learning_rate=3e-3, gamma=0.95, entropy_coef=0.005, reward_scale=0.1),
}
_SIMPLE_TAG: dict[str, Any] = {
    "num_envs": 128,
    "total_steps": 1_000_000,
    "num_threads": 1,
    "learner": dict(rollout_length=25, learning_rate=3e-3, gamma=0.95, entropy_coef=0.003, reward_scale=0.1),
}
_CARTPOLE: dict[str, Any] = {
    "num_envs": 64,
    "total_steps": 200_000,
    "num_threads": 1,
    "learner": dict(gamma=0.99, learning_rate=3e-3, reward_scale=0.05, entropy_coef=0.005),
}
_BOTH_SIDES: dict[str, Any] = {  # games of two players, each with its own policy
    "num_envs": 64,
    "total_steps": 100_000,
    "num_threads": 1,
    "sharing": "agent",
    "learner": dict(rollout_length=16, learning_rate=3e-3, gamma=1.0, entropy_coef=0.02),
}
ON_POLICY_PRESETS: dict[tuple[str, str, str], dict[str, Any]] = {
    # A small game of tag; trains in three minutes on two CPU cores.
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
        "checkpoint_interval": 50,
        "num_threads": 1,  # small networks gain little from a second thread, and wait if cores are shared
        "learner": dict(
            rollout_length=25,
            reward_scale=0.1,
            learning_rate=3e-3,
            learning_rate_final=1e-3,
            entropy_coef=0.003,
            gae_lambda=0.6,
            activation="relu",
        ),
    },
    # Environment and networks of WarpDrive's tutorial 5: 5 taggers, 100 runners. The rest was tuned on a CPU only.
    # A rollout has 1.3 M rows of 71 numbers: 0.4 GB, and a multiple of it during updates.
    ("TagContinuous-v0", "cuda", "ppo"): {
        "num_envs": 512,
        "total_steps": 20_000_000,
        "checkpoint_interval": 200,
        "learner": dict(
            rollout_length=25,
            reward_scale=0.1,
            entropy_coef=0.003,
            gae_lambda=0.6,
            hidden_sizes=(256, 256),
            activation="relu",
        ),
    },
    ("TagGridworld-v0", "cpu", "ppo"): {
        "num_envs": 64,
        "total_steps": 300_000,
        "num_threads": 1,
        "learner": dict(reward_scale=0.3, learning_rate=3e-3, entropy_coef=0.003, gae_lambda=0.8, activation="relu"),
    },
    ("SimpleTag-v0", "cpu", "ppo"): _SIMPLE_TAG,
    ("SimpleTag-v0", "cpu", "appo"): _SIMPLE_TAG,
    ("SimpleTag-v0", "cuda", "ppo"): {
        "num_envs": 4096,
        "total_steps": 50_000_000,
        "checkpoint_interval": 100,
        "learner": dict(rollout_length=25, reward_scale=0.1, gamma=0.95, hidden_sizes=(128, 128)),
    },
    # Solved (475) within ten seconds; ten of ten seeds reach 500.
    ("CartPole-v1", "cpu", "ppo"): _CARTPOLE,
    # Ten of ten seeds reach 500. With eight steps per rollout and gae_lambda=1 one of three seeds fails.
    ("CartPole-v1", "cpu", "a2c"): {
        "num_envs": 64,
        "total_steps": 400_000,
        "num_threads": 1,
        "learner": dict(rollout_length=16, gae_lambda=0.95, gamma=0.99, reward_scale=0.05, entropy_coef=0.005),
    },
    ("CartPole-v1", "cpu", "appo"): _CARTPOLE,
    ("CartPole-v1", "cpu", "impala"): {**_CARTPOLE, "total_steps": 400_000},
    # Solved (475 per agent) by all agents; the policy is shared.
    ("MultiCartPole-v0", "cpu", "ppo"): _CARTPOLE,
    ("MultiCartPole-v0", "cpu", "appo"): _CARTPOLE,
    # A rollout as long as the longest episode knows the outcome of half of its steps.
    ("CartPole-v1", "cpu", "pg"): {
        "num_envs": 8,
        "total_steps": 400_000,
        "num_threads": 1,
        "learner": dict(rollout_length=512, learning_rate=5e-3, gamma=0.99, reward_scale=0.05, entropy_coef=0.0),
    },
    # A return of 1.000 in about 1.5 minutes, also with force_coop=True. Long rollouts and many updates keep players
    # from waiting for each other, which otherwise happens in one of a thousand episodes.
    ("LevelBasedForaging-v0", "cpu", "ppo"): {
        "num_envs": 128,
        "total_steps": 1_000_000,
        "num_threads": 1,
        "learner": dict(
            rollout_length=100,
            num_epochs=10,
            num_minibatches=64,
            learning_rate=1e-3,
            gamma=0.99,
            entropy_coef=0.005,
        ),
    },
    # Learns rware-tiny-2ag within minutes, see docs/learning.md.
    ("RobotWarehouse-v0", "cpu", "ppo"): {
        "num_envs": 256,
        "total_steps": 8_000_000,
        "num_threads": 1,
        "learner": dict(rollout_length=32, learning_rate=1e-3, gamma=0.99, entropy_coef=0.03),
    },
    # Learns cramped_room within minutes, with shaped rewards, see docs/learning.md.
    ("Overcooked-v0", "cpu", "ppo"): {
        "env": {"reward_shaping_factor": 1.0},
        "num_envs": 64,
        "total_steps": 1_000_000,
        "num_threads": 1,
        "learner": dict(
            rollout_length=100,
            learning_rate=1e-3,
            learning_rate_final=0.0,
            gamma=0.99,
            entropy_coef=0.01,
            reward_scale=0.1,
        ),
    },
    # Finds the optimal taxes within minutes, with learn_after for the planner, see docs/learning.md. Workers need the
    # entropy, because the taxes to which they respond change while the planner learns.
    ("OneStepEconomy-v0", "cpu", "ppo"): {
        # With the default settings every worker's best labor is the smallest one. Three brackets of equal width are few
        # enough to find the best rates by brute force.
        "env": {
            "labor_cost": 0.0005,
            "labor_exponent": 3.0,
            "payment_max_skill_multiplier": 10.0,
            "bracket_spacing": "linear",
            "n_brackets": 3,
            "top_bracket_cutoff": 200.0,
        },
        "num_envs": 256,
        "total_steps": 600_000,
        "num_threads": 1,
        "learner": dict(
            rollout_length=4,
            hidden_sizes=(64, 64),
            learning_rate=2e-3,
            learning_rate_final=3e-4,
            gamma=1.0,
            entropy_coef=0.15,
            entropy_coef_final=0.02,
            reward_scale=0.02,
            num_epochs=4,
            num_minibatches=2,
        ),
    },
    # Workers whose energy cost is annealed, without which they learn not to work, see docs/learning.md. With a higher
    # learning rate one of two seeds unlearned to build.
    ("GatherTradeBuild-v0", "cpu", "ppo"): {
        "num_envs": 32,
        "total_steps": 1_000_000,
        "num_threads": 1,
        "learner": dict(
            rollout_length=50,
            hidden_sizes=(64, 64),
            learning_rate=3e-4,
            learning_rate_final=1e-4,
            gamma=0.998,
            entropy_coef=0.025,
            entropy_coef_final=0.005,
            reward_scale=0.1,
            num_epochs=2,
            num_minibatches=4,
        ),
    },
    # Both phases of the planner's training, with the clocks of examples/gather_trade_build_planner.yaml. Not run yet.
    ("GatherTradeBuild-v0", "cuda", "ppo"): {
        "num_envs": 512,
        "total_steps": 300_000_000,
        "checkpoint_interval": 50,
        "learner": dict(
            rollout_length=500,
            hidden_sizes=(128, 128),
            learning_rate=3e-4,
            learning_rate_final=3e-5,
            gamma=0.998,
            gae_lambda=0.98,
            entropy_coef=0.025,
            entropy_coef_final=0.005,
            reward_scale=0.1,
            num_epochs=2,
            num_minibatches=16,
        ),
    },
    # MAPPO wins nearly all battles of 2s3z within minutes, see docs/learning.md. Entropy costs victories at the end.
    ("SMAX-v0", "cpu", "ppo"): {
        "num_envs": 128,
        "total_steps": 1_000_000,
        "num_threads": 1,
        "learner": dict(
            hidden_sizes=(128, 128),
            activation="relu",
            rollout_length=64,
            learning_rate=2e-3,
            learning_rate_final=0.0,
            gamma=0.99,
            entropy_coef=0.003,
            entropy_coef_final=0.0,
        ),
    },
    # Learns the full game in part, and Hanabi-Small with --env-arg of `original_settings("Hanabi-Small")`, both within
    # minutes, see docs/learning.md.
    ("Hanabi-v0", "cpu", "ppo"): {
        "num_envs": 64,
        "total_steps": 1_000_000,
        "num_threads": 1,
        "learner": dict(
            hidden_sizes=(256, 256),
            activation="relu",
            rollout_length=64,
            num_epochs=4,
            num_minibatches=4,
            learning_rate=7e-4,
            learning_rate_final=0.0,
            gamma=0.99,
            gae_lambda=0.9,
            entropy_coef=0.005,
        ),
    },
    # Self-play of both sides; both win against random play within a minute, see docs/learning.md.
    ("PhantomTicTacToe-v0", "cpu", "ppo"): {**_BOTH_SIDES, "total_steps": 50_000},
    # Black wins nearly always if it can. White learns only as long as the entropy makes black err.
    ("DarkHex-v0", "cpu", "ppo"): {
        **_BOTH_SIDES,
        "learner": {**_BOTH_SIDES["learner"], "entropy_coef": 0.5, "entropy_coef_final": 0.1},
    },
    ("LiarsDice-v0", "cpu", "ppo"): _BOTH_SIDES,
    ("Goofspiel-v0", "cpu", "ppo"): _BOTH_SIDES,
    ("OshiZumo-v0", "cpu", "ppo"): _BOTH_SIDES,
    ("MarkovSoccer-v0", "cpu", "ppo"): _BOTH_SIDES,
    # A third of the distance to landmarks of JaxMARL's IPPO after equally many steps, see docs/learning.md.
    ("SimpleSpread-v0", "cpu", "ppo"): _MPE_PPO,
    ("SimpleSpread-v0", "cpu", "appo"): _MPE_PPO,
    # Every delivery rewards all agents, so advantages over few steps have less noise.
    ("CollectTreasure-v0", "cpu", "ppo"): {
        **_MPE_PPO,
        "learner": {**_MPE_PPO["learner"], "hidden_sizes": (128, 128), "gae_lambda": 0.5, "reward_scale": 1.0},
    },
    # In the next two, agents do not see each other, and each learns its own place, see docs/learning.md.
    ("SimpleFormation-v0", "cpu", "ppo"): {**_MPE_PPO, "sharing": "agent"},
    ("SimpleLine-v0", "cpu", "ppo"): {**_MPE_PPO, "sharing": "agent"},
    # Prisoners need memory of their visits, so the network is recurrent. Rollouts are as long as episodes. Entropy is
    # small, since a lamp that is switched at random tells nothing. 1024 worlds leave too few updates to learn the lamp.
    ("SwitchRiddle-v0", "cpu", "ppo"): {
        "num_envs": 256,
        "total_steps": 1_500_000,
        "num_threads": 1,
        "learner": dict(
            network="gru",
            hidden_sizes=(32,),
            rollout_length=6,
            learning_rate=5e-3,
            learning_rate_final=5e-4,
            gamma=1.0,
            entropy_coef=0.003,
            entropy_coef_final=0.0,
            num_minibatches=1,
        ),
    },
    # The players' interests oppose, so that each has a policy.
    ("CoinGame-v0", "cpu", "ppo"): {
        "sharing": "agent",
        "num_envs": 512,
        "total_steps": 1_000_000,
        "num_threads": 1,
        "learner": dict(rollout_length=20, num_minibatches=8, learning_rate=3e-3, gamma=0.96, entropy_coef=0.01),
    },
    ("SimpleSpeakerListener-v0", "cpu", "ppo"): _MPE_PPO,
}
