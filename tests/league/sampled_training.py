"""Trainings against sampled opponents, and their policies."""

import torch

from league.game import Game
from league.matchups.best_response import BestResponseTraining
from league.matchups.matchup_distribution import MatchupDistribution
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy

RPS = "RockPaperScissors-v0"


def rps(steps: int = 6) -> Game:
    return Game.of(RPS, {"num_repetitions": steps})


def config(**changes) -> TrainConfig:
    ppo = PPOConfig(rollout_length=4, num_epochs=1, num_minibatches=1, hidden_sizes=(8,))
    return TrainConfig(**{"env_id": RPS, "num_envs": 16, "total_steps": 10_000, "learner": ppo, "seed": 5, **changes})


def uniform(game: Game) -> MatchupDistribution:
    return MatchupDistribution.against(game, "player", [torch.ones(3) / 3] * 2)


def gru(seed: int) -> Policy:
    """Return a recurrent policy."""
    shape = Game.of(RPS).core(1)
    space = shape.action_spaces["player_0"]
    return PPO(
        PPOConfig(network="gru", hidden_sizes=(8,)), LearnerSpec(shape.obs_width, space, 1, 1, 100, seed=seed)
    ).policy()


def rollouts(training: BestResponseTraining, count: int) -> list[torch.Tensor]:
    tensors = []
    for _ in range(count):
        training.collector.collect()
        rollout = training.learner("player").rollout
        tensors += [
            rollout.obs.clone(),
            rollout.action.clone(),
            rollout.valid.clone(),
            training.opponents.assigned.clone(),
        ]
        training.learners.update(1, str)
    return tensors
