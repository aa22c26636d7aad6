"""Algorithms that learn from a replay buffer: DQN, QMIX, TD3, SAC and their multi-agent forms."""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers.algorithms.off_policy.dqn import DQN, DQNConfig
    from trainers.algorithms.off_policy.maddpg import MADDPG, MADDPGConfig
    from trainers.algorithms.off_policy.masac import MASAC, MASACConfig
    from trainers.algorithms.off_policy.qmix import QMIX, QMIXConfig
    from trainers.algorithms.off_policy.sac import SAC, SACConfig
    from trainers.algorithms.off_policy.td3 import TD3, TD3Config

__all__ = [
    "DQN",
    "MADDPG",
    "MASAC",
    "QMIX",
    "SAC",
    "TD3",
    "DQNConfig",
    "MADDPGConfig",
    "MASACConfig",
    "QMIXConfig",
    "SACConfig",
    "TD3Config",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        **dict.fromkeys(("DQN", "DQNConfig"), "trainers.algorithms.off_policy.dqn"),
        **dict.fromkeys(("MADDPG", "MADDPGConfig"), "trainers.algorithms.off_policy.maddpg"),
        **dict.fromkeys(("MASAC", "MASACConfig"), "trainers.algorithms.off_policy.masac"),
        **dict.fromkeys(("QMIX", "QMIXConfig"), "trainers.algorithms.off_policy.qmix"),
        **dict.fromkeys(("SAC", "SACConfig"), "trainers.algorithms.off_policy.sac"),
        **dict.fromkeys(("TD3", "TD3Config"), "trainers.algorithms.off_policy.td3"),
    },
)
