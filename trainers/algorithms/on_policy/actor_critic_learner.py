"""Base of the on-policy learners: acting, storing, updates as CUDA graphs, and the state that a checkpoint holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.kernels import available_cores
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from trainers.algorithms.learner import ACTING, CentralInput, replaced_method
from trainers.algorithms.on_policy.actor_critic import ActorCritic, ActorCriticConfig
from trainers.algorithms.on_policy.advantages import (
    ReferencePolicy,
    forward_batch,
    minibatch,
    row_batch,
    sequence_batch,
)
from trainers.algorithms.on_policy.kernel_engine import KernelEngine, unprofitable, unprofitable_rollouts
from trainers.algorithms.on_policy.objective import Minibatch, Objective
from trainers.algorithms.on_policy.torch_engine import Divisor, TorchEngine
from trainers.base.captured_updates import CapturedUpdates
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer, Schedule, find_schedule
from trainers.base.learner_spec import LearnerSpec
from trainers.base.random_streams import SingleStream, stream_of_shard
from trainers.base.state import State, load_state, save_state
from trainers.base.transition import Transition
from trainers.base.weak_methods import weak_method
from trainers.buffers.recurrent_state import RecurrentState
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.action_heads import Head, kl_divergence
from trainers.models.kernel_networks import PackedPolicy, unsupported
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from trainers.models.overrides import changed_network, override_of
from trainers.models.policy import Policy, freeze_policy


class ActorCriticLearner(ABC):
    """Learner with an actor, a critic and a rollout.

    A subclass sets the objective and the optimizer, and defines `_schedule` and `_learn`.
    """

    reducer: GradientReducer = LOCAL_REDUCER
    """Sum of gradients and statistics over the processes that train together."""
    optimizer: torch.optim.Optimizer
    """Optimizer of actor and critic."""
    optimizers: dict[str, torch.optim.Optimizer]
    """The optimizer by its name in checkpoints."""
    objective: Objective
    """The loss."""
    net_type: type[ActorCritic] = ActorCritic
    """Class of the networks."""
    kernel_methods: tuple[str, ...] = ()
    """Methods of this class that kernels compute instead, if they have the loss; see `replaced_method`."""
    fixed_shapes: bool
    """Keep invalid rows, masked, in batches, so that an update reads nothing from the device and can be captured."""

    def __init__(self, config: ActorCriticConfig, spec: LearnerSpec) -> None:
        """Build networks and buffers."""
        self.config: Any = config
        self.learner_spec: LearnerSpec = spec
        self.total_steps: int = spec.total_steps
        self.num_envs_total: int = spec.num_envs_total
        self.steps = 0
        self.scheduled: Schedule = find_schedule("learner.schedule", config.schedule)
        self.central_input: CentralInput = config.central_input
        self.device: torch.device = torch.device(spec.device)
        self.generator: torch.Generator = torch.Generator(self.device).manual_seed(spec.seed)
        self.stream: SingleStream = stream_of_shard(self.generator, spec.shard)
        self.net: ActorCritic = self.net_type(config, spec, config.action(spec.action_space))
        net = self.net
        self.spec: dict[str, Any] = net.spec
        self.normalizer: ObservationNormalizer = net.normalizer
        self.actor: Network = net.actor
        self.critic: Network = net.critic
        self.head: Head = net.head
        self.rollout: RolloutBuffer = RolloutBuffer.for_learner(
            spec, net.head, config.rollout_length, config.truncation_capacity
        )
        self.valued: ReferencePolicy | None = None  # policy that V-trace values
        self.references: dict[str, ReferencePolicy] = {}  # policies that the loss compares with the present one
        self.recurrent_state: RecurrentState | None = None
        if net.actor.hidden_width or net.critic.hidden_width:
            shape = self.rollout.valid.shape[1:]
            self.recurrent_state = RecurrentState(shape, net.actor, net.critic, self.device)
            if spec.turn_based:
                self.rollout.track_turns()
        self.fixed_shapes = spec.captured
        self.updates: CapturedUpdates = CapturedUpdates(spec.captured, self, weak_method(self._read))

    @cached_property
    def reason_for_torch(self) -> str:
        """Why PyTorch computes gradients; an empty string if kernels compute them, and act.

        It is determined at its first use, after the constructors of subclasses.

        Raises:
            ConfigError: The engine is "kernel", and kernels do not support the learner.
        """
        spec = self.learner_spec
        return spec.reason_for_torch(
            "gradients", self._unsupported(), lambda: unprofitable(self.net, self.config, spec)
        )

    @cached_property
    def reason_to_act_in_torch(self) -> str:
        """Why PyTorch acts; an empty string if kernels do. It is determined as `reason_for_torch` is."""
        spec = self.learner_spec
        if not self.reason_for_torch:
            return ""
        return spec.reason_for_torch(
            "rollouts", self._unsupported_acting(), lambda: unprofitable_rollouts(self.net, self.config, spec)
        )

    def _unsupported(self) -> str:
        """Return why kernels do not support loss, networks, estimates and settings, or an empty string."""
        if reason := self.objective.reason_for_torch:
            return reason
        if override_of(self.config, ActorCriticConfig, ("estimate",)):
            return "algorithm: expected advantages by GAE, as those of ppo and a2c, got others"
        if reason := self._unsupported_acting():
            return reason
        if not all(parameter.requires_grad for parameter in self.net.parameters()):
            return "networks: expected that all parameters are trained, got frozen ones"
        return changed_network("critic", self.net.critic, self.spec, 1) or replaced_method(self)

    def _unsupported_acting(self) -> str:
        """Return why kernels do not act as this learner does, or store what its update reads; or an empty string."""
        if self.central_input is not None:
            return "critic_input: expected 'obs', got 'state'"
        return unsupported(self) or replaced_method(self, ACTING)

    @cached_property
    def engine(self) -> TorchEngine | KernelEngine:
        """Computes the gradient steps: kernels or PyTorch, see `reason_for_torch`."""
        if self.reason_for_torch:
            return TorchEngine(weak_method(self.batch), self.optimizer, self.config.max_grad_norm)
        captured = self.learner_spec.captured
        return KernelEngine(
            self.config, self.net, self.rollout, self.optimizer, self.objective, available_cores(), captured
        )

    @property
    def loss_settings(self) -> dict[str, Any]:
        """Settings of the loss by name: attributes of the learner, such as scalars on the device, or settings.

        Raises:
            ConfigError: The configuration has no such setting.
        """
        values, names = vars(self.config) | vars(self), self.objective.settings
        if missing := [name for name in names if name not in values]:
            source = f"{type(self.objective).__name__}.settings"
            raise ConfigError(f"{source}: expected settings of {type(self.config).__name__}, got {missing[0]!r}")
        return {name: values[name] for name in names}

    def _loss(
        self, batch: dict[str, Tensor], rows: Tensor | None, divisor: Divisor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a minibatch and metrics, see `torch_engine.Loss`."""
        part = minibatch(batch, rows, self.net.critic_input)
        params, value = self._outputs(part)
        log_prob, entropy = self.head.evaluate(params, part["action"], part.get("mask"))
        inputs = Minibatch(
            log_prob,
            entropy,
            params,
            value,
            old_log_prob=part["log_prob"],
            old_value=part["value"],
            advantage=part["advantage"],
            returns=part["returns"],
            settings=self.loss_settings,
            kl={name: self._kl(params, part, reference) for name, reference in self.references.items()},
            valid=part.get("valid"),
            divisor=divisor,
        )
        loss, metrics = self.objective.loss(inputs)
        return loss, {name: metric.detach() for name, metric in metrics.items()}

    def _outputs(self, part: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the parameters (B, P) of the distributions over actions and the values (B,) of a minibatch."""
        params = forward_batch(self.actor, part["obs"], part, "actor")
        return params, forward_batch(self.critic, part["seen"], part, "critic").squeeze(-1)

    def _kl(self, params: Tensor, part: dict[str, Tensor], reference: ReferencePolicy) -> Tensor:
        """Return the divergences KL(present || reference) (B,) in the rows of a minibatch [nats]."""
        with torch.no_grad():
            other = forward_batch(reference.actor, part["obs"], part, "actor")
        return kl_divergence(self.head, params, reference.head, other, part.get("mask"))

    def _check_engine(self) -> None:
        """Let the engine take the steps of the present optimizer.

        Raises:
            ConfigError: The engine is kernels, and a method that they compute was replaced after they were chosen.
        """
        reason = ""
        if isinstance(self.engine, KernelEngine):
            is_first = self.objective is self.engine.objective
            reason = replaced_method(self) if is_first else "kernels compute another objective"
        elif not self.reason_to_act_in_torch:
            reason = replaced_method(self, ACTING)
        if reason:
            raise ConfigError(f"engine: {reason}, which came after their choice; set engine = 'torch'")
        self.engine.optimizer = self.optimizer

    @torch.no_grad()
    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Sample actions (E, n) or (E, n, K); arguments as in `Learner.act`."""
        obs, mask = self.rollout.begin_step(obs, mask, to_move, state)
        inputs = self.normalizer(obs)
        recurrent = self.recurrent_state
        params = (
            self.actor(inputs, mask) if recurrent is None else recurrent.step(self.actor, inputs, mask, self.rollout)
        )
        action, log_prob = self.head.sample(params, self.stream, mask)
        self.rollout.store_action(action, log_prob)
        return self.head.to_env(action)

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
        self._next_rollout()
        return metrics

    def skip_update(self) -> None:
        """Discard the stored rollout without learning from it; its steps count."""
        if self.recurrent_state is not None:
            self.batch(self.reducer, self.uses_fixed_shapes)  # computes the critic's hidden states after it
        self._next_rollout()

    def _next_rollout(self) -> None:
        """Clear the rollout, and count its steps of all ranks."""
        self.steps += self.rollout.length * self.num_envs_total
        self.rollout.clear()
        if self.recurrent_state is not None:
            self.recurrent_state.next_rollout()

    def batch(self, reducer: GradientReducer = LOCAL_REDUCER, fixed_shapes: bool = False) -> dict[str, Tensor]:
        """Return the rollout's decisions with values and advantages, see `row_batch` and `sequence_batch`.

        The host synchronizes with the device unless `fixed_shapes` is set.
        """
        if self.recurrent_state is None:
            return row_batch(self.rollout, self.net, self.config, reducer, fixed_shapes, self.valued)
        recurrent = self.recurrent_state
        return sequence_batch(self.rollout, self.net, recurrent, self.config, reducer, fixed_shapes, self.valued)

    def _update_normalizers(self, batch: dict[str, Tensor]) -> None:
        """Update the statistics of observations (N, D) and states (N, S), after the gradient steps."""
        net, rollout = self.net, self.rollout
        if not self.config.normalize_obs:
            return
        net.normalizer.update(batch["raw_obs"], batch.get("valid"), self.reducer.sum)
        if net.critic_input is not None and rollout.state is not None:
            net.critic_input.normalizer.update(rollout.state[:-1], rollout.valid.any(-1), self.reducer.sum)

    def export_rollout(self) -> dict[str, Tensor]:
        """Return a copy of the complete rollout by name, and begin the next one.

        The buffers come from `RolloutBuffer.copies`, the first hidden states (E, n, H) of a GRU come with them.
        """
        tensors = self.rollout.copies()
        if self.recurrent_state is not None:
            self.batch()  # computes the critic's hidden states after the rollout
            tensors |= {f"hidden_{name}": start.clone() for name, start in self.recurrent_state.starts().items()}
        self._next_rollout()
        return tensors

    def load_rollout(self, tensors: Mapping[str, Tensor]) -> None:
        """Take a rollout that `export_rollout` of a learner with equal shapes returned, from any device."""
        starts = {} if self.recurrent_state is None else self.recurrent_state.starts()
        for name, start in starts.items():
            start.copy_(tensors[f"hidden_{name}"])
        self.rollout.load_copies({name: tensor for name, tensor in tensors.items() if not name.startswith("hidden_")})

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
        recurrent = self.recurrent_state
        for owner in (self, self.rollout, *(() if recurrent is None else (recurrent,))):
            yield from (value for value in vars(owner).values() if isinstance(value, Tensor))

    def policy(self) -> Policy:
        """Return a frozen copy of the actor with its normalizer."""
        return freeze_policy(self)

    def state_dict(self) -> State:
        """Return networks, optimizer, normalizers, counter, generator and hidden states, between rollouts."""
        recurrent = {} if self.recurrent_state is None else self.recurrent_state.state_dict(self.rollout)
        return {**save_state(self.net, self.optimizers, self.generator, steps=self.steps), **recurrent}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError at the first mismatch."""
        self.steps: int = load_state(state, self.net, self.optimizers, self.generator, "steps")["steps"]
        self.rollout.clear()
        if self.recurrent_state is not None:
            self.recurrent_state.load_state_dict(state, self.rollout)
        if isinstance(self.engine, KernelEngine):
            self.engine.invalidate()

    def kernel_policy(self) -> KernelPolicy | None:
        """Return the policy for rollouts in kernels with the present weights; None if PyTorch acts."""
        if self.reason_to_act_in_torch:
            return None
        self._check_engine()
        if isinstance(self.engine, KernelEngine):
            self.engine.pack()
            return self.engine.policy(self.generator.initial_seed())
        return self._packed_policy.pack(self, self.generator.initial_seed())

    @cached_property
    def _packed_policy(self) -> PackedPolicy:
        return PackedPolicy(self)
