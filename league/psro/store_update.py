"""Changes of a run's store, computed by oracles and variants and committed by the loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from league.executors import RemoteTask
from league.policies.kinds import StorablePolicy, kind_of
from league.psro.best_response_task import BestResponseTask
from league.psro.context import PSROContext
from league.rollout.best_response import BestResponse, LearnedResponse
from league.rollout.matchup_distribution import narrow, widen
from league.storage.run_store import RunStore
from trainers.base.state import State

__all__ = [
    "ComputedUpdate",
    "NewPolicy",
    "StoreUpdate",
    "TrainingMatches",
    "apply_update",
    "learner_state",
    "response_update",
]


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
class TrainingMatches:
    """Numbers of training episodes by matchup."""

    role: str
    """Role of the learner."""
    matchups: Tensor
    """(K, S) indices of policies."""
    counts: Tensor
    """(K,) numbers of episodes."""


@dataclass(frozen=True)
class StoreUpdate:
    """The content of one step of the store."""

    step: str
    """Name of the step."""
    policies: Sequence[NewPolicy] = ()
    """Policies to add."""
    states: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """States to write by name; None: to delete."""
    matches: TrainingMatches | None = None
    """Training episodes to count."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """JSON result of the step."""
    plan_payoffs: bool = False
    """True if the payoff cells of the new policies are planned after the step."""
    steps: int = 0
    """Environment steps for the progress report."""
    message: str = ""
    """Text for the progress report; empty: no report."""


LANE = "learn"
"""Lane of the coordinator whose work belongs to the current batch."""


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
        if (matches := update.matches) is not None:
            store.add_matches(iteration, matches.role, matches.matchups, matches.counts)
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
    matches = TrainingMatches(task.role, widen(context.game, indices, tally.matchups), tally.count)
    result = {"steps": response.steps, "seconds": response.seconds, "episodes": response.episodes}
    result |= {"return": tally.mean_return(), **response.record}
    return StoreUpdate(task.name, policies, states, matches, result)


def learner_state(role: str, index: int) -> str:
    """Return the name of the state of the learner that trained a policy."""
    return f"response.{role}.{index}"
