"""Heterogeneous-agent PPO (HAPPO): PPO whose policies are updated one after another, in a random order.

Source: Kuba et al. 2022, "Trust Region Policy Optimisation in Multi-Agent Reinforcement Learning", algorithm 4, and
Zhong et al. 2024, "Heterogeneous-Agent Reinforcement Learning", JMLR 25. In the order i_1, ..., i_n of an update, the
policy of i_m maximizes the clipped objective of PPO, with the advantage A of the joint action replaced by

    M_m(s, a) = A(s, a) * prod_{j < m} pi_new^{i_j}(a^{i_j} | o^{i_j}) / pi_old^{i_j}(a^{i_j} | o^{i_j})

With exact advantages and small enough steps the return of all agents together never decreases, where simultaneous
updates may spoil each other. As in the authors' code (HARL), advantages are normalized before the factor is applied,
the factor is not clipped, and the ratios of an action's components are multiplied. Unlike there, every policy has a
critic of its own, and the ratio of an agent that is dead, does not decide or has no known advantage is 1. Agents that
share a policy are one member of the order, and their ratios are multiplied. Where agents compete, the factor is that of
the policies with the same roles.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor

from trainers.algorithms.on_policy import advantages
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.advantages import forward_batch, minibatch
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec

HAPPOConfig: TypeAlias = PPOConfig
"""Settings of HAPPO: those of PPO, whose presets it shares."""


class SequentialLearner(ActorCriticLearner):
    """Learner whose advantages have the factor of the policies updated before, see `UpdatesInSequence`."""

    def __init__(self, config: Any, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        self.factor: Tensor = torch.ones(self.rollout.reward.shape[:2], device=self.device)
        self.ratio: Tensor = torch.ones_like(self.factor)

    def _unsupported(self) -> str:
        return "updates in sequence: kernels do not weight advantages by the updates of other policies"

    def update(self) -> dict[str, Tensor]:
        """Learn from the stored rollout, see `ActorCriticLearner.update`, and set `ratio`."""
        self.ratio.fill_(1.0)  # it stays so without decisions
        return super().update()

    def batch(self, reducer: GradientReducer = LOCAL_REDUCER, fixed_shapes: bool = False) -> dict[str, Tensor]:
        """Return the rollout's decisions, see `ActorCriticLearner.batch`; advantages have the factor."""
        batch = super().batch(reducer, fixed_shapes)
        worlds = batch["rows"] // self.learner_spec.num_agents  # of sequences, or of steps and worlds
        factor = self.factor.flatten() if self.recurrent_state is None else self.factor.t()
        batch["advantage"] = batch["advantage"] * factor[worlds]
        return batch

    @torch.no_grad()
    def _update_normalizers(self, batch: dict[str, Tensor]) -> None:
        """Set `ratio`, for the inputs of the policy as they were at sampling, then update the statistics."""
        log_ratio = self._log_ratio(batch)
        if self.recurrent_state is None:
            empty = torch.zeros(self.rollout.valid.numel(), device=self.device)
            log_ratio = empty.index_copy_(0, batch["rows"], log_ratio)
        else:
            log_ratio = log_ratio.t()
        self.ratio.copy_(log_ratio.reshape(self.rollout.valid.shape).sum(-1).exp())
        super()._update_normalizers(batch)

    def _log_ratio(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the log-ratios of the present to the old policy in a batch, (N,) or (N, T), 0 in invalid rows."""
        old, parts = batch["log_prob"], []
        size = max(advantages.SLICE_ROWS // max(old[:1].numel(), 1), 1)
        for rows in torch.arange(len(old), device=self.device).split(size):
            part = minibatch(batch, rows, None)
            params = forward_batch(self.actor, part["obs"], part, "actor")
            parts.append(self.head.evaluate(params, part["action"], part.get("mask"))[0] - part["log_prob"])
        log_ratio = torch.cat(parts)
        return log_ratio.masked_fill(~batch["valid"], 0.0) if "valid" in batch else log_ratio


class HAPPO(SequentialLearner, PPO):
    """Learner of HAPPO. With one policy it is MAPPO."""
