"""Rollouts of learners whose policies act inside the kernels of the environments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.runtime.rollout.policy_rollout import PolicyRollout
from gpu_envs.runtime.rollout.trace import RolloutTrace
from trainers.base.agent_group import AgentGroup, agent_rows_of
from trainers.buffers.rollout_buffer import final_obs_capacity
from trainers.config.train_config import TrainConfig
from trainers.runner.agent_assignment import PolicyAssignment
from trainers.runner.episode_statistics import EpisodeStatistics
from trainers.runner.opponents import Opponents


class KernelRollout:
    """One rollout of all agents, each with the policy of its learner, as one launch or one chain of launches.

    With opponents, environments draw the matchup of every episode inside the kernels.
    """

    version: int = 0
    """Number that changes when launches were recorded again, so that a captured rollout is invalid."""

    def __init__(
        self,
        config: TrainConfig,
        core: Core,
        assignments: Mapping[str, PolicyAssignment],
        policies: Mapping[str, KernelPolicy],
        opponents: Opponents | None = None,
    ) -> None:
        """Allocate the buffers and record the launches.

        Args:
            config: Configuration of the run.
            core: The environments.
            assignments: Agents and learner of each policy, by its name.
            policies: Policies of the learners, by name.
            opponents: Other policies in the environments of the learners, if any.
        """
        self.core: Core = core
        self.length: int = config.learner.rollout_length
        self.opponents: Opponents | None = opponents
        self.parts: list[tuple[Any, AgentGroup]] = [(a.learner, a.agents) for a in assignments.values()]
        self.policies: dict[str, KernelPolicy] = dict(policies)
        limit, truncations = core.definition.max_episode_steps, config.learner.truncation_capacity
        capacity = final_obs_capacity(self.length, limit, 1, truncations)
        self.trace: RolloutTrace = RolloutTrace.allocate(core, self.length, capacity, matchups=opponents is not None)
        self._valid = torch.zeros_like(self.trace.valid)
        self.plan: PolicyRollout | None = None
        self._opponents_version: int | None = None
        if opponents is None:
            index = torch.full((core.num_agents,), -1)
            for number, assignment in enumerate(assignments.values()):
                index[agent_rows_of(core, assignment.members)] = number
            self.plan = PolicyRollout(core, list(policies.values()), index, self.trace)

    def share(self, episodes: EpisodeStatistics) -> None:
        """Let the statistics of episodes read the buffers of the rollouts."""
        episodes.over, episodes.returns = self.trace.restarted, self.trace.episode_return
        episodes.lengths, episodes.results = self.trace.episode_length, self.trace.episode_results

    def prepare(self) -> bool:
        """Take over changed opponents and their matchups; return whether the next rollout can use kernels."""
        opponents = self.opponents
        if opponents is None or opponents.kernel_version == self._opponents_version:
            return self.plan is not None
        self._opponents_version = opponents.kernel_version
        table = opponents.kernel_table(list(self.policies))
        if table is None:
            self.version += self.plan is not None
            self.plan = None
            return False
        policies, index, matchup, draw = [*self.policies.values(), *table[0]], table[1], opponents.drawn, opponents.draw
        if self.plan is not None and self.plan.draw is draw:
            self.version += self.plan.assign(policies, index, matchup)
        else:
            self.version += 1
            self.plan = PolicyRollout(self.core, policies, index, self.trace, matchup=matchup, draw=draw, flexible=True)
        return True

    def play(self) -> None:
        """Play one rollout with the learners' present weights, and store it in their buffers."""
        assert self.plan is not None
        for learner, _ in self.parts:
            learner.kernel_policy()  # packs the weights in place
        self.core.rollout(self.plan, self.length)
        trace = self.trace
        if self.opponents is not None:
            learns = self.opponents.store(trace, self.plan.matchup)
            torch.logical_and(trace.valid, learns, out=self._valid)  # in place: recorded launches read it
            trace = dataclasses.replace(trace, valid=self._valid)
        for learner, agents in self.parts:
            learner.rollout.load_trace(trace, agents.rows, agents.choices)


def make_kernel_rollout(
    config: TrainConfig,
    core: Core,
    assignments: Mapping[str, PolicyAssignment],
    opponents: Opponents | None = None,
) -> KernelRollout | None:
    """Return the rollouts in kernels, or None if they are played step by step, see `reason_for_steps`.

    Raises:
        ConfigError: The engine is "kernel", and the environment has no rules for kernels.
    """
    if config.engine == "kernel" and not isinstance(core, Core):
        raise ConfigError(f"{core.id}: engine = 'kernel': expected an environment with rules for kernels; use 'auto'")
    if reason_for_steps(core, assignments):
        return None
    policies = {name: assignment.kernel_policy() for name, assignment in assignments.items()}
    present = {name: policy for name, policy in policies.items() if policy is not None}
    return KernelRollout(config, core, assignments, present, opponents)


def reason_for_steps(core: Core, assignments: Mapping[str, PolicyAssignment]) -> str:
    """Return why rollouts are played step by step although kernels support a policy; "" if kernels play them."""
    if not isinstance(core, Core):
        return "an environment without rules for kernels"
    for name, assignment in assignments.items():
        if assignment.clock is not None:
            return f"{name} decides every {assignment.clock.interval} steps"
        if assignment.kernel_policy() is None:
            return f"PyTorch acts as {name}"
    return ""
