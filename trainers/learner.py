"""The four verbs that every learning algorithm offers."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from trainers.policy import Policy
from trainers.rollout import Transition

State = dict[str, Tensor | int | float | str]
"""What a learner saves, flat: tensors go to safetensors, the rest to JSON."""


def part_of(state: State, prefix: str) -> dict[str, Any]:
    """What stands in a state below a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


class Learner(Protocol):
    """Learns one policy, shared by n agents in E worlds, from rollouts of fixed length.

    The trainer calls `act` and `observe` in turn, a rollout's length of times, and then `update`. None of the first
    two may read from the device.
    """

    def act(self, obs: Tensor, mask: Tensor | None = None, to_move: Tensor | None = None) -> Tensor:
        """Actions for the environment.

        Args:
            obs: (E, n, D).
            mask: (E, n, choices) bool, True = legal; None: all are.
            to_move: (E, n) bool, whose turn it is; None: all agents move at every step.

        Returns:
            (E, n) or (E, n, K).
        """
        ...

    def observe(self, transition: Transition) -> None:
        """Stores what came of the actions that the last `act` gave."""
        ...

    def update(self) -> dict[str, Tensor]:
        """Learns from the rollout and forgets it; returns metrics, one-element tensors on the device."""
        ...

    def policy(self) -> Policy:
        """A frozen copy of what has been learned so far."""
        ...

    def state_dict(self) -> State:
        """All that a continuation needs, between two rollouts."""
        ...

    def load_state_dict(self, state: State) -> None:
        """Continues from `state_dict`; raises CheckpointError where it does not fit."""
        ...
