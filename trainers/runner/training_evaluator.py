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
            ConfigError: `eval_opponents` is set, but all agents share one policy; or it is "scripted", but there is no
                script for the environment; or `eval_metric` names no function of episodes.
            CheckpointError: The policies of `eval_opponents` do not fit the environment.
        """
        self.config: TrainConfig = config
        self.sides: Mapping[str, tuple[str, ...]] = sides
        self.factory: CoreFactory = factory
        self.seed: int = seed
        self.results: tuple[str, ...] = tuple(core.definition.results)
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

    @property
    def columns(self) -> list[str]:
        """Names of the entries of `scores`."""
        return [*(column for name in self.sides for column in self._columns_of(name)), "eval/score"]

    def _columns_of(self, policy: str) -> list[str]:
        quantities = ["return", "episode_length_mean", *(f"{result}_mean" for result in self.results), *self.metrics]
        return [f"eval/{policy}/{quantity}" for quantity in quantities]

    def scores(self, policies: Mapping[str, PolicyProtocol]) -> dict[str, float]:
        """Return the entries of the row of metrics of policies by name.

        They are "eval/<policy>/return", "eval/<policy>/episode_length_mean", "eval/<policy>/RESULT_mean" of the
        declared results (`EnvDefinition.results`), over the agents of the policy's groups, "eval/<policy>/NAME" of the
        functions in `config.eval_metric`, and "eval/score", the mean return.
        """
        if self.core is None:
            self.core = make_eval_core(self.config, self.config.eval_episodes, self.config.seed, self.factory)
            self.teams = teams(self.core, self.sides, self.seed)
            if self.config.eval_opponents == SCRIPTED:
                self.opponents = scripted_policies_of(self.core, self.sides)  # they read the worlds that they play in
            self.kernels = KernelPlayers(self.core, [by_member(self.sides, policies), self.opponents])
        row: dict[str, float] = {}
        for names, groups in self.teams:
            players: dict[str, PolicyProtocol | None] = {**self.opponents}
            for name in names:
                players |= dict.fromkeys(self.sides[name], policies[name])
            outcome = evaluate_policies(
                self.core,
                players,
                seed=self.seed,
                greedy=self.config.eval_greedy,
                engine=self.config.engine,
                kernels=self.kernels,
                last_info=self.core.definition.results,
                metrics=self.metrics,
            )
            for name in names:
                sizes = {group: len(self.core.groups[group]) for group in groups[name]}
                values = [sum(outcome.returns[group].mean for group in sizes), outcome.length.mean]
                for result in self.results:
                    total = sum(size * outcome.last_info[result][group].mean for group, size in sizes.items())
                    values.append(total / sum(sizes.values()))
                values += [outcome.metrics[metric].mean for metric in self.metrics]
                row |= dict(zip(self._columns_of(name), values, strict=True))
        scores = [value for name, value in row.items() if name.endswith("/return")]
        return {**row, "eval/score": sum(scores) / len(scores)}
