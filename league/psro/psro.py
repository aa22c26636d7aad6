"""Policy-space response oracles: populations that grow by best responses to a meta-strategy over themselves.

Source: Lanctot et al. 2017, "A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning". With exact best
responses and payoffs and the Nash equilibrium as meta-strategy it is the double oracle algorithm (McMahan et al. 2003).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.errors import ConfigError
from league import solvers
from league.anytime import Anytime
from league.evaluation import UNKNOWN, Evaluation
from league.executors import Coordinator, Executor
from league.filling import Filling, Sampling
from league.oracles import ORACLES
from league.pipeline import Pipeline
from league.population import RandomPolicy
from league.records import SUMMARY, check_strategy
from league.run import write_summary
from league.selfplay import SelfPlay
from league.small import Small
from league.solvers import MetaStrategy
from league.store import Store, derived
from league.targets import Rectified, Task, Whole
from trainers.logs import Progress
from trainers.settings import check_settings, setting

DEFAULTS: dict[str, dict[str, Any]] = {"prd": {"iterations": 50_000, "gamma": 1e-10}}
"""Settings of solvers: those of OpenSpiel 2.0.2's psro_v2_example.py."""
VARIANTS: dict[str, type[Whole]] = {
    "psro": Whole,
    "rectified": Rectified,
    "pipeline": Pipeline,
    "anytime": Anytime,
    "self_play": SelfPlay,
}
"""By name: who makes the responses of an iteration, and the meta-strategy."""

FIELDS: dict[str, Any] = {
    **{name: SUMMARY[name] for name in ("meta_strategy", "joint", *UNKNOWN, "seconds")},
    **{"policies": dict[str, int], "episodes": int},
}
"""Fields that the summary of an iteration has to have, and their types."""


@dataclass(frozen=True)
class PSROConfig:
    """Settings of PSRO."""

    iterations: int = setting(10, ">= 0")
    """Best responses that each role gets, after the random policy that it starts with."""
    meta_solver: str = setting("auto", ("auto", *solvers.SOLVERS))
    """What the responses respond to, see `league.solvers`; "auto": nash where two seats play for what sums to 0, else
    prd. Of ce they respond to the others' marginal, as of cce, not to each recommendation."""
    solver: dict[str, Any] = field(default_factory=dict)
    """Settings of the meta-solver, see its function; of prd, if none, those of OpenSpiel's PSRO."""
    oracle: str = setting("learned", ("learned", "exact"))
    """Where best responses come from: a learner of `trainers`, or the whole tree of a small game."""
    payoffs: str = setting("sampled", ("sampled", "exact"))
    """Where payoffs come from: episodes, or the tree."""
    variant: str = setting("psro", tuple(VARIANTS))
    """How an iteration goes: "psro"; "rectified", see `league.targets`; "pipeline", "anytime" and "self_play", see the
    files of these names."""
    levels: int = setting(3, ">= 1", needs={"variant": "pipeline"})
    """Of a pipeline: responses of a role that learn at once."""
    plateau: float | None = setting(None, ">= 0", needs={"variant": "pipeline"})
    """Of a pipeline: a response is done when a part of its learning has raised its return by no more; None: when it
    has learned for `train.total_steps`."""
    parts: int = setting(10, ">= 1")
    """Of a pipeline: into how many the learning of a response falls. Of self_play: of how many policies, one from each
    part, the time-average is made."""
    anytime: bool = False
    """Take for the result the meta-strategy that was least exploitable so far, of any variant, not the last (see
    `best_iteration` in the summaries): exploitability goes up and down on the way. Where NashConv is not known it is
    the one that the policies there now gain least against, which bounds its NashConv from below."""
    start: str = setting("scratch", ("scratch", "latest", "continue"))
    """Learned responses begin from "scratch"; or with the weights of the "latest" of their role, critics too: sooner
    good, but with little left of the exploration that finds what the latest does not do; or "continue" the learner of
    the latest, whose optimiser and schedules go on over all `iterations`: best where a role takes long to learn. In
    anytime and self_play, which have trainings of their own, that is "latest"; a pipeline goes on in any case."""
    episodes: int = setting(1_000, ">= 1")
    """Episodes per cell of the payoff table."""
    tolerance: float | None = setting(None, "> 0")
    """Cells are played on until the 95 % interval of every mean is at most this to either side; None: `episodes` do."""
    max_envs: int = setting(16_384, ">= 1")
    """Worlds that play cells at once."""
    seed: int = setting(0, "in [0, 2**63)")
    """Of everything."""
    device: str = "cpu"
    """Where it all runs."""
    train: dict[str, Any] = field(default_factory=dict)
    """Settings of learners, see `league.run.training`."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)


class PSRO:
    """A run: see `iterate` for what it does. Whatever it has done it finds in its store, after a kill too."""

    def __init__(
        self, store: Store, config: PSROConfig, progress: Progress | None = None, executor: Executor | None = None
    ) -> None:
        """Opens a run.

        Args:
            store: Of the run.
            config: As the run began with, `iterations` aside.
            progress: Told how responses learn, where they do it in this process, and of every iteration.
            executor: Who trains responses and plays cells; None: this process. The run comes out the same.

        Raises:
            ConfigError: The configuration does not fit the game.
        """
        self.store, self.game, self.config, self.progress = store, store.game, config, progress
        self.populations, self.roles = store.populations, store.game.roles
        self.coordinator = Coordinator(store, executor)
        for population in self.populations.values():  # anybody may be met at any time
            population.device, population.keep = self.coordinator.home(config.device), sys.maxsize
        self.solver = config.meta_solver
        if self.solver == "auto":
            self.solver = "nash" if self.game.zero_sum and len(self.game.seats) == 2 else "prd"
        self.solver_settings = config.solver or DEFAULTS.get(self.solver, {})
        self.solve(torch.zeros((len(self.game.seats), *[1] * len(self.game.seats))))  # refuses before anything is done
        if self.solver in ("nash", "max_entropy_nash") and not self.game.zero_sum:
            wanted = f"expected a game that sums to 0, as {self.game.env_id} is not declared to"
            raise ConfigError(f"meta_solver = {self.solver!r}: {wanted}; use prd, alpharank or cce")
        self.small = Small.of(self.game, required="exact" in (config.oracle, config.payoffs))
        self.oracle = ORACLES[config.oracle](self)
        self.variant = VARIANTS[config.variant](self)
        self.evaluation: Evaluation | None = None
        if self.small is not None:
            self.evaluation = Evaluation(store, self.coordinator, strategy_of, progress)
        self._restore()

    def _restore(self) -> None:
        """Reads what there is; calls of a run that was interrupted are given out again."""
        c, rows = self.config, self.store.iterations(FIELDS, FIELDS)
        self.coordinator.cancel()
        sampling = Sampling(c.episodes, c.tolerance, c.device, c.max_envs)
        self.filling = Filling(self.store, self.coordinator, sampling, c.seed)
        for number, row in rows.items():
            pools = [self.populations[seat.role].entries for seat in self.game.seats]
            sizes = [sum(entry.iteration <= number for entry in pool) for pool in pools]
            check_strategy(f"{self.store.file}: iterations: summary of {number}", row, sizes)
        self.strategy: MetaStrategy | None = strategy_of(rows[max(rows)]) if rows else None

    def run(self) -> list[dict[str, Any]]:
        """All iterations that are left; returns the summaries of all."""
        self._restore()
        if self.evaluation is not None:  # what a kill has left
            self.evaluation.give_out()
        for number in range(len(self.store.iterations()), self.config.iterations + 1):
            self.iterate(number)
        if self.evaluation is not None:
            self.evaluation.finish()
        write_summary(self.store)
        return list(self.store.iterations().values())

    def iterate(self, number: int) -> None:
        """Best responses of all roles, the cells that they add to the payoff table, and a new meta-strategy."""
        began = time.perf_counter()
        if number == 0:
            self.begin()
        else:
            self.variant.respond(number)
            self.coordinator.wait("learn")
        self.fill(number)
        self.conclude(number, began)

    def begin(self) -> None:
        """Every population starts with the policy that acts at random."""
        if not self.store.done("0/begin"):
            with self.store.step("0/begin"):
                for role in self.roles:
                    self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", "random")

    def respond(self, task: Task) -> None:
        """One policy more in a population, unless it is there already, once the coordinator has waited for it."""
        self.oracle.respond(task, derived(self.config.seed, task.name))

    def learned(self, task: Task) -> None:
        """A response is there: its cells are played while others learn."""
        if self.config.payoffs == "sampled":
            self.filling.plan(f"{task.name}/payoffs")

    def fill(self, number: int) -> None:
        """Cells of the payoff table that are missing, or too wide, are played."""
        if self.config.payoffs == "sampled":
            self.filling.finish(f"{number}/payoffs")

    @property
    def meta_game(self) -> Tensor:
        """The payoffs (S, N_1, ..., N_S) of all policies; NaN where cells are to be played yet."""
        if self.config.payoffs == "sampled":
            return self.filling.table.meta_game()
        assert self.small is not None
        return self.small.payoffs(self.populations)

    def solve(self, meta_game: Tensor) -> MetaStrategy:
        """What the meta-solver says of payoffs (S, N_1, ..., N_S), the same for all seats of a role."""
        strategy = solvers.solve(self.solver, meta_game, **self.solver_settings)
        if not self.game.shared:
            return strategy
        marginal = solvers.by_role(strategy, self.game)[self.roles[0]]
        joint = strategy.joint
        if joint is not None:
            orders = list(permutations(range(joint.dim())))
            joint = torch.stack([joint.permute(order) for order in orders]).mean(0)
        return MetaStrategy((marginal,) * len(self.game.seats), joint)

    def conclude(self, number: int, began: float) -> None:
        """The new meta-strategy, and what there is to say of the iteration."""
        meta_game = self.meta_game
        strategy = self.variant.solve(number, meta_game)
        earlier = self.store.iterations()
        row: dict[str, Any] = {
            "policies": {role: len(self.populations[role]) for role in self.roles},
            "meta_strategy": [marginal.tolist() for marginal in strategy.marginals],
            "joint": None if strategy.joint is None else strategy.joint.tolist(),
            "value": (meta_game * strategy.distribution()).flatten(1).sum(1).tolist(),
            **UNKNOWN,
            "nash_conv_lower": gain(meta_game, strategy),
            "previous_nash_conv_lower": None if self.strategy is None else gain(meta_game, self.strategy),
            "seconds": time.perf_counter() - began,
            "episodes": int(self.store.cells().count.sum()),
        }
        row["best_iteration"] = None
        if self.small is None:
            lower = {at: gain(meta_game, strategy_of(was)) for at, was in earlier.items()}
            lower[number] = row["nash_conv_lower"]
            row["best_iteration"] = min(lower, key=lambda at: (lower[at], -at))
        with self.store.step():
            self.store.put_iteration(number, row)
        self.strategy = strategy
        if self.evaluation is not None:
            self.evaluation.give_out()
        elif self.progress is not None:
            self.progress(number, "")
        write_summary(self.store)


def gain(meta_game: Tensor, strategy: MetaStrategy) -> float:
    """What seats could gain in payoffs (S, N_1, ..., N_S), each leaving a meta-strategy alone for one of its policies.

    NashConv at least, and no more than an estimate where payoffs are. The strategy may be an earlier one, of the first
    policies only; a joint one is left before the profile is drawn.
    """
    sizes = meta_game.shape[1:]
    if strategy.joint is None:
        marginals = tuple(pad(each, (0, n - len(each))) for each, n in zip(strategy.marginals, sizes, strict=True))
        return solvers.nash_gap(meta_game, MetaStrategy(marginals))
    room = [each for n, had in zip(sizes, strategy.joint.shape, strict=True) for each in (n - had, 0)]
    joint = pad(strategy.joint, room[::-1])
    total = 0.0
    for seat, own in enumerate(meta_game):
        others = joint.sum(seat, keepdim=True)
        worth = (own * others).movedim(seat, 0).flatten(1).sum(1)
        total += float(worth.max() - (own * joint).sum())
    return total


def strategy_of(row: Mapping[str, Any]) -> MetaStrategy:
    """The meta-strategy that the summary of an iteration tells."""
    marginals: list[Tensor] = [torch.tensor(each, dtype=torch.float64) for each in row["meta_strategy"]]
    return MetaStrategy(
        tuple(marginals), None if row["joint"] is None else torch.tensor(row["joint"], dtype=torch.float64)
    )
