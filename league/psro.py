"""Policy-space response oracles: populations that grow by best responses to a meta-strategy over themselves.

Source: Lanctot et al. 2017, "A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning". With exact best
responses and payoffs and the Nash equilibrium as meta-strategy it is the double oracle algorithm (McMahan et al. 2003).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from league import solvers
from league.oracles import ORACLES, Task
from league.population import RandomPolicy
from league.run import Sampling, fill, table_of, write_summary
from league.small import Small
from league.solvers import MetaStrategy
from league.store import Store, derived
from league.targets import VARIANTS, Target
from trainers.logs import Progress
from trainers.settings import check_settings, setting

DEFAULTS: dict[str, dict[str, Any]] = {"prd": {"iterations": 50_000, "gamma": 1e-10}}
"""Settings of solvers: those of OpenSpiel 2.0.2's psro_v2_example.py."""


@dataclass(frozen=True)
class PSROConfig:
    """Settings of PSRO."""

    iterations: int = setting(10, ">= 0")
    """Best responses that each role gets, after the random policy that it starts with."""
    meta_solver: str = setting("auto", ("auto", *solvers.SOLVERS))
    """What the responses respond to, see `league.solvers`; "auto": nash where two seats play for what sums to 0, else
    prd."""
    solver: dict[str, Any] = field(default_factory=dict)
    """Settings of the meta-solver, see its function; of prd, if none, those of OpenSpiel's PSRO."""
    oracle: str = setting("learned", ("learned", "exact"))
    """Where best responses come from: a learner of `trainers`, or the whole tree of a small game."""
    payoffs: str = setting("sampled", ("sampled", "exact"))
    """Where payoffs come from: episodes, or the tree."""
    variant: str = setting("psro", tuple(VARIANTS))
    """Whom responses respond to, see `league.targets`."""
    anytime: bool = False
    """Take for the result the meta-strategy that was least exploitable so far, not the last (see Anytime PSRO, McAleer
    et al. 2022): exploitability goes up and down on the way."""
    start: str = setting("latest", ("latest", "scratch"))
    """Learned responses begin with the weights of the last one of their role, or from "scratch"."""
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

    def __init__(self, store: Store, config: PSROConfig, progress: Progress | None = None) -> None:
        """Opens a run; ConfigError where the configuration does not fit the game."""
        self.store, self.game, self.config, self.progress = store, store.game, config, progress
        self.populations, self.roles = store.populations, store.game.roles
        self.solver = config.meta_solver
        if self.solver == "auto":
            self.solver = "nash" if self.game.zero_sum and len(self.game.seats) == 2 else "prd"
        self.small = Small.of(self.game, required="exact" in (config.oracle, config.payoffs))
        self.payoffs = table_of(store)
        self.sampling = Sampling(config.episodes, config.tolerance, config.device, config.max_envs)
        self.oracle = ORACLES[config.oracle](self)
        self.targets: Callable[[PSRO, str], list[Target]] = VARIANTS[config.variant](self.game)
        self.solver_settings = config.solver or DEFAULTS.get(self.solver, {})
        self.strategy: MetaStrategy | None = None
        if rows := store.iterations():
            self.strategy = _strategy(rows[max(rows)])

    def run(self) -> list[dict[str, Any]]:
        """All iterations that are left; returns the summaries of all."""
        for number in range(len(self.store.iterations()), self.config.iterations + 1):
            self.iterate(number)
        return list(self.store.iterations().values())

    def iterate(self, number: int) -> None:
        """Best responses of all roles, the cells that they add to the payoff table, and a new meta-strategy."""
        began = time.perf_counter()
        if number == 0:
            self.begin()
        else:
            for role in self.roles:
                for place, target in enumerate(self.targets(self, role)):
                    self.respond(Task(number, role, place, target))
        self.conclude(number, self.fill(number), began)

    def begin(self) -> None:
        """Every population starts with the policy that acts at random."""
        if not self.store.done("0/begin"):
            with self.store.step("0/begin"):
                for role in self.roles:
                    self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", "random")

    def respond(self, task: Task) -> None:
        """One policy more in a population, unless it is there already."""
        if not self.store.done(task.name):
            self.oracle.respond(task, derived(self.config.seed, task.name))

    def fill(self, number: int) -> Tensor:
        """The payoffs (S, N_1, ..., N_S) of all policies: cells that are missing, or too wide, are played."""
        if self.config.payoffs == "exact":
            assert self.small is not None
            return self.small.payoffs(self.populations)
        fill(self.store, self.payoffs, self.sampling, self.config.seed, f"{number}/payoffs")
        return self.payoffs.meta_game()

    def conclude(self, number: int, meta_game: Tensor, began: float) -> None:
        """The new meta-strategy, and what there is to say of the iteration."""
        self.meta_game, before = meta_game, self.strategy
        strategy = self.shared(solvers.solve(self.solver, meta_game, **self.solver_settings))
        row: dict[str, Any] = {
            "policies": {role: len(self.populations[role]) for role in self.roles},
            "meta_strategy": [marginal.tolist() for marginal in strategy.marginals],
            "joint": None if strategy.joint is None else strategy.joint.tolist(),
            "value": (meta_game * strategy.distribution()).flatten(1).sum(1).tolist(),
            **self.exploitability(number, strategy),
            "previous_nash_conv_lower": None if before is None else _gain(meta_game, before),
            "seconds": time.perf_counter() - began,
            "episodes": sum(cell.count for cell in self.payoffs.cells()),
        }
        with self.store.step():
            self.store.put_iteration(number, row)
        self.strategy = strategy
        write_summary(self.store)
        if self.progress is not None:
            told = "" if row["nash_conv"] is None else f"NashConv {row['nash_conv']:.4f}"
            self.progress(number, told)

    def exploitability(self, number: int, strategy: MetaStrategy) -> dict[str, Any]:
        """NashConv of a meta-strategy where the game is small enough to know it; else None."""
        if self.small is None:
            return {"nash_conv": None, "exploitability": None, "best_so_far": None}
        nash_conv = self.small.nash_conv(self.populations, strategy.marginals)
        earlier = [row["nash_conv"] for row in self.store.iterations().values()]
        best = min([nash_conv, *earlier])
        return {"nash_conv": nash_conv, "exploitability": nash_conv / len(self.game.seats), "best_so_far": best}

    def shared(self, strategy: MetaStrategy) -> MetaStrategy:
        """The same for all seats of a role."""
        if not self.game.shared:
            return strategy
        by_role = solvers.by_role(strategy, self.game)
        return MetaStrategy(tuple(by_role[seat.role] for seat in self.game.seats), strategy.joint)


def _gain(meta_game: Tensor, before: MetaStrategy) -> float:
    """What the seats of an earlier meta-strategy could gain in all by policies that came since: NashConv at least."""
    marginals = tuple(
        pad(marginal, (0, size - len(marginal)))
        for marginal, size in zip(before.marginals, meta_game.shape[1:], strict=True)
    )
    return solvers.nash_gap(meta_game, MetaStrategy(marginals, None))


def _strategy(row: dict[str, Any]) -> MetaStrategy:
    marginals: list[Tensor] = [torch.tensor(each, dtype=torch.float64) for each in row["meta_strategy"]]
    return MetaStrategy(
        tuple(marginals), None if row["joint"] is None else torch.tensor(row["joint"], dtype=torch.float64)
    )
