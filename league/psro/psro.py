"""Policy-space response oracles: populations that grow by best responses to a meta-strategy over themselves.

Source: Lanctot et al. 2017, "A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning". With exact best
responses and payoffs and the Nash equilibrium as meta-strategy it is the double oracle algorithm (McMahan et al. 2003).

`PSRO` is the loop: in every iteration it trains best responses, fills the payoff table, solves the meta-game and stores
a summary. A variant decides which responses an iteration trains, an oracle how. Both read a `PSROContext` and return
tasks or updates of the store, and only the loop executes them.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import ConfigError
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.summaries import Summarized, Summary
from league import solvers
from league.evaluation.nash_conv import Evaluation, strategy_from_summary
from league.evaluation.payoff_filler import PayoffFiller, PayoffSamplingConfig
from league.evaluation.tabular_game import TabularGame, is_recurrent
from league.executors.coordinator import Coordinator
from league.executors.tasks import Executor, RemoteTask
from league.game import Game
from league.matchups.best_response import BestResponse
from league.policies.population import Population
from league.psro.config import DEFAULTS, PSROConfig
from league.psro.iteration_summary import latest_strategy, psro_summary
from league.psro.joint_start import STEP, check_joint_start, joint_start_task, joint_start_update
from league.psro.oracles import ExactOracle, LearnedOracle, Oracle
from league.psro.variants.anytime import AnytimeVariant
from league.psro.variants.async_pipeline import AsyncPipelineVariant
from league.psro.variants.extensive_form import ExtensiveFormVariant
from league.psro.variants.pipeline import PipelineVariant
from league.psro.variants.self_play import SelfPlayVariant
from league.psro.variants.standard import RectifiedVariant, StandardVariant
from league.psro.work import (
    LANE,
    BestResponseTask,
    ComputedUpdate,
    PSROContext,
    StoreUpdate,
    Work,
    apply_update,
    response_update,
)
from league.solvers import MetaStrategy
from league.storage.run_config import training, write_summary
from league.storage.run_store import RunStore
from trainers.config.train_config import TrainConfig

VARIANTS: dict[str, type[StandardVariant]] = {
    "standard": StandardVariant,
    "rectified": RectifiedVariant,
    "pipeline": PipelineVariant,
    "anytime": AnytimeVariant,
    "self_play": SelfPlayVariant,
    "xdo": ExtensiveFormVariant,
}
"""Variants by name."""


class PSRO(Summarized):
    """A run of PSRO. Its store holds all progress, so that an interrupted run can be resumed."""

    def __init__(
        self, store: RunStore, config: PSROConfig, progress: Progress | None = None, executor: Executor | None = None
    ) -> None:
        """Set up a run.

        Args:
            store: Store of the run.
            config: Settings with which the run started, except `iterations`.
            progress: Called with the progress of trainings in this process and with every finished iteration.
            executor: Executor of trainings and simulations; None: this process. The result does not depend on it, if
                the run is not asynchronous.

        Raises:
            ConfigError: The settings do not fit the game.
        """
        self.store: RunStore = store
        self.game: Game = store.game
        self.config: PSROConfig = config
        self.progress: Progress | None = progress
        self.populations: dict[str, Population] = store.populations
        self.coordinator: Coordinator = Coordinator(store, executor)
        self.home_device: str = self.coordinator.home(config.device)
        for population in self.populations.values():  # every policy can be an opponent at any time
            population.device, population.keep = self.home_device, sys.maxsize
        self.callbacks: list[Callable[[dict[str, Any]], object]] = [
            named_object("callback", name, ["row"]) for name in config.callback
        ]
        self.oracle: Oracle = self._make_oracle()
        check_joint_start(self.game, config)
        self.solver, self.solver_settings = self._choose_solver()
        self._solve(torch.zeros((len(self.game.seats), *[1] * len(self.game.seats))))  # checks the settings
        exact = self.oracle.is_exact
        tabular = TabularGame.of(self.game, required=exact or config.payoff_estimation == "exact")
        learned = not exact
        self.train: TrainConfig | None = training(self.game, config.device, config.train_overrides) if learned else None
        if self.train is not None:
            self.train.prepare()  # the first tasks play matchups, which start CUDA
        recurrent = self.train is not None and is_recurrent(self.train)
        if recurrent and config.payoff_estimation == "exact":
            raise ConfigError(
                "payoff_estimation='exact': expected policies without recurrence, got network='gru'; "
                "use payoff_estimation='sampled'"
            )
        self.tabular: TabularGame | None = None if recurrent else tabular
        self.variant: StandardVariant = self._make_variant()
        sampling = PayoffSamplingConfig(
            config.episodes_per_matchup, config.ci_half_width, config.device, config.eval_num_envs
        )
        self.payoffs: PayoffFiller = PayoffFiller(store, self.coordinator, sampling, config.seed)
        self.evaluation: Evaluation | None = None
        if self.tabular is not None:
            self.evaluation = Evaluation(store, self.coordinator, strategy_from_summary, progress)
        self.strategy: MetaStrategy | None = None
        """Meta-strategy of the last finished iteration."""
        self._latest: PSROContext | None = None

    def _summary(self) -> Summary:
        config = self.config
        variant = f"{config.variant}, {config.meta_solver}, {config.oracle} responses"
        return self.store.summary_with(variant=variant, iterations=config.iterations, device=self.home_device)

    def run(self) -> list[dict[str, Any]]:
        """Run the remaining iterations; return the summaries of all iterations."""
        self._resume()
        for number in range(len(self.store.iterations()), self.config.iterations + 1):
            self.iterate(number)
        if self.evaluation is not None:
            self.evaluation.finish()
        self.coordinator.cancel()  # an asynchronous variant has trainings under way
        write_summary(self.store)
        return list(self.store.iterations().values())

    def iterate(self, number: int) -> None:
        """Train best responses, fill the payoff table, solve the meta-game, and store the summary."""
        began, context = time.perf_counter(), self._context(number)
        self._latest = context
        if number == 0:
            self._add_random_policies()
            if self.config.joint_steps:
                self._add_joint_policies(context)
        else:
            self._add_responses(context)
        if self.config.payoff_estimation == "sampled":
            self.payoffs.fill(f"{number}/payoffs")
        meta_game = self._meta_game()
        strategy = self.variant.meta_strategy(context, meta_game)
        summary = psro_summary(context, meta_game, strategy, time.perf_counter() - began)
        with self.store.step():
            self.store.put_iteration(number, summary)
        self.strategy = strategy
        if self.evaluation is not None:
            self.evaluation.submit()
        elif self.progress is not None:
            self.progress(number, "")
        for callback in self.callbacks:  # with NashConv, if an executor in this process has computed it
            callback({"iteration": number, **self.store.iterations()[number]})
        write_summary(self.store)

    # ---------------------------------------------------------------- setup

    def _make_oracle(self) -> Oracle:
        """Return the oracle of the configuration."""
        kind = {"learned": LearnedOracle, "exact": ExactOracle}.get(self.config.oracle)
        return (kind or named_object("oracle", self.config.oracle, Oracle))()

    def _make_variant(self) -> StandardVariant:
        """Return the variant of the configuration; raise ConfigError if it does not fit the game."""
        name = self.config.variant
        kind = AsyncPipelineVariant if self.config.asynchronous else VARIANTS.get(name)
        kind = kind or named_object("variant", name, StandardVariant)
        return kind(self.game, self.config)

    def _resume(self) -> None:
        """Read the progress from the store, and submit the pending payoffs and evaluations of an interrupted run."""
        self.coordinator.cancel()
        if self.config.asynchronous:
            self.variant = self._make_variant()  # it reads its progress again
        self.strategy = latest_strategy(self.store)
        self.payoffs.resume()
        if self.evaluation is not None:
            self.evaluation.submit()

    def _choose_solver(self) -> tuple[str, dict[str, Any]]:
        """Return the name and the settings of the meta-solver; raise ConfigError if it does not fit the game."""
        name, is_two_player = self.config.meta_solver, len(self.game.seats) == 2
        if name == "auto":
            name = "nash" if self.game.zero_sum and is_two_player else "prd"
        elif name in ("nash", "max_entropy_nash") and not self.game.zero_sum and is_two_player:
            raise ConfigError(
                f"meta_solver={name!r}: expected a zero-sum game, got {self.game.env_id}, which is not declared "
                "zero-sum; use prd, alpharank or cce"
            )
        return name, self.config.meta_solver_kwargs or DEFAULTS.get(name, {})

    def _context(self, number: int) -> PSROContext:
        """Return the view of the run for the variant and the oracle."""
        return PSROContext(
            iteration=number,
            game=self.game,
            config=self.config,
            store=self.store,
            populations=self.populations,
            home_device=self.home_device,
            train=self.train,
            tabular=self.tabular,
            strategy=self.strategy,
            meta_game=self._meta_game,
            solve=self._solve,
            progress=self.progress,
        )

    def _meta_game(self) -> Tensor:
        """Return the payoffs (S, N_1, ..., N_S) of all policies; NaN in cells without episodes."""
        if self.config.payoff_estimation == "sampled":
            return self.payoffs.table.meta_game()
        assert self.tabular is not None
        return self.tabular.payoffs(self.populations)

    def _solve(self, meta_game: Tensor) -> MetaStrategy:
        """Return the meta-strategy of payoffs (S, N_1, ..., N_S).

        With a shared population all seats have the same marginal, and a joint distribution is the mean over all orders
        of the seats.
        """
        strategy = solvers.solve(self.solver, meta_game, **self.solver_settings)
        if not self.game.shared:
            return strategy
        marginal = self.game.marginals_by_role(strategy.marginals)[self.game.roles[0]]
        joint = strategy.joint
        if joint is not None:
            orders = list(permutations(range(joint.dim())))
            joint = torch.stack([joint.permute(order) for order in orders]).mean(0)
        return MetaStrategy((marginal,) * len(self.game.seats), joint)

    # ---------------------------------------------------------------- new policies

    def _add_random_policies(self) -> None:
        """Add a random policy to every population."""
        if not self.store.done("0/begin"):
            with self.store.step("0/begin"):
                for role in self.game.roles:
                    self.store.add_random_policy(role)

    def _add_joint_policies(self, context: PSROContext) -> None:
        """Add snapshots of learners that train in the same worlds to every population."""
        self.coordinator.submit(
            joint_start_task(context),
            lambda training: self._commit(context, joint_start_update(context, training)),
            then=functools.partial(self._plan_payoffs, STEP),
        )
        self.coordinator.wait(LANE)

    def _add_responses(self, context: PSROContext) -> None:
        """Execute the work of the variant, one batch after the other."""
        for batch in self.variant.advance(context):
            for work in batch or ():
                self._start(context, work)
            if batch is None:
                self.coordinator.wait(once=True)
            else:
                self.coordinator.wait(LANE)

    def _start(self, context: PSROContext, work: Work) -> None:
        """Submit work, or do it at once if it needs no task."""
        if isinstance(work, BestResponseTask):
            self._respond(context, work)
        elif isinstance(work, ComputedUpdate):
            commit, then = (lambda result: self._commit(context, work.update(result))), None
            if work.then is not None:
                then = functools.partial(self._follow, work.then)
            self.coordinator.submit(work.task, commit, then, work.lane)
        else:
            if not self.store.done(work.step):
                self._commit(context, work)
            if work.plan_payoffs:
                self._plan_payoffs(work.step)

    def _follow(self, then: Callable[[], Sequence[Work]]) -> None:
        """Start the work that follows an update, maybe in a later iteration than the update's."""
        assert self._latest is not None
        for work in then():
            self._start(self._latest, work)

    def _respond(self, context: PSROContext, task: BestResponseTask) -> None:
        """Submit the training of a best response; commit an exact one at once."""
        if self.oracle.is_exact and self.store.done(task.name):
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
        """Write an update and report it."""
        apply_update(self.store, context.iteration, update)
        if update.message and self.progress is not None:
            self.progress(context.iteration - 1, f"{update.message}, {update.steps:,} steps")

    def _plan_payoffs(self, step: str) -> None:
        """Plan the payoff cells of the policies that a step added."""
        if self.config.payoff_estimation == "sampled":
            self.payoffs.plan(f"{step}/payoffs")
