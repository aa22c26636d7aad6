"""Where PSRO's best responses come from: a learner, or the tree of a small game."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from gpu_envs.errors import ConfigError
from league.executors import Call
from league.game import Game
from league.response import Response, Start, respond
from league.run import training
from league.seating import Draw, narrow, widen
from league.targets import Task
from trainers.config import TrainConfig
from trainers.logs import Progress
from trainers.policy import Plays, Policy

if TYPE_CHECKING:
    from league.psro import PSRO


class Oracle(Protocol):
    """Makes best responses."""

    def respond(self, task: Task, seed: int) -> None:
        """Sees that one is added to its population, in one step of the store."""
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
        """Trains for `train.total_steps` steps; of learners that go on, schedules end where the run does."""
        target, going_on = task.target, {}
        if self.psro.config.start == "continue":
            length = int(self.psro.store.config.get("iterations", self.psro.config.iterations))  # as the run began
            whole = dataclasses.replace(self.train, total_steps=length * self.train.total_steps)
            going_on = {"train": whole, "steps": self.train.total_steps}
        marginals = target.marginals if target.joint is None else None
        draw = Draw.against(self.psro.game, task.role, marginals, joint=target.joint)
        self.submit(task, learn, draw, seed, **going_on)

    def submit(
        self,
        task: Task,
        function: Callable[..., Response],
        draw: Draw,
        seed: int,
        more: Callable[[Any, dict[str, Any]], None] | None = None,
        **arguments: Any,
    ) -> None:
        """Has a response learned by a function like `learn`.

        Args:
            task: The response.
            function: Gives it.
            draw: Its opponents; only they are sent.
            seed: Of everything.
            more: Called with the response and the task's result in the step of the store, to write what else there is.
            **arguments: More of the function.
        """
        psro, game = self.psro, self.psro.game
        start, parent = self.start(task)
        kept, narrowed = narrow(game, draw.matchups)
        pools = {role: [psro.populations[role][index] for index in who] for role, who in kept.items()}

        def commit(response: Response) -> None:
            with psro.store.step(task.name) as result:
                entry = psro.store.add_policy(task.role, response.policy, parent=parent, iteration=task.iteration)
                if psro.config.start != "scratch":
                    psro.store.put_state(_learner(task.role, entry.index), response.state)
                met = widen(game, kept, response.tally.matchups)
                psro.store.add_matches(task.iteration, task.role, met, response.tally.count)
                result |= {"steps": response.steps, "seconds": response.seconds, "episodes": response.episodes}
                result["return"] = response.tally.mean_return()
                if more is not None:
                    more(response, result)

        arguments |= {"game": game, "role": task.role, "draw": dataclasses.replace(draw, matchups=narrowed)}
        arguments = {"train": self.train, "start": start, "seed": seed, **arguments}
        device, tell = psro.config.device, self.tell(task)
        call = Call(task.name, function, pools, arguments, learns=True, device=device, progress=tell)
        psro.coordinator.submit(call, commit, then=lambda: psro.learned(task))

    def start(self, task: Task) -> tuple[Start | None, int | None]:
        """What a response begins with, and where it stands in its population; None: from scratch.

        It is the whole learner, critics too: an actor that can play would unlearn from a critic that knows nothing.
        """
        population = self.psro.populations[task.role]
        if self.psro.config.start == "scratch":
            return None, None
        parent = task.target.parent
        if parent is None:  # what an earlier place of this iteration has made is not the latest
            learned = [each.index for each in population.entries if each.iteration < task.iteration]
            parent = max((each for each in learned if population.entries[each].kind == "policy"), default=0)
        device = self.psro.coordinator.home(self.psro.config.device)
        state = self.psro.store.state(_learner(task.role, parent), device)
        if state is not None:
            return state, parent
        policy = population[parent]  # random, or of a run that began when learners were not kept
        return (policy, parent) if isinstance(policy, Policy) else (None, None)

    def tell(self, task: Task) -> Progress | None:
        """What to tell a training's progress to."""
        progress = self.psro.progress
        if progress is None:
            return None

        def told(done: int, text: str) -> None:
            progress(task.iteration - 1, f"{text}, {done:,} steps")

        return told


def learn(
    pools: Mapping[str, Sequence[Plays]],
    *,
    game: Game,
    role: str,
    draw: Draw,
    train: TrainConfig,
    start: Start | None,
    seed: int,
    steps: int | None = None,
    progress: Progress | None = None,
) -> Response:
    """What a call of a learned response does, see `league.response.respond`."""
    return respond(game, role, draw, pools, train, start, seed, steps, progress=progress)


def _learner(role: str, index: int) -> str:
    """Where the learner of a response is kept."""
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
        if psro.store.done(task.name):
            return
        policy, value = small.best_response(psro.populations, task.role, task.target)
        with psro.store.step(task.name) as result:
            psro.store.add_policy(task.role, policy, "table", iteration=task.iteration)
            result["return"] = value


ORACLES: dict[str, Callable[[PSRO], Oracle]] = {"learned": LearnedOracle, "exact": ExactOracle}
"""By name."""
