"""Interface of learning algorithms."""

from __future__ import annotations

from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from trainers.base.captured_updates import CapturedUpdates
from trainers.base.gradients import GradientReducer
from trainers.base.state import State
from trainers.base.transition import Transition
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.overrides import override_of
from trainers.models.policy import Policy

STORES = ("begin_step", "store_action", "end_step")
"""Methods of a rollout with which `act` and `observe` fill it; kernels fill it as a whole."""

CentralInput = Literal["state", "joint"] | None  # see Learner.central_input


class Learner(Protocol):
    """Algorithm that learns one policy, shared by n agents in E worlds, from rollouts of fixed length.

    The trainer calls `act` and `observe` alternately, once per step of a rollout, and then `update`. Neither `act` nor
    `observe` may read from the device.

    If a learner has a method `kernel_policy()` that returns a `KernelPolicy` with its present weights, and all others
    in the environments have one too, rollouts are played in kernels and stored by `RolloutBuffer.load_trace` instead.
    Its class then names in `kernel_methods` the methods that kernels compute instead, see `replaced_method`.
    """

    central_input: CentralInput
    """Global input of the critic: "state", the global state; "joint", all agents' padded observations, (E, A * D) flat,
    and their actions; None. An attribute of the class or, if settings decide, of the instance."""
    net: nn.Module
    """All trained modules and normalizers, whose values must stay finite."""
    optimizers: dict[str, torch.optim.Optimizer]
    """Optimizers by name."""
    generator: torch.Generator
    """Generator of all randomness except the initial weights."""
    rollout: RolloutBuffer
    """Storage filled by `act` and `observe`."""
    updates: CapturedUpdates
    """Parts of `update` that are captured as CUDA graphs, if any."""
    reducer: GradientReducer
    """Reducer for all gradient steps: `LOCAL_REDUCER`, or the one that the trainer sets for several ranks."""

    def act(
        self,
        obs: Tensor,
        mask: Tensor | None = None,
        to_move: Tensor | None = None,
        state: Tensor | None = None,
    ) -> Tensor:
        """Return actions for the environment.

        Args:
            obs: (E, n, D) observations.
            mask: (E, n, choices) bool, True = legal; None: all actions are legal.
            to_move: (E, n) bool, agents to act; None: all agents act at every step.
            state: (E, S) global state, if the learner uses it.

        Returns:
            (E, n) or (E, n, K).
        """
        ...

    def observe(self, transition: Transition) -> None:
        """Store the results of the actions returned by the last `act`."""
        ...

    def update(self) -> dict[str, Tensor]:
        """Learn from the rollout and clear it; return metrics, scalars on the device."""
        ...

    def policy(self) -> Policy:
        """Return a frozen copy of the present policy."""
        ...

    def state_dict(self) -> State:
        """Return the state needed to resume, between two rollouts."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Restore the result of `state_dict`; raise CheckpointError if it does not fit."""
        ...


@runtime_checkable
class SkipsUpdates(Protocol):
    """Learner that can discard a rollout, which `--learn-after` needs."""

    def skip_update(self) -> None:
        """Discard the stored rollout without learning from it; its steps count."""
        ...


@runtime_checkable
class UpdatesInSequence(Protocol):
    """Learner that takes account of updates of other policies. The policies are updated in a random order."""

    factor: Tensor
    """(T, E) product of the ratios of the policies of its team that were updated before, set before `update`."""
    ratio: Tensor
    """(T, E) ratio of the probabilities of the policy's actions after the last update to those at sampling, multiplied
    over its agents; 1 where none decided."""


ACTING = ("act", "observe")
"""Methods of a learner that rollouts in kernels compute instead."""


def replaced_method(learner: Any, names: tuple[str, ...] | None = None) -> str:
    """Return a method of a learner that kernels do not compute, or an empty string.

    The class that defines `kernel_methods` has the methods that they compute. A subclass, a class mixed into it, or the
    learner itself may replace them, and those of its rollout.

    Args:
        learner: The learner.
        names: Methods that kernels compute; None: all `kernel_methods`.
    """
    base = next(cls for cls in type(learner).__mro__ if "kernel_methods" in vars(cls))
    replaced = override_of(learner, base, base.kernel_methods if names is None else names)
    replaced = replaced or override_of(learner.rollout, RolloutBuffer, STORES)
    return replaced and f"kernels compute {replaced}"
