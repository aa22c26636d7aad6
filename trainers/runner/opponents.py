"""Opponents of the learners: policies that control the other agents of their environments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import MatchupDraw
from gpu_envs.runtime.rollout.trace import RolloutTrace
from trainers.base.state import State


class Opponents(Protocol):
    """Policies that act in the environments of the learners, assigned for whole episodes; see `Collector`.

    Inside a rollout no method may read from a GPU, unless `prepare` returned True, and tensors must stay in place,
    because the rollout may be captured as a CUDA graph.
    """

    learns: Tensor
    """Agents whose steps in the current episode are learned from, (E, A) bool; updated in place."""
    drawn: Tensor
    """(E,) int64, matchup of every environment."""
    draw: MatchupDraw
    """Distribution from which environments draw the matchup of their next episode in kernels."""
    version: int
    """Number that changes when tensors were replaced between rollouts, so that a captured rollout is invalid."""
    kernel_version: int
    """Number that changes when another result of `kernel_table` is due."""

    @property
    def learners(self) -> Collection[str]:
        """Policies that have a learner; the opponents alone control all others."""
        ...

    def prepare(self) -> bool:
        """Prepare a rollout in steps; return whether it needs host synchronization, which rules out CUDA graphs."""
        ...

    @property
    def generators(self) -> Sequence[torch.Generator]:
        """All random generators of the opponents."""
        ...

    def kernel_table(self, learners: Sequence[str]) -> tuple[list[KernelPolicy], Tensor] | None:
        """Return the opponents for rollouts in kernels, or None if kernels do not support all of them.

        Args:
            learners: Names of the policies with a learner, in the order of their numbers.

        Returns:
            The policies of the opponents; and (R, A) int64, policy of every agent by matchup: the number of a learner;
            or the number of learners plus the index of an opponent; or -1 for random legal actions.
        """
        ...

    def store(self, trace: RolloutTrace, matchup: Tensor) -> Tensor:
        """Count the episodes of a rollout in kernels.

        Args:
            trace: The rollout.
            matchup: (E,), matchup of every environment after the rollout.

        Returns:
            (T, E, A) bool, agents whose steps are learned from.
        """
        ...

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Write the opponents' actions to the actions of all agents, (E, A[, K]), over the learners' actions."""
        ...

    def observe(self, core: Core, info: Mapping[str, Tensor], restarted: Tensor) -> None:
        """Assign opponents to new episodes after a step; `restarted` (E,) bool marks environments that were reset."""
        ...

    def state_dict(self) -> State:
        """Return the state between two rollouts."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned.

        Raises:
            CheckpointError: The state does not fit.
        """
        ...
