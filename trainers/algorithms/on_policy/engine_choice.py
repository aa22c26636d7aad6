"""Choice of the engine of an actor-critic learner."""

from __future__ import annotations

import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import available_cores
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_agent import ActorCriticAgent
from trainers.algorithms.on_policy.engine_table import kernels_are_faster
from trainers.algorithms.on_policy.engines import Engine, TorchEngine
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.base.learner_spec import LearnerSpec
from trainers.models.kernel_networks import unsupported

__all__ = ["MIN_TRAINING_OPERATIONS", "make_engine"]

MIN_TRAINING_OPERATIONS = 2e10
"""Fewest floating-point operations of a training that kernels are compiled for; PyTorch takes seconds for them."""


def make_engine(agent: ActorCriticAgent, optimizer: torch.optim.Optimizer, spec: LearnerSpec, objective: str) -> Engine:
    """Return the engine of a learner, see `TrainConfig.engine`.

    Args:
        agent: Networks and rollout.
        optimizer: Optimizer of the networks.
        spec: Specification of the learner.
        objective: Loss of the policy, see `warp_kernels.networks.losses.policy_head`.

    Raises:
        ConfigError: The engine is "kernel", and kernels do not support the networks.
    """
    reason = _unsupported(agent)
    if spec.engine == "kernel" and reason:
        raise ConfigError(f"engine = 'kernel': {reason}; use engine = 'auto' or 'torch'")
    if spec.engine == "torch" or reason or (spec.engine == "auto" and not _pays(agent, spec)):
        return TorchEngine(agent, optimizer)
    return KernelEngine(agent, optimizer, objective, available_cores(), spec.captured)


def _pays(agent: ActorCriticAgent, spec: LearnerSpec) -> bool:
    """Return whether kernels make a training shorter: by the table of measurements, and the time to compile them.

    The rows of all ranks count, so that the engine, and with it the noise of actions, is that of a single process.
    """
    parameters = sum(each.numel() for each in agent.net.parameters())
    epochs, minibatches = (getattr(agent.config, name, 1) for name in ("num_epochs", "num_minibatches"))
    operations = 6 * parameters * epochs * spec.num_agents * spec.total_steps * spec.num_trainings
    if operations < MIN_TRAINING_OPERATIONS:
        return False
    rows = agent.config.rollout_length * spec.num_envs_total * spec.num_agents / minibatches
    return kernels_are_faster(agent.device.type, spec.obs_width, agent.net.spec["hidden_sizes"], rows)


def _unsupported(agent: ActorCriticAgent) -> str:
    """Return why kernels do not support a learner, or an empty string."""
    if agent.config.central_input is not None:
        return "critic_input: expected 'obs', got 'state'"
    if type(agent.config).estimate is not ActorCriticConfig.estimate:
        return "algorithm: expected advantages by GAE, as those of ppo and a2c, got others"
    return unsupported(agent.net.spec, agent.head)
