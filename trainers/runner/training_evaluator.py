"""Evaluation during a training: every team against fixed opponents, with the same seed every time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from trainers.config.train_config import CoreFactory, TrainConfig, make_eval_core, make_train_core
from trainers.evaluation.kernel_episodes import KernelPlayers
from trainers.evaluation.policy_evaluation import (
    EpisodeMetric,
    Team,
    by_member,
    evaluate_policies,
    find_metrics,
    load_opponents,
    teams,
)
from trainers.evaluation.scripted_policies import SCRIPTED, scripted_policies_of
from trainers.models.policy import PolicyProtocol
from trainers.runner.agent_assignment import PolicyAssignment

EVAL_SEED = 271_828
"""Seed of evaluation environments; training environments use the seed of the run."""


class TrainingEvaluator:
    """Evaluate the current policies in separate environments, without using random streams of the training."""

    def __init__(
        self,
        config: TrainConfig,
        core: Core,
        assignments: Mapping[str, PolicyAssignment],
        factory: CoreFactory = make_train_core,
    ) -> None:
        """Load the policies of `config.eval_opponents`, if set; the first evaluation creates the environments.

        Args:
            config: Configuration of the run.
            core: Environments of the training.
            assignments: Agents and learner of each policy, by its name.
            factory: Creates the environments.

        Raises:
            ConfigError: `eval_opponents` is set, but all agents share one policy; or it is "scripted", but there is no
                script for the environment; or `eval_metric` names no function of episodes.
            CheckpointError: The policies of `eval_opponents` do not fit the environment.
        """
        self.config: TrainConfig = config
        self.assignments: Mapping[str, PolicyAssignment] = assignments
        self.factory: CoreFactory = factory
        self.sides: dict[str, tuple[str, ...]] = {name: assignment.members for name, assignment in assignments.items()}
        self.metrics: Mapping[str, EpisodeMetric] = find_metrics(config.eval_metric)
        self.core: Core | None = None
        self.kernels: KernelPlayers | None = None
        self.teams: list[Team] = []
        self.opponents: dict[str, PolicyProtocol] = {}
        if config.eval_opponents is not None:
            if len(self.sides) == 1:
                raise ConfigError(f"eval_opponents: all agents of {core.id} share one policy; leave it out")
            if config.eval_opponents == SCRIPTED:
                self.opponents = scripted_policies_of(core, self.sides)  # errors before the run starts
            else:
                policies = load_opponents(Path(config.eval_opponents), config.env_id, self.sides, core)[1]
                self.opponents = dict(by_member(self.sides, policies))

    def scores(self) -> dict[str, float]:
        """Return the entries of the row of metrics.

        They are "eval/<policy>/return", "eval/<policy>/episode_length_mean", "eval/<policy>/RESULT_mean" of the
        declared results (`EnvDefinition.results`), over the agents of the policy's groups, "eval/<policy>/NAME" of the
        functions in `config.eval_metric`, and "eval/score", the mean return.
        """
        if self.core is None:
            self.core = make_eval_core(self.config, self.config.eval_episodes, self.config.seed, self.factory)
            self.teams = teams(self.core, self.sides, EVAL_SEED)
            if self.config.eval_opponents == SCRIPTED:
                self.opponents = scripted_policies_of(self.core, self.sides)  # they read the worlds that they play in
            policies = {name: assignment.policy() for name, assignment in self.assignments.items()}
            self.kernels = KernelPlayers(self.core, [by_member(self.sides, policies), self.opponents])
        row: dict[str, float] = {}
        for names, groups in self.teams:
            players: dict[str, PolicyProtocol | None] = {**self.opponents}
            for name in names:
                players |= dict.fromkeys(self.sides[name], self.assignments[name].policy())
            outcome = evaluate_policies(
                self.core,
                players,
                seed=EVAL_SEED,
                engine=self.config.engine,
                kernels=self.kernels,
                last_info=self.core.definition.results,
                metrics=self.metrics,
            )
            for name in names:
                row[f"eval/{name}/return"] = sum(outcome.returns[group].mean for group in groups[name])
                row[f"eval/{name}/episode_length_mean"] = outcome.length.mean
                sizes = {group: len(self.core.groups[group]) for group in groups[name]}
                for result, means in outcome.last_info.items():
                    total = sum(size * means[group].mean for group, size in sizes.items())
                    row[f"eval/{name}/{result}_mean"] = total / sum(sizes.values())
                row |= {f"eval/{name}/{metric}": value.mean for metric, value in outcome.metrics.items()}
        scores = [value for name, value in row.items() if name.endswith("/return")]
        return {**row, "eval/score": sum(scores) / len(scores)}
