"""Learning algorithms: one module each, found by name in :mod:`trainers.algorithms.algorithm_specs`."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.algorithm_specs import ALGORITHMS, AlgorithmSpec, find
    from trainers.algorithms.imitation.behavior_cloning import BCConfig, clone
    from trainers.algorithms.learner import Learner
    from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
    from trainers.algorithms.off_policy.maddpg import MADDPG, MADDPGConfig
    from trainers.algorithms.off_policy.masac import MASAC, MASACConfig
    from trainers.algorithms.off_policy.nfsp import NFSP, NFSPConfig
    from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
    from trainers.algorithms.off_policy.sac import SAC, SACConfig
    from trainers.algorithms.off_policy.td3 import TD3, TD3Config
    from trainers.algorithms.on_policy.a2c import A2C, A2CConfig
    from trainers.algorithms.on_policy.appo import APPO, APPOConfig
    from trainers.algorithms.on_policy.impala import IMPALA, IMPALAConfig
    from trainers.algorithms.on_policy.mmd import MMD, MMDConfig
    from trainers.algorithms.on_policy.pg import PG, PGConfig
    from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
    from trainers.algorithms.on_policy.sequential.happo import HAPPO, HAPPOConfig
    from trainers.algorithms.on_policy.sequential.hatrpo import HATRPO, HATRPOConfig
    from trainers.algorithms.on_policy.sequential.mat import MAT, MATConfig

__all__ = [
    "A2C",
    "ALGORITHMS",
    "APPO",
    "DQN",
    "HAPPO",
    "HATRPO",
    "IMPALA",
    "MADDPG",
    "MASAC",
    "MAT",
    "MMD",
    "NFSP",
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
    "HAPPOConfig",
    "HATRPOConfig",
    "IMPALAConfig",
    "Learner",
    "MADDPGConfig",
    "MASACConfig",
    "MATConfig",
    "MMDConfig",
    "NFSPConfig",
    "PGConfig",
    "PPOConfig",
    "QMIXConfig",
    "SACConfig",
    "TD3Config",
    "clone",
    "find",
]

__getattr__, __dir__ = lazy_exports(__name__)
