"""The view of a PSRO run that variants and oracles work with, and the work that they return to the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gpu_envs.utils.progress import Progress
from league.evaluation.tabular_game import TabularGame
from league.executors.tasks import RemoteTask
from league.game import Game
from league.matchups.best_response import BestResponse, LearnedResponse
from league.matchups.matchup_distribution import MatchupDistribution, narrow, widen
from league.policies.kinds import StorablePolicy, kind_of
from league.policies.population import Population
from league.psro.config import PSROConfig
from league.solvers import MetaStrategy
from league.storage.run_store import RunStore
from trainers.base.state import State
from trainers.config.train_config import TrainConfig

LANE = "learn"
"""Lane of the coordinator whose work belongs to the current batch."""


@dataclass(frozen=True)
class PSROContext:
    """A run during one iteration, for reading. Variants and oracles return tasks and updates; the loop runs them."""

    iteration: int
    """Number of the iteration."""
    game: Game
    """Game of the run."""
    config: PSROConfig
    """Settings of the run."""
    store: RunStore
    """Records of the run."""
    populations: Mapping[str, Population]
    """Populations by role."""
    home_device: str
    """Device on which this process keeps policies and states."""
    train: TrainConfig | None
    """Training settings; None with the exact oracle."""
    tabular: TabularGame | None
    """Tabular form of the game; None if it is too large or policies are recurrent."""
    strategy: MetaStrategy | None
    """Meta-strategy of the previous iteration; None in the first one."""
    meta_game: Callable[[], Tensor]
    """Function that returns the current payoffs (S, N_1, ..., N_S)."""
    solve: Callable[[Tensor], MetaStrategy]
    """Function that applies the meta-solver to payoffs (S, N_1, ..., N_S)."""
    progress: Progress | None = None
    """Called with the progress of trainings."""

    @property
    def opponents(self) -> MetaStrategy:
        """Meta-strategy of the previous iteration, to which the policies of this one respond."""
        assert self.strategy is not None
        return self.strategy

    @property
    def scheduled_steps(self) -> int:
        """Environment steps over which the schedules of resumed learners extend: joint training and all responses."""
        assert self.train is not None
        iterations = int(self.store.config.get("iterations", self.config.iterations))  # of the run at its start
        return self.config.joint_steps + iterations * self.train.total_steps

    def require_tabular(self) -> TabularGame:
        """Return the tabular form of the game, which exact oracles and payoffs have."""
        assert self.tabular is not None
        return self.tabular


@dataclass(frozen=True)
class BestResponseTask:
    """One best response of an iteration."""

    iteration: int
    """Iteration that computes it."""
    role: str
    """Role whose population it joins."""
    number: int
    """Number among the responses of the role in this iteration."""
    opponents: MetaStrategy
    """Meta-strategy to respond to. The marginal of the learning seat is ignored."""
    recommendation: int | None = None
    """Index of the policy recommended to the learning seat: the response is to the joint distribution of the other
    seats conditional on it. None: to the meta-strategy of the other seats."""
    parent: int | None = None
    """Index of the policy from which training starts; None: the latest learned policy of the role."""
    function: Callable[..., BestResponse] | None = None
    """Function that computes it; None: the default of the oracle.

    A learned response is `function(policies, game=, role=, draw=, train=, start=, seed=, progress=, **arguments)` and
    may run in another process, or with `sharded=True` in several. An exact one is `function(context, task,
    **arguments)`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the function."""

    @property
    def name(self) -> str:
        """Name of its step in the store."""
        return f"{self.iteration}/respond/{self.role}/{self.number}"

    def matchups(self, game: Game) -> MatchupDistribution:
        """Return the distribution of its training episodes over matchups."""
        joint = self.opponents.joint
        marginals = self.opponents.marginals if joint is None else None
        return MatchupDistribution.against(game, self.role, marginals, joint=joint, recommendation=self.recommendation)


@dataclass(frozen=True)
class NewPolicy:
    """A policy that joins a population."""

    role: str
    """Role of the population."""
    policy: StorablePolicy
    """Policy to save."""
    parent: int | None = None
    """Index of the policy from which its training started; None: none."""


@dataclass(frozen=True)
class StoreUpdate:
    """The content of one step of the store."""

    step: str
    """Name of the step."""
    policies: Sequence[NewPolicy] = ()
    """Policies to add."""
    states: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """States to write by name; None: to delete."""
    matches: tuple[str, Tensor, Tensor] | None = None
    """Training episodes to count: role of the learner, matchups (K, S) and their numbers of episodes (K,)."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """JSON result of the step."""
    plan_payoffs: bool = False
    """True if the payoff cells of the new policies are planned after the step."""
    steps: int = 0
    """Environment steps for the progress report."""
    message: str = ""
    """Text for the progress report; empty: no report."""


@dataclass(frozen=True)
class ComputedUpdate:
    """A task, and the update that follows from its result; it adds no policies."""

    task: RemoteTask
    """Task to execute."""
    update: Callable[[Any], StoreUpdate]
    """Function from the result of the task to the update."""
    then: Callable[[], Sequence[ComputedUpdate]] | None = None
    """Function that returns the work that follows the update at once; None: none."""
    lane: str = LANE
    """Lane of the coordinator. The loop waits for the default one only."""


Work = BestResponseTask | ComputedUpdate | StoreUpdate
"""Work that the loop executes: a best response of the oracle, an update computed by a task, or a given update."""


def apply_update(store: RunStore, iteration: int, update: StoreUpdate) -> None:
    """Write an update of an iteration in one step of the store."""
    with store.step(update.step) as result:
        for new in update.policies:
            store.add_policy(new.role, new.policy, kind_of(new.policy), parent=new.parent, iteration=iteration)
        for name, state in update.states.items():
            if state is None:
                store.drop_state(name)
            else:
                store.put_state(name, state)
        if update.matches is not None:
            store.add_matches(iteration, *update.matches)
        result |= update.result


def response_update(
    context: PSROContext, task: BestResponseTask, parent: int | None, response: BestResponse
) -> StoreUpdate:
    """Return the update that adds a best response, and the policies that come with it, to the populations."""
    policies = [NewPolicy(task.role, response.policy, parent)]
    policies += [NewPolicy(role, policy) for role, policy in response.extra_policies.items()]
    if not isinstance(response, LearnedResponse):
        return StoreUpdate(task.name, policies, result=response.record)
    states: dict[str, State] = {}
    if context.config.response_init != "scratch":
        states[learner_state(task.role, len(context.populations[task.role]))] = response.state
    indices, _ = narrow(context.game, task.matchups(context.game).matchups)
    tally = response.tally
    matches = task.role, widen(context.game, indices, tally.matchups), tally.count
    result = {"steps": response.steps, "seconds": response.seconds, "episodes": response.episodes}
    result |= {"return": tally.mean_return(), **response.record}
    return StoreUpdate(task.name, policies, states, matches, result)


def learner_state(role: str, index: int) -> str:
    """Return the name of the state of the learner that trained a policy."""
    return f"response.{role}.{index}"
