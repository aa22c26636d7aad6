"""Base of the on-policy learners: acting, storing, and the state that a checkpoint holds."""

from __future__ import annotations

import torch
from torch import Tensor

from trainers.algorithms.learner import CentralInput
from trainers.algorithms.on_policy.actor_critic import ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_agent import ActorCriticAgent
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.state import State, load_state, save_state
from trainers.base.transition import Transition
from trainers.models.policy import Policy, freeze_policy

__all__ = ["ActorCriticLearner"]


class ActorCriticLearner:
    """Learner with an actor, a critic and a rollout. A subclass sets the optimizer and defines `update`."""

    reducer: GradientReducer = LOCAL_REDUCER
    """Sum of gradients and statistics over the processes that train together."""
    optimizer: torch.optim.Optimizer
    """Optimizer of actor and critic."""
    optimizers: dict[str, torch.optim.Optimizer]
    """The optimizer by its name in checkpoints."""

    def __init__(self, config: ActorCriticConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        self.total_steps, self.steps = spec.total_steps, 0
        self.central_input: CentralInput = config.central_input
        self.agent = agent = ActorCriticAgent(config, spec)
        self.device, self.generator, self.rollout = agent.device, agent.generator, agent.rollout
        self.net = net = agent.net
        self.actor, self.critic, self.head = net.actor, net.critic, net.head

    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Sample actions (E, n) or (E, n, K); arguments as in `Learner.act`."""
        return self.agent.act(obs, mask, to_move, state)

    def observe(self, transition: Transition) -> None:
        """Store the results of the last actions."""
        self.rollout.end_step(transition)

    def policy(self) -> Policy:
        """Return a frozen copy of the actor with its normalizer."""
        return freeze_policy(self.agent)

    def state_dict(self) -> State:
        """Return networks, optimizer, normalizers, counter, generator and hidden states, between rollouts."""
        return {**save_state(self.net, self.optimizers, self.generator, steps=self.steps), **self.agent.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError at the first mismatch."""
        self.steps = load_state(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.agent.load_state_dict(state)
