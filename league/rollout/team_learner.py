"""Learners of a role whose seats have several parts: agents that differ in action space."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_envs.errors import ConfigError
from league.policies.random import RandomPolicy
from league.policies.team import TeamPolicy, join_states, part_state
from trainers.algorithms.learner import Learner
from trainers.base.state import State
from trainers.runner.initial_weights import Start, begin_from

__all__ = ["RoleStart", "TeamLearner", "begin_role_from"]

RoleStart = Start | TeamPolicy
"""Source of the initial weights of a role's learners."""


class TeamLearner:
    """The learners of a role, one per part of its seats, as one learner whose policy is a team."""

    def __init__(self, names: Sequence[str], learners: Sequence[Learner], places: Sequence[Sequence[int]]) -> None:
        """Use learners of the parts.

        Args:
            names: Name of each learner.
            learners: Learner of each part.
            places: Positions of the agents of each part among the seat's agents.
        """
        self.names: tuple[str, ...] = tuple(names)
        self.learners: list[Learner] = list(learners)
        self.places: list[list[int]] = [list(positions) for positions in places]

    def policy(self) -> TeamPolicy:
        """Return a frozen copy of the present policies of all parts."""
        return TeamPolicy([learner.policy() for learner in self.learners], self.places)

    def state_dict(self) -> State:
        """Return the states of all learners."""
        return join_states([learner.state_dict() for learner in self.learners])

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`; raise CheckpointError if it does not fit."""
        for number, learner in enumerate(self.learners):
            learner.load_state_dict(part_state(state, number))


def begin_role_from(learner: Learner | TeamLearner, start: RoleStart, role: str) -> None:
    """Copy weights to the learner of a role, see `trainers.runner.initial_weights.begin_from`.

    Raises:
        ConfigError: The weights do not fit.
    """
    if not isinstance(learner, TeamLearner):
        if isinstance(start, TeamPolicy):
            raise ConfigError(f"start: {role}: expected one network, got a team of {len(start.members)}")
        begin_from(learner, start, role)
        return
    for number, (name, part) in enumerate(zip(learner.names, learner.learners, strict=True)):
        source: Start | RandomPolicy = start.members[number] if isinstance(start, TeamPolicy) else start
        if isinstance(source, RandomPolicy):
            raise ConfigError(f"start: {name}: expected a network, got a random policy")
        begin_from(part, part_state(source, number) if isinstance(source, dict) else source, name)
