"""Oracles of PSRO: learned best responses, and exact ones of tabular games."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod

from league.executors.tasks import RemoteTask
from league.matchups.best_response import BestResponse, RoleStart, train_best_response
from league.matchups.matchup_distribution import narrow
from league.policies.team import has_networks
from league.psro.work import BestResponseTask, PSROContext, learner_state
from league.storage.run_store import derive_named_seed


class Oracle(ABC):
    """Source of the best responses of a run."""

    is_exact: bool = False
    """Whether responses are computed on the tree of a tabular game, not trained."""

    @abstractmethod
    def best_response(self, context: PSROContext, task: BestResponseTask) -> RemoteTask | BestResponse:
        """Return a best response, or the task that computes it."""

    @abstractmethod
    def parent(self, context: PSROContext, task: BestResponseTask) -> int | None:
        """Return the index of the policy from which training starts; None: random weights."""


class LearnedOracle(Oracle):
    """Train best responses with any algorithm of `trainers`; opponents are sampled at the start of every episode."""

    def best_response(self, context: PSROContext, task: BestResponseTask) -> RemoteTask:
        """Return the training of a response for `train.total_steps` environment steps.

        Only the opponents in the support of the task's meta-strategy travel. With `response_init="resume"`, schedules
        end at the end of the run.
        """
        assert context.train is not None
        config, draw = context.config, task.matchups(context.game)
        indices, narrowed = narrow(context.game, draw.matchups)
        policies = {role: [context.populations[role][index] for index in members] for role, members in indices.items()}
        arguments = {
            "game": context.game,
            "role": task.role,
            "draw": dataclasses.replace(draw, matchups=narrowed),
            "train": context.train,
            "start": self._start(context, task),
            "seed": derive_named_seed(config.seed, task.name),
            **task.arguments,
        }
        if config.response_init == "resume" and task.function is None:
            arguments["train"] = dataclasses.replace(context.train, total_steps=context.scheduled_steps)
            arguments["steps"] = context.train.total_steps
        function, progress = task.function or train_best_response, context.progress
        report = (
            None if progress is None else lambda done, text: progress(task.iteration - 1, f"{text}, {done:,} steps")
        )
        shards = context.train.num_envs
        return RemoteTask(task.name, function, policies, arguments, True, config.device, shards, report)

    def parent(self, context: PSROContext, task: BestResponseTask) -> int | None:
        """Return the index of the policy from which training starts; None: random weights."""
        if context.config.response_init == "scratch":
            return None
        population, index = context.populations[task.role], task.parent
        if index is None:  # without the responses of this iteration
            earlier = [entry for entry in population.entries if entry.iteration < task.iteration]
            index = max((entry.index for entry in earlier if entry.kind in ("policy", "team")), default=0)
        stored = context.store.has_state(learner_state(task.role, index))
        return index if stored or has_networks(population[index]) else None

    def _start(self, context: PSROContext, task: BestResponseTask) -> RoleStart | None:
        """Return the complete learner to start from, critics included; an untrained critic would spoil the actor."""
        parent = self.parent(context, task)
        if parent is None:
            return None
        state = context.store.state(learner_state(task.role, parent), context.home_device)
        if state is not None:
            return state
        policy = context.populations[task.role][parent]
        return policy if has_networks(policy) else None


class ExactOracle(Oracle):
    """Compute the best pure policy on the whole game tree; ties go to the lowest action."""

    is_exact = True

    def best_response(self, context: PSROContext, task: BestResponseTask) -> BestResponse:
        """Return an exact best response; it does not depend on the random seed."""
        if task.function is not None:
            return task.function(context, task, **task.arguments)
        tabular = context.require_tabular()
        policy, value = tabular.best_response(context.populations, task.role, task.opponents, task.recommendation)
        return BestResponse(policy, record={"return": value})

    def parent(self, context: PSROContext, task: BestResponseTask) -> int | None:
        """Return None: exact responses are computed without initial weights."""
        return None
