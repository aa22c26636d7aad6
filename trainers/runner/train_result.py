"""The result of a training run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.state import select_prefix
from trainers.config.train_config import CoreFactory, TrainConfig, make_eval_core, make_train_core, members_by_policy
from trainers.models.policy import Policy
from trainers.runner.episode_statistics import mean_returns
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint

ENGINE = "trainer.engine."
"""Prefix of the engines by policy in the state of a checkpoint."""


@dataclass(frozen=True, repr=False)
class TrainResult(Summarized):
    """Policies, files and final statistics of a training run."""

    config: TrainConfig
    """Configuration of the run."""
    run_dir: Path
    """Folder of the run."""
    checkpoint: Path
    """Last checkpoint."""
    policies: Mapping[str, Policy]
    """Frozen copies of the trained policies by name."""
    members: Mapping[str, tuple[str, ...]]
    """Groups or agents that each policy controls, by its name."""
    steps: int
    """Environment steps of the run, summed over all environments."""
    seconds: float
    """Training time [s], without evaluations and checkpoints; earlier parts of a resumed run included."""
    recent_returns: Mapping[str, float]
    """Mean return per agent over the last 100 episodes, by group; empty if fewer episodes have ended."""
    evaluations_since_best: int = 0
    """Evaluations after the one with the best score."""
    stopped_by: int | None = None
    """Number of the signal that ended the run; None: no signal."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Engine of every learner by policy, such as "kernel" or "rollouts kernel, gradients torch"."""

    def _summary(self) -> Summary:
        returns = ", ".join(f"{group} {value:.3g}" for group, value in self.recent_returns.items())
        facts = {"run_dir": self.run_dir, "seconds": f"{self.seconds:.3g}", "mean returns": returns or None}
        return training_summary(self.config, self.steps, self.members, self.engines, **facts)

    @property
    def stopped_early(self) -> bool:
        """Whether `config.patience` ended the run."""
        return 0 < self.config.patience <= self.evaluations_since_best

    @property
    def reached_goal(self) -> bool | None:
        """Whether every group reached `config.until_return`; None without such a goal."""
        goal = self.config.until_return
        return None if goal is None else bool(self.recent_returns) and min(self.recent_returns.values()) >= goal

    @property
    def best_checkpoint(self) -> Path | None:
        """Checkpoint with the best score; None if no checkpoint has a score."""
        return checkpoint.best(self.checkpoint.parent)


def training_summary(
    config: TrainConfig, steps: int, members: Mapping[str, Sequence[str]], engines: Mapping[str, str], **facts: Any
) -> Summary:
    """Return the summary of a training: its progress, and the groups or agents of every policy."""
    rows = [(name, ", ".join(agents), engines.get(name, "torch")) for name, agents in members.items()]
    common = {
        "algorithm": config.algorithm,
        "steps": f"{steps:,} of {config.total_steps:,}",
        "worlds": config.num_envs,
        "device": config.device,
    }
    return Summary(config.env_id, {**common, **facts}, ("policy", "controls", "engine"), rows)


def load_result(path: Path, device: str, factory: CoreFactory = make_train_core) -> TrainResult:
    """Read the result of a training that ran in other processes or earlier.

    Args:
        path: The last checkpoint.
        device: Device for the policies, and for later evaluations with the result's configuration.
        factory: Creates the environments.

    Raises:
        CheckpointError: The checkpoint cannot be read.
    """
    saved = checkpoint.load(path, replay=False)
    config = dataclasses.replace(TrainConfig.of(saved), device=device)
    core = make_eval_core(config, 1, config.seed, factory)
    members = {name: tuple(agents) for name, agents in members_by_policy(config, core).items()}
    recent = saved.state["episodes.recent"]
    assert isinstance(recent, Tensor)
    return TrainResult(
        config=config,
        run_dir=path.parent.parent,
        checkpoint=path,
        policies={name: saved.policy(name, device) for name in members},
        members=members,
        steps=saved.steps,
        seconds=saved.number("trainer.seconds"),
        recent_returns=mean_returns(recent, list(core.groups)),
        evaluations_since_best=int(saved.number("trainer.evaluations_since_best")),
        engines=recorded_engines(saved),
    )


def recorded_engines(saved: Checkpoint) -> dict[str, str]:
    """Return the engines of a run's learners by policy; {} in checkpoints of earlier versions."""
    return {name: str(engine) for name, engine in select_prefix(saved.state, ENGINE).items()}
