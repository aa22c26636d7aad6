"""Where PSRO's best responses come from: a learner, or the tree of a small game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from league.response import respond
from league.run import training
from league.seating import Draw
from league.targets import Target
from trainers.logs import Progress
from trainers.policy import Policy

if TYPE_CHECKING:
    from league.psro import PSRO


@dataclass(frozen=True)
class Task:
    """One best response that an iteration needs."""

    iteration: int
    role: str
    place: int
    """Among those of the role in this iteration."""
    target: Target

    @property
    def name(self) -> str:
        """Of its step in the store."""
        return f"{self.iteration}/respond/{self.role}/{self.place}"


class Oracle(Protocol):
    """Makes best responses."""

    def respond(self, task: Task, seed: int) -> None:
        """Adds one to its population, in one step of the store."""
        ...


class LearnedOracle:
    """Any algorithm of `trainers`, against opponents that are drawn anew for every episode."""

    def __init__(self, psro: PSRO) -> None:
        """ConfigError where the settings of learners do not fit."""
        self.psro = psro
        self.train = training(psro.game, psro.config.device, psro.config.train)

    def respond(self, task: Task, seed: int) -> None:
        """Trains for `train.total_steps` steps."""
        psro, target, role = self.psro, task.target, task.role
        population = psro.populations[role]
        parent = target.parent
        if parent is None:  # what an earlier place of this iteration has made is not the last
            before = [entry.index for entry in population.entries if entry.iteration < task.iteration]
            parent = before[-1]
        start = population[parent] if psro.config.start == "latest" else None
        if not isinstance(start, Policy):
            start = parent = None
        draw = Draw.against(psro.game, role, target.marginals if target.joint is None else None, joint=target.joint)
        response = respond(psro.game, role, draw, psro.populations, self.train, start, seed, progress=self._tell(task))
        with psro.store.step(task.name) as result:
            psro.store.add_policy(role, response.policy, parent=parent, iteration=task.iteration)
            psro.store.add_matches(task.iteration, role, response.tally.matchups, response.tally.count)
            result |= {"steps": response.steps, "seconds": response.seconds, "episodes": response.episodes}
            result["return"] = response.tally.mean_return()

    def _tell(self, task: Task) -> Progress | None:
        progress = self.psro.progress
        if progress is None:
            return None

        def tell(done: int, text: str) -> None:
            progress(task.iteration - 1, f"{text}, {done:,} steps")

        return tell


class ExactOracle:
    """The best pure policy by a walk over the whole tree; ties go to the lowest action."""

    def __init__(self, psro: PSRO) -> None:
        """The game is small."""
        self.psro = psro

    def respond(self, task: Task, seed: int) -> None:
        """Nothing is drawn, so `seed` decides nothing."""
        psro, small = self.psro, self.psro.small
        assert small is not None
        policy, value = small.best_response(psro.populations, task.role, task.target.marginals)
        with psro.store.step(task.name) as result:
            psro.store.add_policy(task.role, policy, "table", iteration=task.iteration)
            result["return"] = value


ORACLES: dict[str, Callable[[PSRO], Oracle]] = {"learned": LearnedOracle, "exact": ExactOracle}
"""By name."""
