"""Advantage actor-critic for a group of agents that share one policy: the synchronous form of Mnih et al. 2016.

Source: "Asynchronous Methods for Deep Reinforcement Learning", algorithm S3, with all worlds in step instead of threads
out of step, and generalised advantages, of which `gae_lambda = 1` are the n-step returns of the paper. Truncations are
bootstrapped from the true last observation. Where PPO goes over a rollout several times, this makes one gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.acting import Acting
from trainers.actor_critic import ActorCriticConfig
from trainers.advantages import explained_variance, minibatch, through
from trainers.learner import ALONE, Central, Descent, State, linear, restore, saved
from trainers.nets import masked_mean
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.rollout import Transition
from trainers.settings import setting


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C. A "step" is one step of one world, whatever the number of its agents."""

    rollout_length: int = setting(8, ">= 1")
    """Steps per world between two updates, T."""
    optimizer: str = setting("rmsprop", ("rmsprop", "adam"))
    """"rmsprop", as in the paper, or "adam"."""
    learning_rate: float = setting(3e-3, "> 0")
    """The optimiser's step size at the start."""
    learning_rate_end: float = setting(0.0, ">= 0")
    """The optimiser's step size after `total_steps`; linear in between."""
    gae_lambda: float = setting(1.0, "in [0, 1]")
    """Decay of the advantage estimator: 0 is one-step, 1 sums all rewards of the rollout."""
    entropy: float = setting(0.01, ">= 0")
    """Weight of the entropy bonus."""
    normalize_advantage: bool = False
    """Give the advantages of a rollout mean 0 and standard deviation 1, over valid rows."""


class A2C:
    """The learner. The critic values a whole rollout in one batch, in `update`."""

    descent: Descent = ALONE

    def __init__(self, config: A2CConfig, problem: Problem) -> None:
        """Builds networks and buffers."""
        self.config, self.total_steps, self.steps = config, problem.total_steps, 0
        self.central: Central = config.central
        self.acting = acting = Acting(config, problem)
        self.device, self.generator, self.rollout = acting.device, acting.generator, acting.rollout
        self.net = net = acting.net
        self.actor, self.critic, self.head = net.actor, net.critic, net.head
        if config.optimizer == "adam":
            self.optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        else:
            self.optimizer = torch.optim.RMSprop(net.parameters(), lr=config.learning_rate, alpha=0.99, eps=1e-5)
        self.optimizers: dict[str, torch.optim.Optimizer] = {config.optimizer: self.optimizer}

    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Samples actions (E, n) or (E, n, K); arguments as `Learner.act`."""
        return self.acting.act(obs, mask, to_move, state)

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        self.rollout.end(transition)

    def update(self) -> dict[str, Tensor]:
        """Makes one gradient step on the stored rollout.

        Returns:
            Metrics, one-element tensors on the device (none if no row was valid).
        """
        c, progress = self.config, self.steps / self.total_steps
        learning_rate = linear(c.learning_rate, c.learning_rate_end, progress)
        self.optimizer.param_groups[0]["lr"] = learning_rate

        batch = self.acting.batch(self.descent)
        deck = self.descent.deck(batch, self.rollout)
        metrics: dict[str, Tensor] = {}
        if deck.known > 0:
            metrics = self._gradient_step(batch, deck.count)
            metrics["explained_variance"] = explained_variance(batch, self.descent)
            metrics["learning_rate"] = torch.full((), learning_rate, device=self.device)
            self.acting.take_in(batch, self.descent.sum)
        self.steps += self.acting.next_rollout()
        return metrics

    def _gradient_step(self, batch: dict[str, Tensor], count: Tensor | float | None) -> dict[str, Tensor]:
        """Follows policy gradient, value loss and entropy bonus of the whole rollout at once; `count` as `Deck`."""
        c, part = self.config, minibatch(batch, None, self.net.outlook)
        valid = part.get("valid")
        params = through(self.actor, part["obs"], part, "actor")
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        value = through(self.critic, part["seen"], part, "critic").squeeze(-1)

        policy_loss = -masked_mean(log_prob * part["advantage"], valid, count)
        value_loss = 0.5 * masked_mean((value - part["returns"]).square(), valid, count)
        bonus = masked_mean(entropy, valid, count)
        loss = policy_loss + c.value_coef * value_loss - c.entropy * bonus
        grad_norm = self.descent(self.optimizer, loss, c.max_grad_norm)
        losses = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": bonus, "grad_norm": grad_norm}
        return {name: each.detach() for name, each in losses.items()}

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser."""
        return snapshot(self.acting)

    def state_dict(self) -> State:
        """Networks, optimiser, normalisers, schedule counter, generator and memory; call it between rollouts."""
        return {**saved(self.net, self.optimizers, self.generator, steps=self.steps), **self.acting.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first tensor that does not fit."""
        self.steps = restore(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.acting.load_state_dict(state)
