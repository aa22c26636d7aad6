"""Learning algorithms: one module each, found by name in :mod:`trainers.algorithms.registry`."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.imitation.behavior_cloning import BCConfig, clone
    from trainers.algorithms.learner import Learner
    from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
    from trainers.algorithms.off_policy.maddpg import MADDPG, MADDPGConfig
    from trainers.algorithms.off_policy.masac import MASAC, MASACConfig
    from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
    from trainers.algorithms.off_policy.sac import SAC, SACConfig
    from trainers.algorithms.off_policy.td3 import TD3, TD3Config
    from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
    from trainers.algorithms.on_policy.appo import APPO, APPOConfig
    from trainers.algorithms.on_policy.impala import IMPALA, IMPALAConfig
    from trainers.algorithms.on_policy.pg import PG, PGConfig
    from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
    from trainers.algorithms.registry import ALGORITHMS, AlgorithmSpec, find

__all__ = [
    "A2C",
    "ALGORITHMS",
    "APPO",
    "DQN",
    "IMPALA",
    "MADDPG",
    "MASAC",
    "PG",
    "PPO",
    "QMIX",
    "SAC",
    "TD3",
    "A2CConfig",
    "APPOConfig",
    "AlgorithmSpec",
    "BCConfig",
    "DQNConfig",
    "IMPALAConfig",
    "Learner",
    "MADDPGConfig",
    "MASACConfig",
    "PGConfig",
    "PPOConfig",
    "QMIXConfig",
    "SACConfig",
    "TD3Config",
    "clone",
    "find",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("BCConfig", "clone"), "trainers.algorithms.imitation.behavior_cloning"),
        "Learner": "trainers.algorithms.learner",
        **dict.fromkeys(("DQN", "DQNConfig"), "trainers.algorithms.off_policy.dqn"),
        **dict.fromkeys(("MADDPG", "MADDPGConfig"), "trainers.algorithms.off_policy.maddpg"),
        **dict.fromkeys(("MASAC", "MASACConfig"), "trainers.algorithms.off_policy.masac"),
        **dict.fromkeys(("QMIX", "QMIXConfig"), "trainers.algorithms.off_policy.qmix"),
        **dict.fromkeys(("SAC", "SACConfig"), "trainers.algorithms.off_policy.sac"),
        **dict.fromkeys(("TD3", "TD3Config"), "trainers.algorithms.off_policy.td3"),
        **dict.fromkeys(("A2C", "A2CConfig"), "trainers.algorithms.on_policy.a2c"),
        **dict.fromkeys(("APPO", "APPOConfig"), "trainers.algorithms.on_policy.appo"),
        **dict.fromkeys(("IMPALA", "IMPALAConfig"), "trainers.algorithms.on_policy.impala"),
        **dict.fromkeys(("PG", "PGConfig"), "trainers.algorithms.on_policy.pg"),
        **dict.fromkeys(("PPO", "PPOConfig"), "trainers.algorithms.on_policy.ppo"),
        **dict.fromkeys(("ALGORITHMS", "AlgorithmSpec", "find"), "trainers.algorithms.registry"),
    },
)
