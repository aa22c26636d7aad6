"""Base of the on-policy learners: acting, storing, updates as CUDA graphs, and the state that a checkpoint holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import available_cores
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from trainers.algorithms.learner import CentralInput, replaced_method
from trainers.algorithms.on_policy.actor_critic import ActorCritic, ActorCriticConfig
from trainers.algorithms.on_policy.actor_critic_agent import ActorCriticAgent
from trainers.algorithms.on_policy.engine_choice import unprofitable, unsupported_agent
from trainers.algorithms.on_policy.engines import Engine, TorchEngine
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.base.captured_updates import CapturedUpdates
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.state import State, load_state, save_state
from trainers.base.transition import Transition
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.action_heads import Head
from trainers.models.networks import Network
from trainers.models.policy import Policy, freeze_policy

__all__ = ["ActorCriticLearner"]


class ActorCriticLearner(ABC):
    """Learner with an actor, a critic and a rollout.

    A subclass sets the optimizer, and defines `_schedule` and `_learn`.
    """

    reducer: GradientReducer = LOCAL_REDUCER
    """Sum of gradients and statistics over the processes that train together."""
    optimizer: torch.optim.Optimizer
    """Optimizer of actor and critic."""
    optimizers: dict[str, torch.optim.Optimizer]
    """The optimizer by its name in checkpoints."""
    objective: str = ""
    """Loss of the policy in kernels, see `warp_kernels.networks.losses.policy_head`; "": there is none."""
    kernel_methods: tuple[str, ...] = ()
    """Methods of this class that kernels compute instead, if they have the loss; see `replaced_method`."""
    fixed_shapes: bool
    """Keep invalid rows, masked, in batches, so that an update reads nothing from the device and can be captured."""

    def __init__(self, config: ActorCriticConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        self.learner_spec: LearnerSpec = spec
        self.total_steps: int = spec.total_steps
        self.steps = 0
        self.central_input: CentralInput = config.central_input
        self.agent: ActorCriticAgent
        agent: ActorCriticAgent
        self.agent = agent = ActorCriticAgent(config, spec)
        self.device: torch.device = agent.device
        self.generator: torch.Generator = agent.generator
        self.rollout: RolloutBuffer = agent.rollout
        self.net: ActorCritic
        net: ActorCritic
        self.net = net = agent.net
        self.actor: Network = net.actor
        self.critic: Network = net.critic
        self.head: Head = net.head
        self.fixed_shapes = spec.captured
        self.updates: CapturedUpdates = CapturedUpdates(spec.captured, self, self._read)

    @cached_property
    def reason_for_torch(self) -> str:
        """Why PyTorch computes rollouts and gradients; an empty string if kernels do.

        It is determined at its first use, after the constructors of subclasses.

        Raises:
            ConfigError: The engine is "kernel", and kernels do not support the learner.
        """
        unsupported = "" if self.objective else "algorithm: expected the loss of ppo or a2c, got another"
        unsupported = unsupported or unsupported_agent(self.agent, self._settings) or replaced_method(self)
        spec = self.learner_spec
        return spec.reason_for_torch(unsupported, lambda: unprofitable(self.agent, spec))

    @cached_property
    def engine(self) -> Engine:
        """Computes the gradient steps: kernels or PyTorch, see `reason_for_torch`."""
        if self.reason_for_torch:
            return TorchEngine(self.agent, self.optimizer)
        captured = self.learner_spec.captured
        return KernelEngine(self.agent, self.optimizer, self.objective, available_cores(), captured)

    @property
    def _settings(self) -> dict[str, Any]:
        """Settings of the loss by name, numbers, scalars on the device, or None; kernels read them, too."""
        return {}

    def _check_engine(self) -> None:
        """Let the engine take the steps of the present optimizer.

        Raises:
            ConfigError: The engine is kernels, and a method that they compute was replaced after they were chosen.
        """
        if isinstance(self.engine, KernelEngine) and (reason := replaced_method(self)):
            raise ConfigError(f"engine: {reason}, which came after their choice; set engine = 'torch'")
        self.engine.optimizer = self.optimizer

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

    def update(self) -> dict[str, Tensor]:
        """Learn from the stored rollout.

        The whole update is one CUDA graph if `LearnerSpec.captured` is set. The normalizers are updated after the
        gradient steps, so that the first probability ratios are exactly 1.

        Returns:
            Metrics, scalars on the device; empty if no row is valid.
        """
        self._check_engine()
        schedules = self._schedule(self.steps / self.total_steps)
        metrics = self.updates.captured("update", self._learn)()
        if metrics:
            metrics |= {name: torch.full((), value, device=self.device) for name, value in schedules.items()}
        self.steps += self.agent.next_rollout()
        return metrics

    def skip_update(self) -> None:
        """Discard the stored rollout without learning from it; its steps count."""
        if self.agent.recurrent_state is not None:
            self.agent.batch(self.reducer, self.uses_fixed_shapes)  # computes the critic's hidden states after it
        self.steps += self.agent.next_rollout()

    @property
    def uses_fixed_shapes(self) -> bool:
        """Whether batches keep invalid rows: `fixed_shapes`, unless the gradient steps cannot be captured."""
        return self.fixed_shapes and self.reducer.can_capture

    @abstractmethod
    def _schedule(self, progress: float) -> dict[str, float]:
        """Set what changes over the training, at a fraction of `total_steps`, and return it by name."""

    @abstractmethod
    def _learn(self) -> dict[str, Tensor]:
        """Take the gradient steps and update the normalizers; return metrics, scalars on the device."""

    def _read(self) -> Iterator[Tensor]:
        """Iterate over the tensors that `_learn` uses and does not train."""
        recurrent = self.agent.recurrent_state
        for owner in (self, self.rollout, *(() if recurrent is None else (recurrent,))):
            yield from (value for value in vars(owner).values() if isinstance(value, Tensor))

    def policy(self) -> Policy:
        """Return a frozen copy of the actor with its normalizer."""
        return freeze_policy(self.agent)

    def state_dict(self) -> State:
        """Return networks, optimizer, normalizers, counter, generator and hidden states, between rollouts."""
        return {**save_state(self.net, self.optimizers, self.generator, steps=self.steps), **self.agent.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError at the first mismatch."""
        self.steps: int = load_state(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.agent.load_state_dict(state)
        if isinstance(self.engine, KernelEngine):
            self.engine.invalidate()

    def kernel_policy(self) -> KernelPolicy | None:
        """Return the policy for rollouts in kernels with the present weights; None if the engine is PyTorch."""
        if not isinstance(self.engine, KernelEngine):
            return None
        self._check_engine()
        self.engine.pack()
        return self.engine.policy(self.generator.initial_seed())
