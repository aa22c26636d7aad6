"""Pipeline PSRO: several best responses of a role learn at once, each to the meta-strategy of those below it.

Source: McAleer et al. 2020, "Pipeline PSRO: A Scalable Approach for Finding Approximate Nash Equilibria in Large Games"
(P2SRO). The lowest responds to policies that are there for good, as in PSRO, and so keeps its guarantee; it becomes one
of them when it has learned enough, and those above it move down, with what they have learned of it before. In the paper
every level has a worker of its own; here they learn a part at a time, all at once where there is room.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.executors import Call, Later
from league.filling import cells
from league.game import Game
from league.oracles import LearnedOracle
from league.response import Training
from league.run import sizes, table_of
from league.seating import Draw, Tally
from league.store import derived
from league.targets import Target, Task, Whole
from trainers.config import TrainConfig
from trainers.learner import State, moved
from trainers.policy import Plays, Policy

if TYPE_CHECKING:
    from league.psro import PSRO

PLAN = {"lowest": list[str], "met": list[list[list[float]]]}
"""Fields of a plan's result."""


class Pipeline(Whole):
    """A learner stands in line for each of the next `levels` places of every population.

    In an iteration the lowest of each role learns `parts` parts, or until a plateau, and becomes fixed. A response that
    came in at the top has learned for `train.total_steps` steps then.
    """

    def __init__(self, psro: PSRO) -> None:
        """ConfigError where responses are exact: they have nothing to learn."""
        super().__init__(psro)
        if not isinstance(psro.oracle, LearnedOracle):
            raise ConfigError(
                "variant = 'pipeline': exact responses are there at once; set oracle = 'learned', or psro"
            )
        self.oracle, self.store, self.levels = psro.oracle, psro.store, psro.config.levels

    def respond(self, number: int) -> None:
        """All learn at once, part by part; then the lowest of every role is fixed."""
        sizes_then = {role: len(self.strategy.marginals[self.psro.game.seats_of(role)[0]]) for role in self.psro.roles}
        part = 0
        while (plan := self.plan(number, part))["lowest"]:
            for role in self.psro.roles:
                for level in range(self.levels):
                    if level or role in plan["lowest"]:
                        self.learn(number, part, role, sizes_then[role] + level, plan["met"][level])
            self.psro.coordinator.wait("learn")
            part += 1
        for role, place in sizes_then.items():
            task = Task(number, role, 0, Target(()))
            if not self.store.done(task.name):
                policy = self.policy(_policy(role, place))
                assert policy is not None
                with self.store.step(task.name):
                    self.store.add_policy(role, policy, iteration=number)
                    for name in (_learner, _policy, _met):
                        self.store.drop_state(name(role, place))
            self.psro.learned(task)

    def plan(self, number: int, part: int) -> dict[str, Any]:
        """The roles whose lowest is still learning, and by level the meta-strategy of the policies below."""
        task = f"{number}/plan/{part}"
        if not self.store.done(task):
            lowest = [role for role in self.psro.roles if not self.over(number, part, role)]
            met = self.meet(number, part) if lowest else []
            with self.store.step(task) as result:
                for role, population in self.psro.populations.items():
                    for place in range(len(population), len(population) + self.levels):
                        if (state := self.store.state(_policy(role, place))) is not None:
                            self.store.put_state(_met(role, place), state)
                result |= {"lowest": lowest, "met": [[each.tolist() for each in marginals] for marginals in met]}
        return self.store.result(task, PLAN)

    def over(self, number: int, part: int, role: str) -> bool:
        """Whether the lowest of a role has learned enough."""
        if part >= self.psro.config.parts:
            return True
        if self.psro.config.plateau is None or part < 2:
            return False
        if role not in self.store.result(f"{number}/plan/{part - 1}", PLAN)["lowest"]:
            return True
        place = len(self.strategy.marginals[self.psro.game.seats_of(role)[0]])
        parts = [_part(number, each, role, place) for each in (part - 2, part - 1)]
        before, now = (self.store.result(each, {"return": float})["return"] for each in parts)
        return now - before <= self.psro.config.plateau

    def meet(self, number: int, part: int) -> list[tuple[Tensor, ...]]:
        """By level the marginals (N_s + level,) of the policies below it; cells of those that learn are played anew."""
        psro, found = self.psro, [self.strategy.marginals]
        pools = self.pools(_policy)
        lengths = {role: min(len(pool), sizes(self.store)[role] + self.levels - 1) for role, pool in pools.items()}
        if part == 0 and any(lengths[role] < size + self.levels - 1 for role, size in sizes(self.store).items()):
            return found * self.levels  # nobody above has learned yet
        table = table_of(self.store)
        table.grow(lengths)
        matchups, episodes = table.missing(psro.config.episodes)
        if len(matchups):
            sampling = psro.filling.sampling
            call = cells(f"{number}/meet/{part}", psro.game, pools, matchups, episodes, psro.config.seed, sampling)
            psro.coordinator.submit(call, lambda results: table.add(matchups, results), lane="meet")
            psro.coordinator.wait("meet")
        for level in range(1, self.levels):
            below = tuple(slice(len(marginal) + level) for marginal in self.strategy.marginals)
            found.append(psro.solve(table.meta_game()[:, *below]).marginals)
        return found

    def learn(self, number: int, part: int, role: str, place: int, met: list[list[float]]) -> None:
        """Has a part of the learning of a role's policy at a place done, against those below as they were before it."""
        psro, task = self.psro, _part(number, part, role, place)
        if self.store.done(task):
            return
        train = dataclasses.replace(self.oracle.train, seed=derived(psro.config.seed, "pipeline", role, place))
        fixed = [len(psro.populations[seat.role]) for seat in psro.game.seats]

        def commit(learned: Part) -> None:
            with self.store.step(task) as result:
                self.store.put_state(_learner(role, place), learned.state)
                self.store.put_state(_policy(role, place), learned.policy.state_dict())
                there = (learned.tally.matchups < torch.tensor(fixed)).all(1)  # who learns has no entry
                self.store.add_matches(number, role, learned.tally.matchups[there], learned.tally.count[there])
                result |= {"steps": learned.steps, "episodes": int(learned.tally.count.sum())}
                result["return"] = learned.tally.mean_return()
            if (tell := self.oracle.tell(Task(number, role, 0, Target(())))) is not None:
                tell(learned.steps, f"{role}-{place}: return {result['return']:.3f}")

        arguments = {
            "game": psro.game,
            "role": role,
            "draw": Draw.against(psro.game, role, [torch.tensor(each, dtype=torch.float64) for each in met]),
            "train": train,
            "state": Later(lambda: self.store.state(_learner(role, place))),
            "iterations": -(-train.iterations // (self.levels * psro.config.parts)),
        }
        call = Call(task, learn_part, self.pools(_met, place), arguments, learns=True, device=psro.config.device)
        psro.coordinator.submit(call, commit)

    def pools(self, name: Callable[[str, int], str], most: int | None = None) -> dict[str, list[Plays]]:
        """By role all policies that are fixed, and after them those that learn, of these names; at most so many."""
        found: dict[str, list[Plays]] = {}
        for role, population in self.psro.populations.items():
            found[role] = list(population[:])
            while (policy := self.policy(name(role, len(found[role])))) is not None:
                found[role].append(policy)
            found[role] = found[role][:most]
        return found

    def policy(self, name: str) -> Policy | None:
        """One that is still learning; None if nobody learns for that place yet."""
        state = self.store.state(name)
        return None if state is None else Policy.from_state(state, self.psro.coordinator.home(self.psro.config.device))


@dataclass(frozen=True)
class Part:
    """What a part of the learning gave."""

    policy: Policy
    """What was learned so far."""
    state: State
    """Of the training."""
    tally: Tally
    """Episodes of this part, by matchup."""
    steps: int
    """Of worlds, in all parts so far."""


def learn_part(
    pools: Mapping[str, Sequence[Plays]],
    *,
    game: Game,
    role: str,
    draw: Draw,
    train: TrainConfig,
    state: Later | State | None,
    iterations: int,
) -> Part:
    """Goes on with a training, or begins it.

    It is built anew for every part, so that a run that was killed goes on as one that was not.
    """
    train.prepare()
    with train.in_force():
        training = Training(game, draw, pools, train)
        if (there := state() if isinstance(state, Later) else state) is not None:
            training.load_state_dict(moved(there, train.device))
            training.seating.replace(draw)
        for _ in range(iterations):
            training.iterate()
        return Part(training.learner(role).policy(), training.state_dict(), training.tally(), training.steps)


def _part(number: int, part: int, role: str, place: int) -> str:
    return f"{number}/part/{part}/{role}/{place}"


def _learner(role: str, place: int) -> str:
    return f"pipeline.{role}.{place}"


def _policy(role: str, place: int) -> str:
    """As it is now."""
    return f"pipeline.{role}.{place}.policy"


def _met(role: str, place: int) -> str:
    """As others meet it, which is as it was when the part began."""
    return f"pipeline.{role}.{place}.met"
