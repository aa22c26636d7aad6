"""Algorithms that learn from a replay buffer: DQN, NFSP, QMIX, TD3, SAC and their multi-agent forms."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
    from trainers.algorithms.off_policy.maddpg import MADDPG, MADDPGConfig
    from trainers.algorithms.off_policy.masac import MASAC, MASACConfig
    from trainers.algorithms.off_policy.nfsp import NFSP, NFSPConfig
    from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
    from trainers.algorithms.off_policy.sac import SAC, SACConfig
    from trainers.algorithms.off_policy.td3 import TD3, TD3Config

__all__ = [
    "DQN",
    "MADDPG",
    "MASAC",
    "NFSP",
    "QMIX",
    "SAC",
    "TD3",
    "DQNConfig",
    "MADDPGConfig",
    "MASACConfig",
    "NFSPConfig",
    "QMIXConfig",
    "SACConfig",
    "TD3Config",
]

__getattr__, __dir__ = lazy_exports(__name__)
