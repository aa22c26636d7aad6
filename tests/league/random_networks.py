"""Networks with random weights for the seats of games."""

from __future__ import annotations

from typing import Any

import torch

from league.game import Game
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.agent_group import agent_rows_of, make_agent_group
from trainers.base.learner_spec import LearnerSpec
from trainers.models.policy import Policy


def network(game: Game, seat: int, seed: int, scale: float = 1.0, **settings: Any) -> Policy:
    """Return a network whose weights and normalization depend on the seed."""
    core, members = game.core(1), game.seats[seat].members
    agents, count = make_agent_group(core, members), len(agent_rows_of(core, members))
    config = PPOConfig(**{"hidden_sizes": (8,), **settings})
    learner = PPO(config, LearnerSpec(agents.obs_width, agents.space, 1, count, 100, seed=seed))
    generator = torch.Generator().manual_seed(seed)
    for parameter in learner.net.parameters():
        parameter.data += scale * torch.randn(parameter.shape, generator=generator)
    return learner.policy()
