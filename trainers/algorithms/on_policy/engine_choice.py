"""Choice of the engine of an actor-critic learner."""

from __future__ import annotations

from collections.abc import Collection

from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_agent import ActorCriticAgent
from trainers.algorithms.on_policy.engine_table import kernels_are_faster
from trainers.algorithms.on_policy.kernel_engine import SETTINGS
from trainers.base.learner_spec import LearnerSpec
from trainers.models.kernel_networks import unsupported
from trainers.models.overrides import changed_network, override_of

__all__ = ["MIN_TRAINING_OPERATIONS", "unprofitable", "unsupported_agent"]

MIN_TRAINING_OPERATIONS = 2e10
"""Fewest floating-point operations of a training that kernels are compiled for; PyTorch takes seconds for them."""


def unsupported_agent(agent: ActorCriticAgent, settings: Collection[str]) -> str:
    """Return why kernels do not support networks, estimates and settings of a learner, or an empty string.

    Args:
        agent: Networks and rollout.
        settings: Names of the settings of the loss.
    """
    if agent.config.central_input is not None:
        return "critic_input: expected 'obs', got 'state'"
    if override_of(agent.config, ActorCriticConfig, ("estimate",)):
        return "algorithm: expected advantages by GAE, as those of ppo and a2c, got others"
    if replaced := override_of(agent, ActorCriticAgent, ("act", "batch")):
        return f"kernels compute {replaced}"
    if unknown := sorted(set(settings) - SETTINGS.keys()):
        return f"kernels read the settings {', '.join(SETTINGS)}, not {unknown[0]}"
    if reason := unsupported(agent):
        return reason
    if not all(parameter.requires_grad for parameter in agent.net.parameters()):
        return "networks: expected that all parameters are trained, got frozen ones"
    return changed_network("critic", agent.net.critic, agent.spec, 1)


def unprofitable(agent: ActorCriticAgent, spec: LearnerSpec) -> str:
    """Return why kernels make a training longer, or an empty string.

    This follows from the time to compile them and from the table of measurements. The rows of all ranks count, so that
    the engine, and with it the noise of actions, is that of a single process.
    """
    parameters = sum(parameter.numel() for parameter in agent.net.parameters())
    epochs, minibatches = (getattr(agent.config, name, 1) for name in ("num_epochs", "num_minibatches"))
    operations = 6 * parameters * epochs * spec.num_agents * spec.total_steps * spec.num_trainings
    if operations < MIN_TRAINING_OPERATIONS:
        return "a short training"
    rows = agent.config.rollout_length * spec.num_envs_total * spec.num_agents / minibatches
    faster = kernels_are_faster(agent.device.type, spec.obs_width, agent.net.spec["hidden_sizes"], rows)
    return "" if faster else f"measured faster on {agent.device.type} for such networks"
