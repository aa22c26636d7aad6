"""MASAC: soft actor-critic whose critics see all agents' observations and actions, while policies see their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.joint import Answers, JointView
from trainers.learner import Central
from trainers.nets import ObservationNormalizer
from trainers.problem import Problem
from trainers.sac import SAC, SACConfig


@dataclass(frozen=True)
class MASACConfig(SACConfig):
    """Settings of MASAC, those of SAC."""


class MASAC(SAC):
    """The learner. Agents that share a policy share critics, which are told which of them they judge."""

    central: Central = "joint"

    def __init__(self, config: MASACConfig, problem: Problem) -> None:
        """Builds networks and buffers; before it learns it has to `meet` the others."""
        self.view = JointView(problem)
        super().__init__(config, problem)
        self.state_normalizer = ObservationNormalizer(problem.state_width).to(self.device)
        self.net["state_normalizer"] = self.state_normalizer

    def meet(self, learners: Mapping[str, Answers]) -> None:
        """Takes note of all learners by policy, itself among them, whose policies targets depend on."""
        self.view.meet(learners)

    def _seen_width(self, problem: Problem) -> int:
        return self.view.width

    def _normalize(self) -> None:
        super()._normalize()
        rollout = self.rollout
        assert rollout.state is not None
        self.state_normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.descent.sum)

    @torch.no_grad()
    def answer(self, obs: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Codes (B, n, code_width) of what the policy does on seeing (B, n, D), and log-probabilities (B, n)."""
        return self.head.relaxed(self.actor(self.normalizer(obs)), generator)

    @torch.no_grad()
    def _look(self, drawn: dict[str, Tensor]) -> dict[str, Tensor]:
        """As `SAC._look`; a situation is what all others see and do, too."""
        view = self.view
        state, next_state = drawn["state"], drawn["next_state"]
        codes, (next_codes, next_log_prob) = view.encode(drawn["joint_action"]), view.ask(next_state, self.generator)
        look = {name: drawn[name] for name in ("reward", "terminated", "valid")}
        look["obs"] = self.normalizer(view.obs(state, view.policy))
        look["situation"] = view.situation(self.state_normalizer(state), codes)
        look["next_situation"] = view.situation(self.state_normalizer(next_state), next_codes)
        width = self.head.code_width
        look |= {"code": view.own(codes, width), "next_code": view.own(next_codes, width)}
        look["next_log_prob"] = next_log_prob
        if self.discrete:
            look |= self._next(self.normalizer(view.obs(next_state, view.policy)))
        return look
