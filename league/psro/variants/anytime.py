"""Anytime PSRO: meta-strategies that no best response hurts more than is unavoidable, so that they only get better.

Source: McAleer et al. 2022, "Anytime PSRO for Two-Player Zero-Sum Games". PSRO's meta-strategy is an equilibrium among
policies that are there, and may lose ever more to one that is not. Here a seat's distribution over its population is
found while the other side's response to it is: of two seats whose payoffs sum to 0.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gpu_envs.errors import GpuEnvsError
from league.game import Game
from league.oracles import LearnedOracle
from league.response import Response, Start, Training
from league.seating import LEARNER, Draw, Tally
from league.solvers import MetaStrategy
from league.solvers.minimax import minimax
from league.store import derived
from league.targets import Target, Task, Whole, one_sum
from trainers.config import TrainConfig
from trainers.logs import Progress
from trainers.policy import Plays

if TYPE_CHECKING:
    from league.psro import PSRO

EXPLORED = 0.1
"""Share of episodes in which opponents are drawn alike, so that something is known of all of them."""
LARGEST_STEPS = 10_000
"""Best responses until the least exploitable mixture of a population is found."""


class Anytime(Whole):
    """A response per role, to the distribution over its opponents that is hurt least by responses."""

    def __init__(self, psro: PSRO) -> None:
        """ConfigError where the game is not of two seats that sum to 0."""
        super().__init__(psro)
        one_sum(psro.game, "anytime")
        self.found: dict[tuple[str, int], tuple[Tensor, list[list[Tensor]]]] = {}

    def respond(self, number: int) -> None:
        """A response per role, unless it is there already."""
        for role in self.psro.roles:
            task = Task(number, role, 0, Target(self.strategy.marginals))
            (self.learned if isinstance(self.psro.oracle, LearnedOracle) else self.exact)(task)

    def solve(self, number: int, meta_game: Tensor) -> MetaStrategy:
        """Exact: least exploitable of all policies so far. Learned: of those that the iteration began with.

        Payoffs are (S, N_1, ..., N_S).
        """
        psro, weights = self.psro, {}
        for seat, sits in enumerate(psro.game.seats):
            role = psro.game.seats[1 - seat].role  # whose response it is that hurts
            size = len(psro.populations[sits.role])
            if not isinstance(psro.oracle, LearnedOracle):
                weights[seat] = self.least(role, size)[0]
            elif number:
                task = Task(number, role, 0, Target(())).name
                told = psro.store.result(task, {"opponents": list[float]})["opponents"]
                weights[seat] = torch.tensor([*told, *[0.0] * (size - len(told))], dtype=torch.float64)
            else:
                weights[seat] = torch.ones(1, dtype=torch.float64)
        return MetaStrategy((weights[0], weights[1]))

    # ---------------------------------------------------------------- exact

    def exact(self, task: Task) -> None:
        """One of the responses that hold the others to the least they can lose: one that is new, if there is."""
        psro, small = self.psro, self.psro.small
        assert small is not None
        if psro.store.done(task.name):
            return
        seats = psro.game.seats_of(task.role)
        against = task.target.marginals[1 - seats[0]]
        _, tables = self.least(task.role, len(against))
        known = small.know(psro.populations)

        def there(found: list[Tensor]) -> bool:
            pools = [known[seat] for seat in seats]
            return any(all(map(torch.equal, found, each)) for each in zip(*pools, strict=True))

        best = next((each for each in tables if not there(each)), tables[0])
        with psro.store.step(task.name):
            psro.store.add_policy(task.role, small.policy(task.role, best), "table", iteration=task.iteration)

    def least(self, role: str, size: int) -> tuple[Tensor, list[list[Tensor]]]:
        """The mixture (size,) of a role's opponents that loses least to its best response.

        Instead of learning without regret against a response that follows, as in the paper, responses are added one
        by one to a linear programme until none is better than those in it: the same optimum, and exact.

        Returns:
            Of the opponents; and the tables of responses, one for each seat of the role, the most important first.

        Raises:
            GpuEnvsError: The programme did not come to an end.
        """
        if (role, size) in self.found:
            return self.found[role, size]
        small = self.psro.small
        assert small is not None
        seats, tree, known = self.psro.game.seats_of(role), small.tree, small.know(self.psro.populations)
        weights, value = torch.ones(size, dtype=torch.float64) / size, -math.inf
        tables: list[list[Tensor]] = []
        columns: list[Tensor] = []
        shares: Tensor = torch.ones(1)
        for _ in range(LARGEST_STEPS):
            found = [tree.best_response(_facing(tree.mix(known[1 - s][:size], weights, 1 - s), s), s) for s in seats]
            if sum(each for _, each in found) / len(found) <= value + 1e-10:
                break
            tables.append([table for table, _ in found])
            earned = torch.zeros(size, dtype=torch.float64)
            for seat, (table, _) in zip(seats, found, strict=True):
                met = torch.stack(known[1 - seat][:size])
                earned += tree.payoffs(_facing(met, seat, table.unsqueeze(0)))[seat].flatten() / len(seats)
            columns.append(earned)
            mine, theirs, lost = minimax(-torch.stack(columns, 1).numpy())
            weights, shares, value = torch.from_numpy(mine).clamp(min=0), torch.from_numpy(theirs), -lost
            weights = weights / weights.sum()
        else:
            raise GpuEnvsError(f"anytime: no least exploitable mixture of {size} policies after {LARGEST_STEPS} steps")
        order = shares.argsort(descending=True, stable=True).tolist()
        self.found = {(role, size): (weights, [tables[place] for place in order])} | {
            key: each for key, each in self.found.items() if key[0] != role
        }
        return self.found[role, size]

    # ---------------------------------------------------------------- learned

    def learned(self, task: Task) -> None:
        """Has a response learned together with the distribution that it meets."""
        psro, oracle = self.psro, self.psro.oracle
        assert isinstance(oracle, LearnedOracle)
        size = len(task.target.marginals[1 - psro.game.seats_of(task.role)[0]])
        meta_game = psro.meta_game[:, : len(task.target.marginals[0]), : len(task.target.marginals[1])]
        alike = Draw.against(psro.game, task.role, [torch.ones(size) / size] * 2)

        def more(response: Opposed, result: dict[str, Any]) -> None:
            result["opponents"] = response.opponents

        seed, spread = derived(psro.config.seed, task.name), max(float(meta_game.max() - meta_game.min()), 1e-9)
        oracle.submit(task, learn_opposed, alike, seed, more, size=size, spread=spread)


@dataclass(frozen=True)
class Opposed(Response):
    """A response, and whom it met."""

    opponents: list[float]
    """The average distribution."""


def learn_opposed(
    pools: Mapping[str, Sequence[Plays]],
    *,
    game: Game,
    role: str,
    draw: Draw,
    train: TrainConfig,
    start: Start | None,
    seed: int,
    size: int,
    spread: float,
    progress: Progress | None = None,
) -> Opposed:
    """A response learns, and after each of its updates the opponents that it beats most are met less often.

    How often follows exponential weights (Freund and Schapire 1999) on what the response has earned against each;
    the average over the training is what the seat's meta-strategy is, and hardly any response hurts it more.

    Args:
        pools: Policies by role.
        game: What is played.
        role: Who learns.
        draw: Opponents at first.
        train: Algorithm, worlds, steps, device.
        start: Whose weights to begin with; None: from scratch.
        seed: Of everything.
        size: Opponents.
        spread: Between the least and the most that there is to earn.
        progress: Called after every iteration.
    """
    began, config = time.perf_counter(), dataclasses.replace(train, seed=seed)
    rate = math.sqrt(8 * math.log(max(size, 2)) / config.iterations) / spread
    lost, average = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    config.prepare()
    with config.in_force():
        training = Training(game, draw, pools, config, None if start is None else {role: start})
        while training.iteration < config.iterations:
            weights = torch.softmax(-rate * lost, 0)
            met = (1 - EXPLORED) * weights + EXPLORED / size
            training.seating.replace(Draw.against(game, role, [met, met]))
            row = training.iterate()
            average += weights
            lost += _earned(training.tallies[-1], size, weights)
            if progress is not None:
                progress(training.steps, f"{role}: return {row['return']:.3f}  score {row['score']:.2f}")
        tally, learner = training.tally(), training.learner(role)
    seconds = time.perf_counter() - began
    opponents = (average / average.sum()).tolist()
    return Opposed(learner.policy(), learner.state_dict(), tally, training.steps, seconds, opponents)


def _facing(other: Tensor, seat: int, own: Tensor | None = None) -> list[Tensor]:
    """A profile of two seats; the table of a seat that responds is not looked at."""
    own = other if own is None else own
    return [own, other] if seat == 0 else [other, own]


def _earned(tally: Tally, size: int, weights: Tensor) -> Tensor:
    """What the learner earned per episode against each opponent (size,), beyond the mean; 0 where nothing is known."""
    learner = tally.matchups == LEARNER
    who = tally.matchups.masked_fill(learner, 0).sum(1)
    total = torch.zeros(size, dtype=torch.float64).index_add_(0, who, (tally.total * learner).sum(1))
    count = torch.zeros(size, dtype=torch.float64).index_add_(0, who, tally.count.double())
    known = count > 0
    mean = total / count.clamp(min=1)
    base = float((mean * weights * known).sum() / (weights * known).sum().clamp(min=1e-12))
    return (mean - base) * known
