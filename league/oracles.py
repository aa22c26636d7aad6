"""Where PSRO's best responses come from: a learner, or the tree of a small game."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gpu_envs.errors import ConfigError
from league.response import Start, networks, respond
from league.run import training
from league.seating import Draw
from league.targets import Task
from trainers.learner import State
from trainers.logs import Progress
from trainers.policy import Policy

if TYPE_CHECKING:
    from league.psro import PSRO


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
        if psro.small is not None and getattr(self.train.learner, "body", None) == "gru":  # no table tells what it does
            if psro.config.payoffs == "exact":
                raise ConfigError("payoffs = 'exact': policies that remember (body = 'gru') have none; use 'sampled'")
            psro.small = None

    def respond(self, task: Task, seed: int) -> None:
        """Trains for `train.total_steps` steps."""
        psro, target, role = self.psro, task.target, task.role
        start, parent = self.start(task)
        draw = Draw.against(psro.game, role, target.marginals if target.joint is None else None, joint=target.joint)
        train, steps = self.train, None
        if psro.config.start == "continue":  # schedules end where the run does
            length = int(psro.store.config.get("iterations", psro.config.iterations))  # as it began, if longer now
            train, steps = dataclasses.replace(train, total_steps=length * train.total_steps), train.total_steps
        response = respond(psro.game, role, draw, psro.populations, train, start, seed, steps, progress=self.tell(task))
        with psro.store.step(task.name) as result:
            self.add(task, response.policy, response.state if steps else networks(response.state), parent)
            psro.store.add_matches(task.iteration, role, response.tally.matchups, response.tally.count)
            result |= {"steps": response.steps, "seconds": response.seconds, "episodes": response.episodes}
            result["return"] = response.tally.mean_return()

    def add(self, task: Task, policy: Policy, state: State, parent: int | None) -> None:
        """A response joins its population, within a step; what later ones may begin with is kept beside it."""
        entry = self.psro.store.add_policy(task.role, policy, parent=parent, iteration=task.iteration)
        if self.psro.config.start != "scratch":
            self.psro.store.put_state(_learner(task.role, entry.index), state)

    def start(self, task: Task) -> tuple[Start | None, int | None]:
        """Whose weights a response begins with, and where it stands in its population; None: from scratch.

        Its critics are among them: a response that began with an actor that can play and a critic that knows nothing
        would unlearn first.
        """
        population = self.psro.populations[task.role]
        if self.psro.config.start == "scratch":
            return None, None
        parent = task.target.parent
        if parent is None:  # what an earlier place of this iteration has made is not the latest
            learned = [each.index for each in population.entries if each.iteration < task.iteration]
            parent = max((each for each in learned if population.entries[each].kind == "policy"), default=0)
        state = self.psro.store.state(_learner(task.role, parent), self.psro.config.device)
        if state is not None:
            return state, parent
        policy = population[parent]
        return (policy, parent) if isinstance(policy, Policy) else (None, None)

    def tell(self, task: Task) -> Progress | None:
        """What to tell a training's progress to."""
        progress = self.psro.progress
        if progress is None:
            return None

        def told(done: int, text: str) -> None:
            progress(task.iteration - 1, f"{text}, {done:,} steps")

        return told


def _learner(role: str, index: int) -> str:
    """Where a response's learner is kept, or its networks."""
    return f"response.{role}.{index}"


class ExactOracle:
    """The best pure policy by a walk over the whole tree; ties go to the lowest action."""

    def __init__(self, psro: PSRO) -> None:
        """The game is small."""
        self.psro = psro

    def respond(self, task: Task, seed: int) -> None:
        """Nothing is drawn, so `seed` decides nothing."""
        psro, small = self.psro, self.psro.small
        assert small is not None
        policy, value = small.best_response(psro.populations, task.role, task.target)
        with psro.store.step(task.name) as result:
            psro.store.add_policy(task.role, policy, "table", iteration=task.iteration)
            result["return"] = value


ORACLES: dict[str, Callable[[PSRO], Oracle]] = {"learned": LearnedOracle, "exact": ExactOracle}
"""By name."""
