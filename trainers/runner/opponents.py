"""Others in a learner's worlds: who plays the agents that no learner plays, and whose steps are learned from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpu_envs.core import Core
from trainers.learner import State


class Opposition(Protocol):
    """Seats others beside the learners, for whole episodes; a `Collector` asks it between two steps.

    None of its calls within a rollout may read from a GPU, unless it `waits`, and its tensors stay where they are: a
    rollout may be recorded as a CUDA graph.
    """

    learns: Tensor
    """(E, A) bool, live: agents whose steps in the present episode are learned from."""
    version: int
    """Changes when its tensors have moved, between two rollouts: a recorded rollout is to be recorded again."""

    @property
    def learners(self) -> Collection[str]:
        """The policies that have a learner; others are played by the opposition alone."""
        ...

    @property
    def waits(self) -> bool:
        """It has to wait for the device within a rollout, which is then not recorded but played step by step."""
        ...

    @property
    def generators(self) -> Sequence[torch.Generator]:
        """All its randomness."""
        ...

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Writes its players' actions over those of the learners, into those of all agents (E, A[, K])."""
        ...

    def observe(self, core: Core, info: Mapping[str, Tensor], restarted: Tensor) -> None:
        """Seats others where an episode begins: `restarted` (E,) bool, after the step whose result `info` tells."""
        ...

    def state_dict(self) -> State:
        """All that a continuation needs, between two rollouts."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError where it does not fit."""
        ...
