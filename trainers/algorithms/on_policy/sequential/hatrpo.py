"""Heterogeneous-agent TRPO (HATRPO): a trust region for every policy, one policy after another in a random order.

Source: Kuba et al. 2022, "Trust Region Policy Optimisation in Multi-Agent Reinforcement Learning", algorithm 3, and
Zhong et al. 2024, "Heterogeneous-Agent Reinforcement Learning", JMLR 25. With the weighted advantage M of
`trainers.algorithms.on_policy.sequential.happo`, the parameters θ of a policy move to

    θ + β^k sqrt(2 δ / (x^T H x)) x,  H x = g,  g = grad E[pi_θ(a | o) / pi_old(a | o) M],  H = Hessian of E[KL] + λ I

where x comes from conjugate gradients, KL is of the old to the new policy, and k is the first of the steps of the line
search with E[KL] < δ and a surrogate that rises by more than `accept_ratio` of what g predicts. If there is none, the
policy stays. The settings are those of the authors' code (HARL), except that its KL divergence of discrete actions is
an estimate. All steps of the line search are computed, so that the host need not wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_envs.utils.settings import setting
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.advantages import explained_variance, forward_batch, minibatch
from trainers.algorithms.on_policy.sequential.happo import SequentialLearner
from trainers.algorithms.on_policy.torch_engine import Divisor
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam, set_learning_rate
from trainers.models.action_heads import kl_divergence
from trainers.models.networks import target_copy
from trainers.models.normalization import masked_mean


@dataclass(frozen=True)
class HATRPOConfig(ActorCriticConfig):
    """Settings of HATRPO. A "step" is one step of one world, with all its agents."""

    kl_threshold: float = setting(0.01, gt=0)
    """Largest mean KL divergence of the old to the new policy in an update [nats]. Lower it if training is unstable."""
    cg_step: int = setting(10, ge=1)
    """Steps of conjugate gradients."""
    damping: float = setting(0.1, ge=0)
    """Multiple of the identity that is added to the Hessian of the KL divergence."""
    ls_step: int = setting(10, ge=1)
    """Steps of the line search."""
    backtrack_coeff: float = setting(0.8, gt=0, lt=1)
    """Length of a step of the line search, as a share of the one before."""
    accept_ratio: float = setting(0.5, ge=0, lt=1)
    """Least improvement of the surrogate, as a share of the linear prediction."""
    num_epochs: int = setting(4, ge=1)
    """Passes of the critic over the rollout per update."""
    num_minibatches: int = setting(4, ge=1)
    """Gradient steps of the critic per pass."""
    learning_rate: float = setting(1e-3, gt=0)
    """Step size of the critic's Adam at the start."""
    learning_rate_final: float = setting(1e-4, ge=0)
    """Step size of the critic's Adam after `total_steps`, reached along `schedule`."""


class HATRPO(SequentialLearner):
    """Learner of HATRPO. Adam trains the critic only."""

    def __init__(self, config: HATRPOConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        super().__init__(config, spec)
        critic = self.critic.parameters()
        self.optimizer: torch.optim.Optimizer = make_adam(critic, config.learning_rate, spec.captured, eps=1e-5)
        self.optimizers: dict[str, torch.optim.Optimizer] = {"adam": self.optimizer}

    def _schedule(self, progress: float) -> dict[str, float]:
        learning_rate = self.scheduled(self.config.learning_rate, self.config.learning_rate_final, progress)
        set_learning_rate(self.optimizer, learning_rate)
        return {"learning_rate": learning_rate}

    def _learn(self) -> dict[str, Tensor]:
        """Move the policy, take the gradient steps of the critic, and update the normalizers."""
        c, fixed_shapes, steps = self.config, self.uses_fixed_shapes, torch.zeros((), device=self.device)
        batch = self.engine.batch(self.reducer, fixed_shapes)
        sampler = self.reducer.minibatch_sampler(batch, self.rollout.length, self.rollout.rows_per_step, fixed_shapes)
        if sampler.num_decisions == 0:
            return {}
        metrics = self._move_policy(batch, sampler.divisor)
        for _ in range(c.num_epochs):
            minibatches = sampler.minibatches(min(c.num_minibatches, sampler.max_minibatches), self.generator)
            steps = steps + self.engine.step(self.reducer, self._loss, minibatches, sampler.active, {})
        self.engine.finish()
        metrics |= {name: value / steps.clamp(min=1.0) for name, value in self.engine.totals().items()}
        metrics |= {"explained_variance": explained_variance(batch, self.reducer), "gradient_steps": steps}
        self._update_normalizers(batch)
        return metrics

    def _loss(
        self, batch: dict[str, Tensor], rows: Tensor | None, divisor: Divisor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the critic's loss of a minibatch and metrics, see `torch_engine.Loss`."""
        part = minibatch(batch, rows, self.net.critic_input)
        value = forward_batch(self.critic, part["seen"], part, "critic").squeeze(-1)
        loss = 0.5 * masked_mean((value - part["returns"]).square(), part.get("valid"), divisor)
        return self.config.value_coef * loss, {"value_loss": loss.detach()}

    @property
    def policy_parameters(self) -> list[Tensor]:
        """Trained parameters of the policy, of any shapes (...): those of the actor, and a Gaussian's deviation."""
        return [x for module in (self.actor, self.head) for x in module.parameters() if x.requires_grad]

    def _move_policy(self, batch: dict[str, Tensor], divisor: Divisor) -> dict[str, Tensor]:
        """Take the first step of the line search that is accepted, or none; return metrics, scalars."""
        c, parameters, measure = self.config, self.policy_parameters, self._measures(batch, divisor)
        with sdpa_kernel(SDPBackend.MATH):  # the form of attention that has second derivatives
            measures = measure()
            gradient, hessian = self._derivatives(measures[0], measures[1])
            direction = conjugate_gradient(hessian, gradient, c.cg_step)
            curvature = direction @ hessian(direction)
        step = direction * torch.sqrt(2.0 * c.kl_threshold / curvature.clamp(min=1e-20))
        predicted, start = gradient @ step, flatten(parameters).detach()
        chosen, accepted = start, torch.zeros((), dtype=torch.bool, device=self.device)
        old_surrogate, _, entropy = self.reducer.mean(measures.detach())
        kl = improvement = torch.zeros((), device=self.device)
        with torch.no_grad():
            for number in range(c.ls_step):
                share = c.backtrack_coeff**number
                candidate = start + share * step
                assign(parameters, candidate)
                surrogate, new_kl, _ = self.reducer.mean(measure())
                rise = surrogate - old_surrogate
                is_enough = (rise > 0) & (rise > c.accept_ratio * share * predicted)
                is_first = (new_kl < c.kl_threshold) & is_enough & ~accepted
                chosen, accepted = torch.where(is_first, candidate, chosen), accepted | is_first
                kl, improvement = torch.where(is_first, new_kl, kl), torch.where(is_first, rise, improvement)
            assign(parameters, chosen)
        metrics = {"kl": kl, "improvement": improvement, "accepted": accepted.float()}
        return metrics | {"policy_loss": -(old_surrogate + improvement), "entropy": entropy}

    def _measures(self, batch: dict[str, Tensor], divisor: Divisor) -> Callable[[], Tensor]:
        """Return a function that compares the policy then with the one now, on this rank's share of a batch.

        It returns means (3,) of probability ratio times advantage, KL divergence, and entropy.
        """
        part = minibatch(batch, None, None)
        valid, mask = part.get("valid"), part.get("mask")
        with torch.no_grad():
            old_params = forward_batch(self.actor, part["obs"], part, "actor")
        old_head = target_copy(self.head)

        def measure() -> Tensor:
            params = forward_batch(self.actor, part["obs"], part, "actor")
            log_prob, entropy = self.head.evaluate(params, part["action"], mask)
            log_ratio = log_prob - part["log_prob"]
            if valid is not None:  # an overflowing ratio would turn gradients to NaN
                log_ratio = log_ratio.masked_fill(~valid, 0.0)
            kl = kl_divergence(old_head, old_params, self.head, params, mask)
            values = (log_ratio.exp() * part["advantage"], kl, entropy)
            return torch.stack([masked_mean(value, valid, divisor) for value in values])

        return measure

    def _derivatives(self, surrogate: Tensor, kl: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the gradient of the surrogate (P,), and the product of the damped Hessian of the KL with (P,)."""
        parameters = self.policy_parameters

        def derivative(value: Tensor, differentiable: bool = False) -> Tensor:
            return flatten(torch.autograd.grad(value, parameters, None, True, differentiable, materialize_grads=True))

        slope = derivative(kl, differentiable=True)

        def hessian(vector: Tensor) -> Tensor:
            return self.reducer.mean(derivative(slope @ vector)) + self.config.damping * vector

        return self.reducer.mean(derivative(surrogate)), hessian


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, steps: int) -> Tensor:
    """Return x (P,) with A x = `target` (P,) after some steps of conjugate gradients, started at 0.

    Source: Hestenes and Stiefel 1952.

    Args:
        product: Returns the product of A, symmetric and positive definite, with a vector (P,).
        target: (P,).
        steps: Number of steps; P are exact.
    """
    x, residual, direction = torch.zeros_like(target), target, target
    square = residual @ residual
    for _ in range(steps):
        image = product(direction)
        length = square / (direction @ image).clamp(min=1e-30)  # 0 after the solution is found
        x, residual = x + length * direction, residual - length * image
        previous, square = square, residual @ residual
        direction = residual + square / previous.clamp(min=1e-30) * direction
    return x


def flatten(tensors: Iterable[Tensor]) -> Tensor:
    """Return the entries of tensors of any shapes (...) as one vector (P,)."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def assign(parameters: Sequence[Tensor], vector: Tensor) -> None:
    """Set parameters of any shapes (...) to the entries of a vector (P,), in place."""
    parts = vector.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view_as(parameter))
