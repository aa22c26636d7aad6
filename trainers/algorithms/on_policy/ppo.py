"""Proximal Policy Optimisation (Schulman et al. 2017) for a group of agents that share one policy.

The implementation details follow Huang et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization",
except for truncations, which are bootstrapped from the true last observation. With `critic = "state"` it is MAPPO (Yu
et al. 2022); with `body = "gru"` it learns from whole sequences, through time.
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
class PPOConfig(ActorCriticConfig):
    """Settings of PPO. A "step" is one step of one world, whatever the number of its agents."""

    epochs: int = setting(4, ">= 1")
    """Passes over the rollout per update."""
    minibatches: int = setting(4, ">= 1")
    """Gradient steps per pass."""
    learning_rate: float = setting(1e-3, "> 0")
    """Adam's step size at the start."""
    learning_rate_end: float = setting(1e-4, ">= 0")
    """Adam's step size after `total_steps`; linear in between."""
    clip: float = setting(0.2, "> 0")
    """The probability ratio is clipped to [1 - clip, 1 + clip]."""
    clip_value: float | None = setting(None, "> 0")
    """Bound on how far an update may move a value prediction, in units of scaled return; none if None."""
    entropy: float = setting(0.01, ">= 0")
    """Weight of the entropy bonus at the start."""
    entropy_end: float = setting(0.001, ">= 0")
    """Weight of the entropy bonus after `total_steps`; linear in between."""
    target_kl: float | None = setting(None, "> 0", needs={"epochs": ">= 2"})
    """An update stops after the pass whose mean KL divergence exceeds this (one host sync per pass); never if None."""


class PPO:
    """The learner. The critic values a whole rollout in one batch, in `update`."""

    descent: Descent = ALONE

    def __init__(self, config: PPOConfig, problem: Problem) -> None:
        """Builds networks and buffers."""
        self.config, self.total_steps, self.steps = config, problem.total_steps, 0
        self.central: Central = config.central
        self.acting = acting = Acting(config, problem)
        self.device, self.generator, self.rollout = acting.device, acting.generator, acting.rollout
        self.net = net = acting.net
        self.actor, self.critic, self.head = net.actor, net.critic, net.head
        self.optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        self.optimizers = {"adam": self.optimizer}

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
        """Learns from the stored rollout.

        Invalid rows leave first, or are masked in sequences, so that no loss or statistic can see them. The normalisers
        take in the rollout only after the gradient steps: ratios start at exactly the policy that acted.

        Returns:
            Metrics, one-element tensors on the device (none if no row was valid).
        """
        c, progress = self.config, self.steps / self.total_steps
        learning_rate = linear(c.learning_rate, c.learning_rate_end, progress)
        entropy_coef = linear(c.entropy, c.entropy_end, progress)
        self.optimizer.param_groups[0]["lr"] = learning_rate

        batch = self.acting.batch(self.descent)
        deck = self.descent.deck(batch, self.rollout)
        metrics: dict[str, Tensor] = {}
        if deck.known > 0:
            totals: dict[str, Tensor] = {}
            gradient_steps = 0
            for _ in range(c.epochs):
                kl_before = totals["approx_kl"].clone() if totals else torch.zeros((), device=self.device)
                chunks = deck.deal(min(c.minibatches, deck.most), self.generator)
                for drawn, count in chunks:
                    for name, value in self._gradient_step(batch, drawn, count, entropy_coef).items():
                        totals[name] = totals[name] + value if name in totals else value
                gradient_steps += len(chunks)
                if c.target_kl is not None:
                    kl = self.descent.mean(totals["approx_kl"] - kl_before)
                    if float(kl) > c.target_kl * len(chunks):
                        break
            metrics = {name: value / gradient_steps for name, value in totals.items()}
            metrics["explained_variance"] = explained_variance(batch, self.descent)
            numbers = {"gradient_steps": gradient_steps, "learning_rate": learning_rate, "entropy_coef": entropy_coef}
            metrics |= {name: torch.full((), float(number), device=self.device) for name, number in numbers.items()}
            self.acting.take_in(batch, self.descent.sum)
        self.steps += self.acting.next_rollout()
        return metrics

    def _gradient_step(
        self, batch: dict[str, Tensor], drawn: Tensor, count: Tensor | float | None, entropy_coef: float
    ) -> dict[str, Tensor]:
        """One step of Adam on the clipped objective, eq. 9, over what was drawn; `count` as `Deck`."""
        c, part = self.config, minibatch(batch, drawn, self.net.outlook)
        valid, advantage, returns = part.get("valid"), part["advantage"], part["returns"]
        params = through(self.actor, part["obs"], part, "actor")
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        log_ratio = log_prob - part["log_prob"]
        ratio = log_ratio.exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - c.clip, 1 + c.clip) * advantage)
        policy_loss = -masked_mean(gain, valid, count)

        value = through(self.critic, part["seen"], part, "critic").squeeze(-1)
        error = (value - returns).square()
        if c.clip_value is not None:
            clipped = part["value"] + (value - part["value"]).clamp(-c.clip_value, c.clip_value)
            error = torch.max(error, (clipped - returns).square())
        value_loss = 0.5 * masked_mean(error, valid, count)

        loss = policy_loss + c.value_coef * value_loss - entropy_coef * masked_mean(entropy, valid, count)
        grad_norm = self.descent(self.optimizer, loss, c.max_grad_norm)
        with torch.no_grad():
            return {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": masked_mean(entropy, valid, count),
                # Schulman 2020, unbiased and never negative
                "approx_kl": masked_mean(ratio - 1 - log_ratio, valid, count),
                "clip_fraction": masked_mean(((ratio - 1).abs() > c.clip).float(), valid, count),
                "grad_norm": grad_norm,
            }

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser."""
        return snapshot(self.acting)

    def state_dict(self) -> State:
        """Networks, Adam, normalisers, schedule counter, generator and memory; call it between rollouts."""
        return {**saved(self.net, self.optimizers, self.generator, steps=self.steps), **self.acting.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first tensor that does not fit."""
        self.steps = restore(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.acting.load_state_dict(state)
