"""Learners and the training loop: algorithms, rollouts, checkpoints, evaluation and the commands of `gpu-envs`.

Train policies, and act with them::

    result = trainers.train(trainers.preset("SimpleTag-v0", "cpu"), "out/tag")
    policy = trainers.load_policy("out/tag", "adversary")
    action = policy.act(obs, greedy=True)

Every name is imported at its first use, so that `import trainers` does not import torch.
"""

from typing import TYPE_CHECKING

from gpu_envs.utils.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from trainers import zoo
    from trainers.algorithms.imitation.behavior_cloning import BCConfig
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
    from trainers.config.presets import preset
    from trainers.config.train_config import TrainConfig
    from trainers.evaluation.cross_play import cross_play
    from trainers.evaluation.policy_evaluation import FinishedEpisodes, evaluate_policies
    from trainers.evaluation.scripted_policies import ScriptedPolicy
    from trainers.models.policy import Policy
    from trainers.runner.collector import Collector
    from trainers.runner.learner_group import LearnerGroup
    from trainers.runner.multi_seed import MultiSeedTrainer, train_seeds
    from trainers.runner.train_result import TrainResult
    from trainers.runner.trainer import Trainer, train
    from trainers.storage.checkpoint import load as load_checkpoint
    from trainers.storage.checkpoint import load_policy

__all__ = [
    "A2C",
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
    "BCConfig",
    "Collector",
    "DQNConfig",
    "FinishedEpisodes",
    "HAPPOConfig",
    "HATRPOConfig",
    "IMPALAConfig",
    "Learner",
    "LearnerGroup",
    "MADDPGConfig",
    "MASACConfig",
    "MATConfig",
    "MMDConfig",
    "MultiSeedTrainer",
    "NFSPConfig",
    "PGConfig",
    "PPOConfig",
    "Policy",
    "QMIXConfig",
    "SACConfig",
    "ScriptedPolicy",
    "TD3Config",
    "TrainConfig",
    "TrainResult",
    "Trainer",
    "cross_play",
    "evaluate_policies",
    "load_checkpoint",
    "load_policy",
    "preset",
    "train",
    "train_seeds",
    "zoo",
]

__getattr__, __dir__ = lazy_exports(__name__)
