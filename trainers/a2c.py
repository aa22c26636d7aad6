"""Advantage actor-critic for a group of agents that share one policy: the synchronous form of Mnih et al. 2016.

Source: "Asynchronous Methods for Deep Reinforcement Learning", algorithm S3, with all worlds in step instead of threads
out of step, and generalised advantages, of which `gae_lambda = 1` are the n-step returns of the paper. Truncations are
bootstrapped from the true last observation. Where PPO goes over a rollout several times, this makes one gradient step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.actor_critic import ActorCritic, ActorCriticConfig
from trainers.advantages import by_rows, by_sequences, explained_variance, minibatch, take_in, through
from trainers.learner import ALONE, Central, Descent, State, restore, saved
from trainers.memory import Memory
from trainers.nets import masked_mean
from trainers.policy import Policy, snapshot
from trainers.problem import Problem
from trainers.rollout import Rollout, Transition, final_rows
from trainers.settings import check_settings, setting


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
    gamma: float = setting(0.98, "in [0, 1]")
    """Discount per step."""
    gae_lambda: float = setting(1.0, "in [0, 1]")
    """Decay of the advantage estimator: 0 is one-step, 1 sums all rewards of the rollout."""
    value_coef: float = setting(0.5, ">= 0")
    """Weight of the value loss."""
    entropy: float = setting(0.01, ">= 0")
    """Weight of the entropy bonus."""
    max_grad_norm: float = setting(0.5, "> 0")
    """Gradients are scaled down to this global norm."""
    normalize_advantage: bool = False
    """Give the advantages of a rollout mean 0 and standard deviation 1, over valid rows."""
    normalize_obs: bool = True
    """Normalise observations, and states, by running statistics over valid rows."""
    reward_scale: float = setting(1.0, "> 0")
    """Multiplies rewards before learning: choose it so that returns are of order 1 to 10."""
    truncation_capacity: float | None = setting(None, "> 0")
    """Truncations per agent and rollout that the buffer of final observations has room for, on average over agents;
    if None, one more than the time limit can bring about, and at least 2."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")


class A2C:
    """The learner. The critic values a whole rollout in one batch, in `update`."""

    descent: Descent = ALONE

    def __init__(self, config: A2CConfig, problem: Problem) -> None:
        """Builds networks and buffers."""
        self.config, self.total_steps, self.steps = config, problem.total_steps, 0
        self.central: Central = config.central
        self.device = torch.device(problem.device)
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        net = ActorCritic(config, problem, config.action(problem.action_space))
        self.net, self.spec, self.head, self.normalizer = net, net.spec, net.head, net.normalizer
        self.actor, self.critic, self.outlook = net.actor, net.critic, net.outlook
        if config.optimizer == "adam":
            self.optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        else:
            self.optimizer = torch.optim.RMSprop(net.parameters(), lr=config.learning_rate, alpha=0.99, eps=1e-5)
        self.optimizers: dict[str, torch.optim.Optimizer] = {config.optimizer: self.optimizer}
        shape, agents = (problem.num_envs, problem.num_agents), problem.num_envs * problem.num_agents
        self.rollout = Rollout(
            config.rollout_length,
            shape,
            problem.obs_width,
            self.head.action_shape,
            self.head.action_dtype,
            capacity=final_rows(config.rollout_length, problem.time_limit, agents, config.truncation_capacity),
            device=self.device,
        )
        self.memory = Memory(shape, net.actor, net.critic, self.device) if config.body == "gru" else None

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Samples actions (E, n) or (E, n, K); arguments as `Learner.act`."""
        obs, mask = self.rollout.begin(obs, mask, to_move, state)
        seen = self.normalizer(obs)
        params = self.actor(seen) if self.memory is None else self.memory.step(self.actor, seen, self.rollout)
        action, _ = self.head.sample(params, self.generator, mask)
        self.rollout.decide(action)
        return self.head.to_env(action)

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        self.rollout.end(transition)

    def update(self) -> dict[str, Tensor]:
        """Makes one gradient step on the stored rollout.

        Returns:
            Metrics, one-element tensors on the device (none if no row was valid).
        """
        c = self.config
        progress = min(self.steps / self.total_steps, 1.0)
        learning_rate = c.learning_rate + progress * (c.learning_rate_end - c.learning_rate)
        self.optimizer.param_groups[0]["lr"] = learning_rate

        batch = self._batch()
        valid, size = batch.get("valid"), batch["obs"].shape[0]  # rows or sequences
        metrics: dict[str, Tensor] = {}
        if self.descent.least(size if valid is None else int(valid.sum())) > 0:
            metrics = self._gradient_step(batch)
            metrics["explained_variance"] = explained_variance(batch)
            metrics["learning_rate"] = torch.full((), learning_rate, device=self.device)
            if c.normalize_obs:
                take_in(batch, self.rollout, self.normalizer, self.outlook, self.descent.sum)
        self.steps += self.rollout.length * self.rollout.obs.shape[1]
        self.rollout.clear()
        if self.memory is not None:
            self.memory.next_rollout()
        return metrics

    def _batch(self) -> dict[str, Tensor]:
        """The rollout's decisions, valued. The host waits for the device here."""
        parts = (self.rollout, self.normalizer, self.critic)
        if self.memory is None:
            return by_rows(*parts, self.config, self.outlook)
        return by_sequences(*parts, self.memory, self.config, self.outlook)

    def _gradient_step(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Follows the policy gradient, the value loss and the entropy bonus of the whole rollout at once."""
        c, everything = self.config, torch.arange(batch["obs"].shape[0], device=self.device)
        part = minibatch(batch, everything, self.outlook)
        valid = part.get("valid")
        params = through(self.actor, part["obs"], part, "actor")
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        value = through(self.critic, part["seen"], part, "critic").squeeze(-1)

        policy_loss = -masked_mean(log_prob * part["advantage"], valid)
        value_loss = 0.5 * masked_mean((value - part["returns"]).square(), valid)
        bonus = masked_mean(entropy, valid)
        loss = policy_loss + c.value_coef * value_loss - c.entropy * bonus
        grad_norm = self.descent(self.optimizer, loss, c.max_grad_norm)
        losses = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": bonus, "grad_norm": grad_norm}
        return {name: each.detach() for name, each in losses.items()}

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser."""
        return snapshot(self)

    def state_dict(self) -> State:
        """Networks, optimiser, normalisers, schedule counter, generator and memory; call it between rollouts."""
        state = saved(self.net, self.optimizers, self.generator, steps=self.steps)
        return state if self.memory is None else {**state, **self.memory.state_dict(self.rollout)}

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first tensor that does not fit."""
        self.steps = restore(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.rollout.clear()
        if self.memory is not None:
            self.memory.load_state_dict(state, self.rollout)
