"""All agents' observations and actions, as centralised critics take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_envs.errors import ConfigError
from trainers.heads import Head
from trainers.problem import Problem


class Answers(Protocol):
    """A learner whose policy other learners' critics can ask."""

    head: Head

    def answer(self, obs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Codes (B, n, code_width) of what its agents do next when they see (B, n, D), and log-probabilities (B, n).

        Draws from the asking learner's generator, so that learners do not depend on each other's streams.
        """
        ...


class JointView:
    """What the critic of one policy's n agents sees of a world with A agents.

    For each of the n: all agents' observations, all other agents' actions as codes (see `trainers.heads`), and which of
    the n it is. Its own action is left out: the critic gets it apart, or values every choice there is. Agents that have
    left show zeros, and what their policy would do on seeing them.
    """

    def __init__(self, problem: Problem) -> None:
        """Raises ConfigError where actions can be illegal: what is legal for others is not known to a learner."""
        if problem.masked:
            raise ConfigError("a critic of joint actions cannot tell which are legal; use an algorithm without one")
        device, players = torch.device(problem.device), problem.players
        self.policy, self.agents = problem.policy, len(players)
        self.padded = problem.state_width // self.agents
        rows: dict[str, list[int]] = {}
        for player in sorted(players, key=lambda each: each.place):
            rows.setdefault(player.policy, []).append(player.row)
        self.rows = {name: torch.tensor(those, device=device) for name, those in rows.items()}
        self.obs_width = {player.policy: player.obs_width for player in players}
        self.action_width = {player.policy: sum(player.action_space.shape or ()) for player in players}
        self.code_width = max(spaces.flatdim(player.action_space) for player in players)
        self.identity = torch.eye(problem.num_agents, device=device)
        others = torch.arange(self.agents, device=device) != self.rows[self.policy].unsqueeze(1)
        self.others = others.float().unsqueeze(-1)  # (n, A, 1)
        self.width = problem.state_width + self.agents * self.code_width + problem.num_agents
        self.learners: Mapping[str, Answers] = {}

    def meet(self, learners: Mapping[str, Answers]) -> None:
        """Takes note of all learners, by policy."""
        self.learners = learners

    def obs(self, state: Tensor, policy: str) -> Tensor:
        """What a policy's agents see, (B, n, D), out of all padded observations (B, A * padded)."""
        return state.unflatten(-1, (self.agents, self.padded))[:, self.rows[policy], : self.obs_width[policy]]

    def encode(self, joint_action: Tensor) -> Tensor:
        """Codes (B, A, code_width), zero-padded, of the environment's actions (B, A) or (B, A, K)."""
        codes = {}
        for name, learner in self.learners.items():
            action = joint_action[:, self.rows[name]]
            codes[name] = learner.head.encode(action if action.dim() == 2 else action[..., : self.action_width[name]])
        return self._gather(codes)

    def ask(self, state: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """What all agents do next, codes (B, A, code_width), and log-probabilities (B, n) of the policy's own."""
        answers = {name: learner.answer(self.obs(state, name), generator) for name, learner in self.learners.items()}
        return self._gather({name: code for name, (code, _) in answers.items()}), answers[self.policy][1]

    def own(self, codes: Tensor, width: int) -> Tensor:
        """The policy's own codes (B, n, width) out of all."""
        return codes[:, self.rows[self.policy], :width]

    def situation(self, state: Tensor, codes: Tensor) -> Tensor:
        """The critic's input (B, n, `width`) from all agents' observations (B, S), as it takes them, and codes."""
        shape = (-1, self.identity.shape[0], -1)
        others = (codes.unsqueeze(1) * self.others).flatten(2)
        identity = self.identity.expand(state.shape[0], -1, -1)
        return torch.cat([state.unsqueeze(1).expand(shape), others, identity], -1)

    def _gather(self, codes: Mapping[str, Tensor]) -> Tensor:
        first = next(iter(codes.values()))
        joint = torch.zeros((first.shape[0], self.agents, self.code_width), device=first.device)
        for name, code in codes.items():
            joint[:, self.rows[name], : code.shape[-1]] = code
        return joint
