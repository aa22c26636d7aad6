"""Policies of learners with a replay inside the kernels of environments; PyTorch computes their gradients."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.packed_weights import pack_networks
from trainers.algorithms.learner import CentralInput, replaced_method
from trainers.base.learner_spec import LearnerSpec
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.kernel_networks import policy_kind, unsupported
from trainers.models.networks import Network
from trainers.models.normalization import ObservationNormalizer
from warp_kernels.framework.policies import PolicyKind

__all__ = ["MIN_STEPS", "KernelActing", "KernelActor"]

MIN_STEPS = 50_000
"""Fewest steps per world for which "auto" compiles kernels, which takes seconds; each step saves 0.2 ms or more."""
MEASURED_DEVICES = ("cpu",)
"""Types of devices on which rollouts in kernels are known to be faster, see `benchmarks/training/acting.py`."""


class KernelActor:
    """Packed weights of a learner's policy, with its exploration."""

    def __init__(self, learner: KernelActing) -> None:
        """Allocate the weights."""
        self.learner: KernelActing = learner
        self.kind: PolicyKind = policy_kind(learner.spec, learner.head, explores=True)
        self.weights: Tensor = torch.zeros(self.kind.mlp.row_size, device=learner.normalizer.mean.device)

    @torch.no_grad()
    def policy(self) -> KernelPolicy:
        """Return the policy for rollouts in kernels, after its present weights are packed in place."""
        learner = self.learner
        parts = [*learner.actor.parameters(), *(getattr(learner, name) for name in learner.exploration)]
        parameters = torch.cat([part.float().flatten() for part in parts])
        normalizer = learner.normalizer
        pack_networks(self.weights, self.kind.mlp, parameters, normalizer.mean, normalizer.var)
        return KernelPolicy(self.kind, self.weights, learner.generator.initial_seed())


class KernelActing:
    """Part of learners whose policy can act in kernels, with its exploration."""

    kernel_methods: tuple[str, ...] = ("act", "observe")
    """Methods of this class that kernels compute instead, see `replaced_method`."""
    exploration: tuple[str, ...]
    """Attributes with scalars on the device that the learner changes in place, see `PolicyKind.explores`."""
    central_input: CentralInput
    """See `Learner.central_input`."""
    learner_spec: LearnerSpec
    """Specification of the learner."""
    spec: dict[str, Any]
    """Network and action specification of the policy."""
    normalizer: ObservationNormalizer
    """Normalizer of observations."""
    actor: Network
    """Network of the policy."""
    head: Any
    """Action head of the network's outputs."""
    generator: torch.Generator
    """Generator of samples."""
    rollout: RolloutBuffer
    """Rollout that `act` and `observe` fill."""

    @cached_property
    def reason_for_torch(self) -> str:
        """Why PyTorch computes rollouts; an empty string if kernels do.

        It is determined at its first use, after the constructors of subclasses.

        Raises:
            ConfigError: The engine is "kernel", and kernels do not support the learner.
        """
        reason = unsupported(self, explores=True)
        if self.central_input is not None:
            reason = "critics: expected those of single agents, got those of all agents"
        spec = self.learner_spec
        return spec.reason_for_torch(reason or replaced_method(self), lambda: _unprofitable(spec))

    @cached_property
    def kernel_actor(self) -> KernelActor | None:
        """Policy in kernels; None if PyTorch acts."""
        return None if self.reason_for_torch else KernelActor(self)

    def kernel_policy(self) -> KernelPolicy | None:
        """Return the exploring policy for rollouts in kernels with the present weights; None if PyTorch acts.

        Raises:
            ConfigError: A method that kernels compute was replaced after they were chosen.
        """
        if self.kernel_actor is None:
            return None
        if reason := replaced_method(self):
            raise ConfigError(f"engine: {reason}, which came after their choice; set engine = 'torch'")
        return self.kernel_actor.policy()


def _unprofitable(spec: LearnerSpec) -> str:
    """Return why kernels make a training longer, with the time to compile them; an empty string if they do not."""
    device = torch.device(spec.device).type
    if device not in MEASURED_DEVICES:
        return f"kernels are not measured on {device}"
    return "" if spec.total_steps * spec.num_trainings / spec.num_envs_total >= MIN_STEPS else "a short training"
