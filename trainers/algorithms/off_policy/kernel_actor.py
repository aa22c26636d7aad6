"""Policies of learners with a replay inside the kernels of environments; PyTorch computes their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.packed_weights import pack_networks
from trainers.algorithms.learner import CentralInput
from trainers.base.learner_spec import LearnerSpec
from trainers.models.kernel_networks import policy_kind, unsupported
from trainers.models.policy import PolicyModules
from warp_kernels.framework.policies import PolicyKind

__all__ = ["MIN_STEPS", "ExploringLearner", "KernelActor", "make_kernel_actor"]

MIN_STEPS = 50_000
"""Fewest steps per world for which "auto" compiles kernels, which takes seconds; each step saves 0.2 ms or more."""
MEASURED_DEVICES = ("cpu",)
"""Types of devices on which rollouts in kernels are known to be faster, see `benchmarks/training/acting.py`."""


class ExploringLearner(PolicyModules, Protocol):
    """Learner whose policy explores."""

    central_input: CentralInput
    """See `Learner.central_input`."""


class KernelActor:
    """Packed weights of a learner's policy, with its exploration."""

    def __init__(self, learner: ExploringLearner, exploration: Sequence[Tensor]) -> None:
        """Allocate the weights.

        Args:
            learner: Learner with the networks.
            exploration: Scalars on the device that the learner changes in place, see `PolicyKind.explores`.
        """
        self.learner: ExploringLearner = learner
        self.exploration: Sequence[Tensor] = exploration
        self.kind: PolicyKind = policy_kind(learner.spec, learner.head, explores=True)
        self.weights: Tensor = torch.zeros(self.kind.mlp.row_size, device=learner.normalizer.mean.device)

    @torch.no_grad()
    def policy(self) -> KernelPolicy:
        """Return the policy for rollouts in kernels, after its present weights are packed in place."""
        parts = [*self.learner.actor.parameters(), *self.exploration]
        parameters = torch.cat([part.float().flatten() for part in parts])
        normalizer = self.learner.normalizer
        pack_networks(self.weights, self.kind.mlp, parameters, normalizer.mean, normalizer.var)
        return KernelPolicy(self.kind, self.weights, self.learner.generator.initial_seed())


def make_kernel_actor(
    learner: ExploringLearner, spec: LearnerSpec, exploration: Sequence[Tensor]
) -> KernelActor | None:
    """Return the policy in kernels, or None if PyTorch acts, see `TrainConfig.engine`.

    Args:
        learner: Learner with the networks.
        spec: Specification of the learner.
        exploration: See `KernelActor`.

    Raises:
        ConfigError: The engine is "kernel", and kernels do not support the learner.
    """
    reason = unsupported(learner.spec, learner.head, explores=True)
    if learner.central_input is not None:
        reason = "critics: expected those of single agents, got those of all agents"
    if spec.engine == "kernel" and reason:
        raise ConfigError(f"engine = 'kernel': {reason}; use engine = 'auto' or 'torch'")
    if spec.engine == "torch" or reason or (spec.engine == "auto" and not _pays(spec)):
        return None
    return KernelActor(learner, exploration)


def _pays(spec: LearnerSpec) -> bool:
    """Return whether kernels make a training shorter, with the time to compile them."""
    measured = torch.device(spec.device).type in MEASURED_DEVICES
    return measured and spec.total_steps * spec.num_trainings / spec.num_envs_total >= MIN_STEPS
