"""Policy-space response oracles: populations that grow by best responses to a meta-strategy over themselves.

Source: Lanctot et al. 2017, "A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning". With exact best
responses and payoffs and the Nash equilibrium as meta-strategy it is the double oracle algorithm (McMahan et al. 2003).
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.utils.progress import Progress
from league import solvers
from league.evaluation.nash_conv import UNKNOWN, Evaluation, nash_conv_lower_bound, strategy_from_summary
from league.evaluation.payoff_filler import PayoffFiller, PayoffSamplingConfig
from league.evaluation.tabular_game import TabularGame, is_recurrent, is_tabular
from league.executors import Coordinator, Executor, RemoteTask
from league.game import Game
from league.policies.kinds import kind_of
from league.policies.random import RandomPolicy
from league.psro.best_response_task import BestResponseTask
from league.psro.config import DEFAULTS, FIELDS, PSROConfig
from league.psro.context import PSROContext
from league.psro.oracles import ORACLES
from league.psro.store_update import StoreUpdate, TrainingSegment, response_update
from league.psro.variants.anytime import AnytimeVariant
from league.psro.variants.base import Variant, Work
from league.psro.variants.pipeline import PipelineVariant
from league.psro.variants.rectified import RectifiedVariant
from league.psro.variants.self_play import SelfPlayVariant
from league.psro.variants.standard import StandardVariant
from league.rollout.best_response import BestResponse
from league.solvers import MetaStrategy
from league.storage.records import check_strategy
from league.storage.run_config import training, write_summary
from league.storage.run_store import RunStore

__all__ = ["PSRO", "VARIANTS"]

VARIANTS: dict[str, Callable[[Game, PSROConfig], Variant]] = {
    "standard": StandardVariant,
    "rectified": RectifiedVariant,
    "pipeline": PipelineVariant,
    "anytime": AnytimeVariant,
    "self_play": SelfPlayVariant,
}
"""Variants by name."""


class PSRO:
    """A run of PSRO. Its store holds all progress, so that an interrupted run can be resumed."""

    def __init__(
        self, store: RunStore, config: PSROConfig, progress: Progress | None = None, executor: Executor | None = None
    ) -> None:
        """Open a run.

        Args:
            store: Store of the run.
            config: Settings with which the run started, except `iterations`.
            progress: Called with the progress of trainings in this process and with every finished iteration.
            executor: Executor of trainings and simulations; None: this process. The result does not depend on it.

        Raises:
            ConfigError: The settings do not fit the game.
        """
        self.store, self.game, self.config, self.progress = store, store.game, config, progress
        self.populations, self.coordinator = store.populations, Coordinator(store, executor)
        for population in self.populations.values():  # every policy can be an opponent at any time
            population.device, population.keep = self.coordinator.home(config.device), sys.maxsize
        self.solver = _checked_solver(self.game, config)
        self._solve(torch.zeros((len(self.game.seats), *[1] * len(self.game.seats))))  # checks the solver's settings
        exact = "exact" in (config.oracle, config.payoff_estimation)
        tabular = TabularGame.of(self.game, required=exact)
        learned = config.oracle == "learned"
        self.train = training(self.game, config.device, config.train_overrides) if learned else None
        if config.payoff_estimation == "exact" and self.train is not None and is_recurrent(self.train):
            raise ConfigError(
                "payoff_estimation='exact': expected policies without recurrence, got network='gru'; "
                "use payoff_estimation='sampled'"
            )
        self.tabular = tabular if is_tabular(self.game, self.train) else None
        self.oracle, self.variant = ORACLES[config.oracle], VARIANTS[config.variant](self.game, config)
        self.evaluation: Evaluation | None = None
        if self.tabular is not None:
            self.evaluation = Evaluation(store, self.coordinator, strategy_from_summary, progress)
        self._restore()

    def _restore(self) -> None:
        """Read the progress of the store and submit the planned payoff cells of an interrupted run."""
        c, rows = self.config, self.store.iterations(FIELDS, FIELDS)
        self.coordinator.cancel()
        sampling = PayoffSamplingConfig(c.episodes_per_matchup, c.ci_half_width, c.device, c.eval_num_envs)
        self.payoffs = PayoffFiller(self.store, self.coordinator, sampling, c.seed)
        for number, row in rows.items():
            pools = [self.populations[seat.role].entries for seat in self.game.seats]
            sizes = [sum(entry.iteration <= number for entry in pool) for pool in pools]
            check_strategy(f"{self.store.file}: iterations: summary of {number}", row, sizes)
        self.strategy: MetaStrategy | None = strategy_from_summary(rows[max(rows)]) if rows else None

    def run(self) -> list[dict[str, Any]]:
        """Run the remaining iterations; return the summaries of all iterations."""
        self._restore()
        if self.evaluation is not None:  # of an interrupted run
            self.evaluation.submit()
        for number in range(len(self.store.iterations()), self.config.iterations + 1):
            self.iterate(number)
        if self.evaluation is not None:
            self.evaluation.finish()
        write_summary(self.store)
        return list(self.store.iterations().values())

    # ---------------------------------------------------------------- an iteration

    def iterate(self, number: int) -> None:
        """Compute best responses, the payoffs of the new policies, and a new meta-strategy."""
        began, context = time.perf_counter(), self._context(number)
        if number == 0:
            self._add_random_policies()
        else:
            for batch in self.variant.advance(context):
                for work in batch:
                    self._start(context, work)
                self.coordinator.wait("learn")
        if self.config.payoff_estimation == "sampled":
            self.payoffs.fill(f"{number}/payoffs")
        self._conclude(context, began)

    def _context(self, number: int) -> PSROContext:
        return PSROContext(
            number,
            self.game,
            self.config,
            self.store,
            self.populations,
            self.coordinator,
            self.train,
            self.tabular,
            self.strategy,
            self._meta_game,
            self._solve,
            self.progress,
        )

    def _add_random_policies(self) -> None:
        """Add a random policy to every population."""
        if not self.store.done("0/begin"):
            with self.store.step("0/begin"):
                for role in self.game.roles:
                    self.store.add_policy(role, RandomPolicy.of(self.game, role), "random", "random")

    def _start(self, context: PSROContext, work: Work) -> None:
        """Submit the work of a variant, or do it at once if it needs no training."""
        if isinstance(work, BestResponseTask):
            self._respond(context, work)
        elif isinstance(work, TrainingSegment):
            self.coordinator.submit(work.task, lambda result: self._commit(context, work.update(result)))
        else:
            if not self.store.done(work.step):
                self._commit(context, work)
            if work.plan_payoffs:
                self._plan_payoffs(work.step)

    def _respond(self, context: PSROContext, task: BestResponseTask) -> None:
        """Submit the training of a best response; commit an exact one at once."""
        if self.config.oracle == "exact" and self.store.done(task.name):
            return
        parent, answer = self.oracle.parent(context, task), self.oracle.best_response(context, task)

        def commit(response: BestResponse) -> None:
            self._commit(context, response_update(context, task, parent, response))

        if isinstance(answer, RemoteTask):
            # payoff cells are simulated while other responses train
            self.coordinator.submit(answer, commit, then=functools.partial(self._plan_payoffs, task.name))
        else:
            commit(answer)

    def _commit(self, context: PSROContext, update: StoreUpdate) -> None:
        """Write an update in one step of the store."""
        store = self.store
        with store.step(update.step) as result:
            for new in update.policies:
                kind = kind_of(new.policy)
                store.add_policy(new.role, new.policy, kind, parent=new.parent, iteration=context.iteration)
            for name, state in update.states.items():
                if state is None:
                    store.drop_state(name)
                else:
                    store.put_state(name, state)
            if (matches := update.matches) is not None:
                store.add_matches(context.iteration, matches.role, matches.matchups, matches.counts)
            result |= update.result
        if update.message and self.progress is not None:
            self.progress(context.iteration - 1, f"{update.message}, {update.steps:,} steps")

    def _plan_payoffs(self, step: str) -> None:
        """Plan the payoff cells of the policies that a step added."""
        if self.config.payoff_estimation == "sampled":
            self.payoffs.plan(f"{step}/payoffs")

    def _conclude(self, context: PSROContext, began: float) -> None:
        """Compute the meta-strategy and write the summary of an iteration."""
        number, meta_game = context.iteration, self._meta_game()
        strategy = self.variant.meta_strategy(context, meta_game)
        earlier = self.store.iterations()
        previous = None if self.strategy is None else nash_conv_lower_bound(meta_game, self.strategy)
        row: dict[str, Any] = {
            "policies": {role: len(self.populations[role]) for role in self.game.roles},
            "meta_strategy": [marginal.tolist() for marginal in strategy.marginals],
            "joint": None if strategy.joint is None else strategy.joint.tolist(),
            "value": (meta_game * strategy.distribution()).flatten(1).sum(1).tolist(),
            **UNKNOWN,
            "nash_conv_lower_bound": nash_conv_lower_bound(meta_game, strategy),
            "previous_nash_conv_lower_bound": previous,
            "seconds": time.perf_counter() - began,
            "episodes": int(self.store.cells().count.sum()),
            "best_iteration": None,
        }
        if self.tabular is None:
            lower = {at: nash_conv_lower_bound(meta_game, strategy_from_summary(old)) for at, old in earlier.items()}
            lower[number] = row["nash_conv_lower_bound"]
            row["best_iteration"] = min(lower, key=lambda at: (lower[at], -at))
        with self.store.step():
            self.store.put_iteration(number, row)
        self.strategy = strategy
        if self.evaluation is not None:
            self.evaluation.submit()
        elif self.progress is not None:
            self.progress(number, "")
        write_summary(self.store)

    # ---------------------------------------------------------------- the meta-game

    def _meta_game(self) -> Tensor:
        """Return the payoffs (S, N_1, ..., N_S) of all policies; NaN in cells without episodes."""
        if self.config.payoff_estimation == "sampled":
            return self.payoffs.table.meta_game()
        assert self.tabular is not None
        return self.tabular.payoffs(self.populations)

    def _solve(self, meta_game: Tensor) -> MetaStrategy:
        """Return the meta-solver's strategy for payoffs (S, N_1, ..., N_S), the same for all seats of a role."""
        settings = self.config.meta_solver_kwargs or DEFAULTS.get(self.solver, {})
        strategy = solvers.solve(self.solver, meta_game, **settings)
        if not self.game.shared:
            return strategy
        marginal = self.game.marginals_by_role(strategy.marginals)[self.game.roles[0]]
        joint = strategy.joint
        if joint is not None:
            orders = list(permutations(range(joint.dim())))
            joint = torch.stack([joint.permute(order) for order in orders]).mean(0)
        return MetaStrategy((marginal,) * len(self.game.seats), joint)


def _checked_solver(game: Game, config: PSROConfig) -> str:
    """Return the name of the meta-solver; raise ConfigError if it does not fit the game."""
    name = config.meta_solver
    if name == "auto":
        return "nash" if game.zero_sum and len(game.seats) == 2 else "prd"
    if name in ("nash", "max_entropy_nash") and not game.zero_sum and len(game.seats) == 2:
        raise ConfigError(
            f"meta_solver={name!r}: expected a zero-sum game, got {game.env_id}, which is not declared zero-sum; "
            "use prd, alpharank or cce"
        )
    return name
