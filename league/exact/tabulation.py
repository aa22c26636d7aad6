"""Policies as tables of action probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.exact.game_tree import GameTree
from league.policies.tabular import TablePolicy
from trainers.models.action_heads import CategoricalHead
from trainers.models.overrides import override_of
from trainers.models.policy import Policy, PolicyProtocol


@torch.no_grad()
def tabulate(policy: PolicyProtocol, tree: GameTree, seat: int) -> Tensor:
    """Return the table (I, C) of a policy in a seat, queried in one batch.

    Args:
        policy: One of `trainers`, or any with a method `probabilities(obs, mask)`, see `TablePolicy.probabilities`.
        tree: Tree of the game.
        seat: Seat of the policy.

    Raises:
        ConfigError: The policy is recurrent, or has no action probabilities.
    """
    obs, legal = tree.observations[seat], tree.legal[seat]
    acts_itself = override_of(policy, Policy, ("act",)) if isinstance(policy, Policy) else ""
    if isinstance(policy, Policy) and isinstance(policy.head, CategoricalHead) and not acts_itself:
        device = policy.normalizer.mean.device
        if policy.actor.hidden_width:
            raise ConfigError(
                "tabulate: expected a policy without recurrence, got a recurrent one; use sampled payoffs"
            )
        _, params, _ = policy.decide(obs.to(device).unsqueeze(-2), None, None)  # a single agent
        probabilities = policy.head.log_probs(params.squeeze(-2), legal.to(device)).exp().squeeze(-2)
    elif hasattr(policy, "probabilities"):
        tabular: Any = policy
        device = policy.table.device if isinstance(policy, TablePolicy) else obs.device
        probabilities = tabular.probabilities(obs.to(device), legal.to(device))
    else:
        raise ConfigError(f"tabulate: expected a policy with probabilities(obs, mask), got {type(policy).__name__}")
    probabilities = probabilities.cpu().double().masked_fill(~legal, 0.0)
    return probabilities / probabilities.sum(-1, keepdim=True)
