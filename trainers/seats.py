"""Seats: which agents a policy plays, and the learner behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from gpu_envs.core import Core
from trainers.agents import Agents, agents_of
from trainers.config import TrainConfig, groups_by_policy
from trainers.learner import Learner
from trainers.ppo import PPO
from trainers.rollout import Transition
from trainers.settings import derived_seed


@dataclass
class Seat:
    """The agents that one policy plays, and the learner of that policy."""

    groups: tuple[str, ...]
    agents: Agents
    learner: Learner

    def act(self, obs: Tensor, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Asks the learner and writes its actions into those of all agents (E, A[, K])."""
        mask, to_move = self.agents.mask(info.get("action_mask")), self._to_move(info)
        action = self.learner.act(obs[:, self.agents.rows, : self.agents.width], mask, to_move)
        self.agents.put(action, into)

    def observe(self, core: Core, info: Mapping[str, Tensor]) -> None:
        """Hands the learner its agents' part of the step."""
        rows, width = self.agents.rows, self.agents.width
        self.learner.observe(
            Transition(
                reward=core.reward[:, rows],
                terminated=core.terminated[:, rows],
                truncated=core.truncated[:, rows],
                valid=core.valid[:, rows],
                next_obs=core.obs[:, rows, :width],
                final_obs=core.final_obs[:, rows, :width],
                next_to_move=self._to_move(info),
            )
        )

    def _to_move(self, info: Mapping[str, Tensor]) -> Tensor | None:
        return info["to_move"][:, self.agents.rows] if "to_move" in info else None


def make_seats(config: TrainConfig, core: Core) -> dict[str, Seat]:
    """One seat per policy, in the order of the environment's groups."""
    seats = {}
    for index, (name, groups) in enumerate(groups_by_policy(config, core).items()):
        agents = agents_of(core, groups)
        learner = PPO(
            config.ppo,
            agents.width,
            agents.space,
            core.num_envs,
            sum(len(core.groups[group]) for group in groups),
            config.total_steps,
            core.device,
            seed=derived_seed(config.seed, index),  # a stream of its own for every learner
            time_limit=core.definition.max_steps,
        )
        seats[name] = Seat(tuple(groups), agents, learner)
    return seats
