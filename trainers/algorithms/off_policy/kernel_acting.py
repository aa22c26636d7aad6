"""Policies of learners with a replay inside the kernels of environments; PyTorch computes their gradients."""

from __future__ import annotations

from functools import cached_property

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from trainers.algorithms.learner import replaced_method
from trainers.algorithms.off_policy.replay_learner import ReplayLearner
from trainers.base.learner_spec import LearnerSpec
from trainers.models.kernel_networks import PackedPolicy, unsupported

MIN_STEPS = 50_000
"""Fewest steps per world for which "auto" compiles kernels, which takes seconds; each step saves 0.2 ms or more."""


class KernelActing(ReplayLearner):
    """Learner whose policy can act in kernels, with its exploration."""

    kernel_methods: tuple[str, ...] = ("act", "observe")
    """Methods of this class that kernels compute instead, see `replaced_method`."""
    exploration: tuple[str, ...]
    """Attributes with scalars on the device that the learner changes in place, see `PolicyKind.explores`."""

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
        return spec.reason_for_torch("rollouts", reason or replaced_method(self), lambda: _unprofitable(spec))

    @cached_property
    def _packed_policy(self) -> PackedPolicy:
        return PackedPolicy(self, explores=True)

    def kernel_policy(self) -> KernelPolicy | None:
        """Return the exploring policy for rollouts in kernels, with the present weights packed in place.

        It is None if PyTorch acts.

        Raises:
            ConfigError: A method that kernels compute was replaced after they were chosen.
        """
        if self.reason_for_torch:
            return None
        if reason := replaced_method(self):
            raise ConfigError(f"engine: {reason}, which came after their choice; set engine = 'torch'")
        exploration = [getattr(self, name) for name in self.exploration]
        return self._packed_policy.pack(self, self.generator.initial_seed(), exploration)


def _unprofitable(spec: LearnerSpec) -> str:
    """Return why kernels make a training longer, with the time to compile them; an empty string if they do not."""
    return "" if spec.total_steps * spec.num_trainings / spec.num_envs_total >= MIN_STEPS else "a short training"
