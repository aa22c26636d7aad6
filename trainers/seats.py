"""Seats: which agents a policy plays, and the learner behind it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from trainers.config import Core, TrainConfig, groups_by_policy
from trainers.learner import Learner
from trainers.ppo import PPO
from trainers.rollout import Transition


@dataclass
class Seat:
    """The agents that one policy plays, and the learner of that policy."""

    groups: tuple[str, ...]
    rows: slice | Tensor
    """Rows of its n agents; a slice where they are contiguous, so that reading them copies nothing."""
    width: int
    """Widest observation among them."""
    learner: Learner

    def act(self, obs: Tensor, mask: Tensor | None, into: Tensor) -> None:
        """Asks the learner and writes its actions (E, n[, k]) into those of all agents (E, A[, K])."""
        action = self.learner.act(obs[:, self.rows, : self.width], None if mask is None else mask[:, self.rows])
        if into.dim() == 3:
            into[:, self.rows, : action.shape[-1]] = action
        else:
            into[:, self.rows] = action

    def observe(self, core: Core) -> None:
        """Hands the learner its agents' part of the step."""
        rows = self.rows
        self.learner.observe(
            Transition(
                reward=core.reward[:, rows],
                terminated=core.terminated[:, rows],
                truncated=core.truncated[:, rows],
                valid=core.valid[:, rows],
                next_obs=core.obs[:, rows, : self.width],
                final_obs=core.final_obs[:, rows, : self.width],
            )
        )


def make_seats(config: TrainConfig, core: Core) -> dict[str, Seat]:
    """One seat per policy, in the order of the environment's groups."""
    seats = {}
    for index, (name, groups) in enumerate(groups_by_policy(config, core).items()):
        members = [row for group in groups for row in core.groups[group]]
        agents = [core.possible_agents[row] for row in members]
        space = core.action_spaces[agents[0]]
        if any(core.action_spaces[agent] != space for agent in agents):
            raise ConfigError(f"policies: {', '.join(groups)} differ in action space, they cannot share {name!r}")
        contiguous = members == list(range(members[0], members[0] + len(members)))
        rows = slice(members[0], members[-1] + 1) if contiguous else torch.tensor(members, device=core.device)
        width = max(core.observation_spaces[agent].shape[0] for agent in agents)
        seed = config.seed * 1009 + index  # a stream of its own for every learner
        learner = PPO(config.ppo, width, space, core.num_envs, len(agents), config.total_steps, core.device, seed)
        seats[name] = Seat(tuple(groups), rows, width, learner)
    return seats
