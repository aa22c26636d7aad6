"""Evaluation during a training: every team against fixed opponents, with the same seed every time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from trainers.base.agent_group import agent_rows_of
from trainers.config.train_config import CoreFactory, TrainConfig, make_eval_core, make_train_core
from trainers.evaluation.kernel_episodes import KernelPlayers
from trainers.evaluation.policy_evaluation import (
    EpisodeMetric,
    evaluate_policies,
    find_metrics,
    load_opponents,
    teams,
)
from trainers.evaluation.scripted_policies import SCRIPTED, scripted_policy
from trainers.models.policy import PolicyProtocol

EVAL_SEED = 271_828
"""Seed of evaluation environments; training environments use the seed of the run."""
FINAL_SEED = 161_803
"""Seed of evaluations after a training; it differs from the seeds of training and of its evaluations."""


class TrainingEvaluator:
    """Evaluate policies in separate environments, without using random streams of the training."""

    def __init__(
        self,
        config: TrainConfig,
        core: Core,
        sides: Mapping[str, tuple[str, ...]],
        factory: CoreFactory = make_train_core,
        seed: int = EVAL_SEED,
    ) -> None:
        """Load the policies of `config.eval_opponents`, if set; the first evaluation creates the environments.

        Args:
            config: Configuration of the run.
            core: Environments of the training.
            sides: Groups or agents that each policy controls, by its name.
            factory: Creates the environments.
            seed: Seed of the episodes.

        Raises:
            ConfigError: `eval_opponents` is set, but all agents share one policy and are no opponents; or it is
                "scripted", but there is no script for the environment; or `eval_metric` names no function of episodes,
                or one with the name of a column that every evaluation has.
            CheckpointError: The policies of `eval_opponents` do not fit the environment.
        """
        self.config: TrainConfig = config
        self.sides: Mapping[str, tuple[str, ...]] = sides
        self.shared_groups: list[str] = _shared_groups(core, sides)
        self.factory: CoreFactory = factory
        self.seed: int = seed
        self.results: tuple[str, ...] = tuple(core.definition.results)
        self.metrics: Mapping[str, EpisodeMetric] = find_metrics(config.eval_metric)
        if repeated := [name for name in self.metrics if name in self._metrics(())]:
            raise ConfigError(
                f"eval_metric: every evaluation of {core.id} has a column {repeated[0]} already; rename the function"
            )
        self.core: Core | None = None
        self.kernels: KernelPlayers | None = None
        self.matchups: list[dict[str, str]] = []
        self.opponents: dict[str, PolicyProtocol] = {}
        if config.eval_opponents is not None:
            self.check_opponents(core, "eval_opponents")
            if config.eval_opponents == SCRIPTED:
                self.opponents = self._scripted(core)  # errors before the run starts
            else:
                policies = load_opponents(Path(config.eval_opponents), config.env_id, self.sides, core)[1]
                self.opponents = {member: policies[name] for member, name in self._seats(core).items()}

    def check_opponents(self, core: Core, setting: str) -> None:
        """Raise ConfigError, which names a setting, unless opponents can play a part of the agents of `core`."""
        if len(self.sides) == 1 and len(self._role_matchups(core)) < 2:
            remedy = ", or train with sharing: agent" if core.num_agents > 1 else ""
            raise ConfigError(f"{setting}: all agents of {core.id} share one policy; leave it out{remedy}")

    @property
    def columns(self) -> list[str]:
        """Names of the entries of `scores`."""
        names = [*self.sides, *self.shared_groups]
        quantities = [*self._metrics(()), *self.metrics]
        return [*(f"eval/{name}/{quantity}" for name in names for quantity in quantities), "eval/score"]

    def scores(self, policies: Mapping[str, PolicyProtocol]) -> dict[str, float]:
        """Return the entries of the row of metrics of policies by name.

        They are "eval/<policy>/return", the sum over the policy's agents, "eval/<policy>/episode_length_mean",
        "eval/<policy>/RESULT_mean" of the declared results (`EnvDefinition.results`), the mean over these agents, and
        "eval/<policy>/NAME" of the functions in `config.eval_metric`. Groups whose agents are a team with several
        policies have the same entries by the name of the group. "eval/score" is the mean return of the groups, so it
        does not depend on which agents share a policy.

        In a zero-sum game, a policy plays its roles in turn; the entries and the score are means over the roles.
        """
        if self.core is None:
            self.core = make_eval_core(self.config, self.config.eval_episodes, self.config.seed, self.factory)
            self.matchups = self._matchups(self.core)
            if self.config.eval_opponents == SCRIPTED:
                self.opponents = self._scripted(self.core)  # they read the worlds that they play in
            members = {member: policies[name] for matchup in self.matchups for member, name in matchup.items()}
            self.kernels = KernelPlayers(self.core, [members, self.opponents])
        values: dict[str, list[float]] = {}
        scores: list[float] = []
        for matchup in self.matchups:
            players = {**self.opponents, **{member: policies[name] for member, name in matchup.items()}}
            rows_by_name: dict[str, list[int]] = {}
            for member, name in matchup.items():
                rows_by_name.setdefault(name, []).extend(agent_rows_of(self.core, [member]))
            trained_rows = {row for rows in rows_by_name.values() for row in rows}
            groups = {name: [row for row in rows if row in trained_rows] for name, rows in self.core.groups.items()}
            rows_by_name |= {name: groups[name] for name in self.shared_groups if groups[name]}
            metrics = {
                f"eval/{name}/{metric}": function
                for name, rows in rows_by_name.items()
                for metric, function in self._metrics(rows).items()
            }
            totals = {f"eval/score/{name}": _total_of(rows) for name, rows in groups.items() if rows}
            outcome = evaluate_policies(
                self.core,
                players,
                seed=self.seed,
                greedy=self.config.eval_greedy,
                engine=self.config.engine,
                kernels=self.kernels,
                metrics={**metrics, **totals, **self.metrics},
            )
            entries = {column: outcome.metrics[column] for column in metrics}
            entries |= {
                f"eval/{name}/{metric}": outcome.metrics[metric] for name in rows_by_name for metric in self.metrics
            }
            for column, estimate in entries.items():
                values.setdefault(column, []).append(estimate.mean)
            scores += [outcome.metrics[name].mean for name in totals]
        means = {column: statistics.fmean(values[column]) for column in self.columns if column in values}
        return {**means, "eval/score": statistics.fmean(scores)}

    def _scripted(self, core: Core) -> dict[str, PolicyProtocol]:
        return {member: scripted_policy(core, member) for member in self._seats(core)}

    def _seats(self, core: Core) -> dict[str, str]:
        """Return the policy of each group or agent that has one role."""
        by_role = {member: name for matchup in self._role_matchups(core) for member, name in matchup.items()}
        return by_role or {member: name for name, members in self.sides.items() for member in members}

    def _matchups(self, core: Core) -> list[dict[str, str]]:
        """Return the policies that play together in each matchup of an evaluation, by group or agent."""
        if matchups := self._role_matchups(core):
            return matchups
        names = teams(core, self.sides, self.seed)
        return [{member: name for name in team for member in self.sides[name]} for team in names]

    def _role_matchups(self, core: Core) -> list[dict[str, str]]:
        """Return the policies of each role of a zero-sum game, by group or agent; [] for other environments."""
        roles = core.definition.roles.values() if are_roles_opponents(core) else ()
        matchups = [self._members_in(core, agents) for agents in roles]
        return [matchup for matchup in matchups if matchup]

    def _members_in(self, core: Core, role: Sequence[str]) -> dict[str, str]:
        """Return the policies of the agents of a role, by group or agent."""
        role_rows, matchup = set(agent_rows_of(core, role)), dict[str, str]()
        for name, members in self.sides.items():
            for member in members:
                rows = agent_rows_of(core, [member])
                agents = [core.possible_agents[row] for row in rows if row in role_rows]
                matchup |= dict.fromkeys([member] if len(agents) == len(rows) else agents, name)
        return matchup

    def _metrics(self, rows: Sequence[int]) -> dict[str, EpisodeMetric]:
        """Return the metrics of the agents in these rows by name."""

        def mean_of(result: str) -> EpisodeMetric:
            return lambda episodes: episodes.last_info[result][:, rows].mean(1)

        results = {f"{result}_mean": mean_of(result) for result in self.results}
        return {"return": _total_of(rows), "episode_length_mean": lambda episodes: episodes.length, **results}


def _total_of(rows: Sequence[int]) -> EpisodeMetric:
    """Return the metric that sums the returns of the agents in these rows."""
    return lambda episodes: episodes.returns[:, rows].sum(1)


def are_roles_opponents(core: Core) -> bool:
    """Return whether the roles of an environment are the opponents of a zero-sum game."""
    return core.definition.zero_sum and len(core.definition.roles) > 1


def _shared_groups(core: Core, sides: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the groups of teammates that several policies control."""
    owners = {row: name for name, members in sides.items() for row in agent_rows_of(core, members)}
    roles = [set(agent_rows_of(core, role)) for role in core.definition.roles.values()]
    groups = []
    for group, rows in core.groups.items():
        is_team = not are_roles_opponents(core) or any(role.issuperset(rows) for role in roles)
        if is_team and group not in sides and len({owners[row] for row in rows if row in owners}) > 1:
            groups.append(group)
    return groups
