"""Proximal Policy Optimisation (Schulman et al. 2017) for a group of agents that share one policy.

The implementation details follow Huang et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization",
except for truncations, which are bootstrapped from the true last observation.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainers.bodies import BodyConfig, Network
from trainers.learner import ALONE, Central, Descent, State, restore, saved
from trainers.nets import ObservationNormalizer, action_spec, make_head
from trainers.policy import Policy
from trainers.problem import Problem
from trainers.returns import gae, gae_by_turns
from trainers.rollout import Rollout, Transition, final_rows
from trainers.settings import check_settings, setting


@dataclass(frozen=True)
class PPOConfig(BodyConfig):
    """Settings of PPO. A "step" is one step of one world, whatever the number of its agents."""

    rollout_length: int = setting(32, ">= 1")
    """Steps per world between two updates, T."""
    epochs: int = setting(4, ">= 1")
    """Passes over the rollout per update."""
    minibatches: int = setting(4, ">= 1")
    """Gradient steps per pass."""
    learning_rate: float = setting(1e-3, "> 0")
    """Adam's step size at the start."""
    learning_rate_end: float = setting(1e-4, ">= 0")
    """Adam's step size after `total_steps`; linear in between."""
    gamma: float = setting(0.98, "in [0, 1]")
    """Discount per step."""
    gae_lambda: float = setting(0.95, "in [0, 1]")
    """Decay of the advantage estimator: 0 is one-step, 1 is Monte Carlo."""
    clip: float = setting(0.2, "> 0")
    """The probability ratio is clipped to [1 - clip, 1 + clip]."""
    clip_value: float | None = setting(None, "> 0")
    """Bound on how far an update may move a value prediction, in units of scaled return; none if None."""
    value_coef: float = setting(0.5, ">= 0")
    """Weight of the value loss."""
    entropy: float = setting(0.01, ">= 0")
    """Weight of the entropy bonus at the start."""
    entropy_end: float = setting(0.001, ">= 0")
    """Weight of the entropy bonus after `total_steps`; linear in between."""
    max_grad_norm: float = setting(0.5, "> 0")
    """Gradients are scaled down to this global norm."""
    target_kl: float | None = setting(None, "> 0")
    """An update stops after the pass whose mean KL divergence exceeds this (one host sync per pass); never if None."""
    normalize_advantage: bool = True
    """Give the advantages of a rollout mean 0 and standard deviation 1, over valid rows."""
    normalize_obs: bool = True
    """Normalise observations by running statistics over valid rows."""
    reward_scale: float = setting(1.0, "> 0")
    """Multiplies rewards before learning: choose it so that returns are of order 1 to 10."""
    init_log_std: float = 0.0
    """Log standard deviation that continuous policies start from."""
    truncation_capacity: float | None = setting(None, "> 0")
    """Truncations per agent and rollout that the buffer of final observations has room for, on average over agents;
    if None, one more than the time limit can bring about, and at least 2."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")


class PPO:
    """The learner. Actor and critic are separate MLPs; the critic values a whole rollout in one batch, in `update`."""

    central: Central = None
    descent: Descent = ALONE

    def __init__(self, config: PPOConfig, problem: Problem) -> None:
        """Builds networks and buffers."""
        self.config, self.total_steps, self.steps = config, problem.total_steps, 0
        self.device = torch.device(problem.device)
        self.generator = torch.Generator(self.device).manual_seed(problem.seed)
        weights = torch.Generator().manual_seed(problem.seed)
        obs_width, agents = problem.obs_width, problem.num_envs * problem.num_agents
        action = action_spec(problem.action_space, config.init_log_std)
        self.head = make_head(action)
        self.spec = {**config.spec(obs_width), "action": action}
        self.normalizer = ObservationNormalizer(obs_width)
        self.actor = Network(self.spec, self.head.num_params, 0.01, weights)
        self.critic = Network(self.spec, 1, 1.0, weights)
        self.net = nn.ModuleDict(
            {"normalizer": self.normalizer, "actor": self.actor, "critic": self.critic, "head": self.head}
        ).to(self.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=config.learning_rate, eps=1e-5, fused=True)
        self.optimizers = {"adam": self.optimizer}
        self.rollout = Rollout(
            config.rollout_length,
            (problem.num_envs, problem.num_agents),
            obs_width,
            self.head.action_shape,
            self.head.action_dtype,
            capacity=final_rows(config.rollout_length, problem.time_limit, agents, config.truncation_capacity),
            device=self.device,
        )

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
        action, log_prob = self.head.sample(self.actor(self.normalizer(obs)), self.generator, mask)
        self.rollout.decide(action, log_prob)
        return self.head.to_env(action)

    def observe(self, transition: Transition) -> None:
        """Stores what came of the last actions."""
        self.rollout.end(transition)

    def update(self) -> dict[str, Tensor]:
        """Learns from the stored rollout.

        Invalid rows leave first, so that no loss or statistic can see them. The normaliser takes in the rollout only
        after the gradient steps: ratios start at exactly the policy that acted.

        Returns:
            Metrics, one-element tensors on the device (none if no row was valid).
        """
        c = self.config
        progress = min(self.steps / self.total_steps, 1.0)
        learning_rate = c.learning_rate + progress * (c.learning_rate_end - c.learning_rate)
        entropy_coef = c.entropy + progress * (c.entropy_end - c.entropy)
        self.optimizer.param_groups[0]["lr"] = learning_rate

        batch = self._batch()
        metrics: dict[str, Tensor] = {}
        if (least := self.descent.least(batch["obs"].shape[0])) > 0:
            totals: dict[str, Tensor] = {}
            gradient_steps = 0
            for _ in range(c.epochs):
                kl_before = totals["approx_kl"].clone() if totals else torch.zeros((), device=self.device)
                chunks = self._minibatches(batch["obs"].shape[0], min(c.minibatches, least))
                for rows in chunks:
                    for name, value in self._gradient_step(batch, rows, entropy_coef).items():
                        totals[name] = totals[name] + value if name in totals else value
                gradient_steps += len(chunks)
                if c.target_kl is not None:
                    kl = self.descent.mean(totals["approx_kl"] - kl_before)
                    if float(kl) > c.target_kl * len(chunks):
                        break
            metrics = {name: value / gradient_steps for name, value in totals.items()}
            residual = (batch["returns"] - batch["value"]).var(correction=0)
            metrics["explained_variance"] = 1 - residual / (batch["returns"].var(correction=0) + 1e-8)
            numbers = {"gradient_steps": gradient_steps, "learning_rate": learning_rate, "entropy_coef": entropy_coef}
            metrics |= {name: torch.full((), float(number), device=self.device) for name, number in numbers.items()}
            if c.normalize_obs:
                self.normalizer.update(batch["raw_obs"], total=self.descent.sum)
        self.steps += self.rollout.length * self.rollout.obs.shape[1]
        self.rollout.clear()
        return metrics

    @torch.no_grad()
    def _batch(self) -> dict[str, Tensor]:
        """Values the rollout and compacts its N valid rows to tensors (N, ...).

        The host waits for the device here, to learn how many final observations there are and how large N is, and in
        the rest of the update only where `target_kl` asks it to.
        """
        c, r = self.config, self.rollout
        final_count = r.check()
        decided = r.valid if r.to_move is None else r.valid & r.to_move[:-1]
        rows = decided.flatten().nonzero().squeeze(-1)
        raw_obs = r.obs.flatten(0, 2)[rows]
        obs = self.normalizer(raw_obs)
        valued = self.critic(obs).squeeze(-1)
        value = torch.zeros(r.valid.numel(), device=self.device).index_copy_(0, rows, valued).view_as(r.reward)
        last_value = self.critic(self.normalizer(r.last_obs)).squeeze(-1)
        steps = (r.reward * c.reward_scale, value, last_value, r.terminated, r.truncated)
        if r.to_move is None:
            final_value = torch.zeros(r.capacity + 1, device=self.device)
            final_value[:final_count] = self.critic(self.normalizer(r.final_obs[:final_count])).squeeze(-1)
            advantage, returns = gae(*steps, final_value[r.final_slot], r.valid, c.gamma, c.gae_lambda)
        else:
            advantage, returns, known = gae_by_turns(*steps, r.valid, r.to_move, c.gamma, c.gae_lambda)
            keep = known.flatten()[rows]
            rows, raw_obs, obs, valued = rows[keep], raw_obs[keep], obs[keep], valued[keep]
        advantage = advantage.flatten()[rows]
        if c.normalize_advantage and rows.numel() > 0:
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        batch = {"raw_obs": raw_obs, "obs": obs, "advantage": advantage, "returns": returns.flatten()[rows]}
        batch |= {"action": r.action.flatten(0, 2)[rows], "log_prob": r.log_prob.flatten()[rows], "value": valued}
        if r.mask is not None:
            batch["mask"] = r.mask[:-1].flatten(0, 2)[rows]
        return batch

    def _minibatches(self, size: int, count: int) -> tuple[Tensor, ...]:
        order = torch.randperm(size, generator=self.generator, device=self.device)
        return order.tensor_split(count)

    def _gradient_step(self, batch: dict[str, Tensor], rows: Tensor, entropy_coef: float) -> dict[str, Tensor]:
        """One step of Adam on the clipped objective of Schulman et al. 2017, eq. 9, over the given rows."""
        c = self.config
        obs, advantage, returns = batch["obs"][rows], batch["advantage"][rows], batch["returns"][rows]
        mask = batch["mask"][rows] if "mask" in batch else None
        log_prob, entropy = self.head.evaluate(self.actor(obs), batch["action"][rows], mask)
        log_ratio = log_prob - batch["log_prob"][rows]
        ratio = log_ratio.exp()
        policy_loss = -torch.min(ratio * advantage, ratio.clamp(1 - c.clip, 1 + c.clip) * advantage).mean()

        value = self.critic(obs).squeeze(-1)
        error = (value - returns).square()
        if c.clip_value is not None:
            old = batch["value"][rows]
            clipped = old + (value - old).clamp(-c.clip_value, c.clip_value)
            error = torch.max(error, (clipped - returns).square())
        value_loss = 0.5 * error.mean()

        loss = policy_loss + c.value_coef * value_loss - entropy_coef * entropy.mean()
        grad_norm = self.descent(self.optimizer, loss, c.max_grad_norm)
        with torch.no_grad():
            return {
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.mean(),
                "approx_kl": (ratio - 1 - log_ratio).mean(),  # Schulman 2020, unbiased and never negative
                "clip_fraction": ((ratio - 1).abs() > c.clip).float().mean(),
                "grad_norm": grad_norm,
            }

    def policy(self) -> Policy:
        """A frozen copy of the actor with its normaliser."""
        normalizer, actor, head = copy.deepcopy((self.normalizer, self.actor, self.head))
        return Policy(self.spec, normalizer, actor, head, seed=self.generator.initial_seed())

    def state_dict(self) -> State:
        """Networks, Adam, normaliser, schedule counter and generator; call it between rollouts."""
        return saved(self.net, self.optimizers, self.generator, steps=self.steps)

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError naming the first tensor that does not fit."""
        self.steps = restore(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.rollout.clear()
