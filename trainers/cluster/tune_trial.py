"""One trial of a search for settings: a training that reports to Ray Tune."""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_envs.definition.id_modules import import_named, named_modules
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.settings import check_settings, setting
from trainers.cluster.connect import ray_module
from trainers.cluster.search_space import FIELDS
from trainers.config.train_config import TrainConfig, changed
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint

WORST = -1e30
"""Score of a failed trial with mode "max". It is finite because schedulers interpolate between scores."""


@dataclass(frozen=True)
class TuneConfig:
    """Configuration of a search for settings. Steps are environment steps, as in `TrainConfig.total_steps`."""

    scheduler: str = setting("asha", choices=("asha", "pbt", "none"))
    """"asha" stops bad trials early, "pbt" lets them copy good ones and perturbs settings, "none" completes all."""
    num_samples: int = setting(16, ge=1)
    """Number of trials, for each combination of grid values if there are grids."""
    metric: str = "eval/score"
    """Column of metrics.csv that compares trials; the default is the score of evaluations."""
    mode: str = setting("max", choices=("max", "min"))
    """"max" if a higher metric is better, "min" if a lower one is."""
    eval_interval: int | None = setting(None, ge=1)
    """Steps between evaluations and checkpoints of a trial; None: total_steps / 20."""
    grace_period: int | None = setting(None, ge=1, requires={"scheduler": "asha"})
    """Steps before a trial can be stopped; None: total_steps / 9."""
    reduction_factor: int = setting(3, ge=2, requires={"scheduler": "asha"})
    """Factor by which trials decrease at each rung; rungs are at grace_period * reduction_factor ** i steps."""
    perturbation_interval: int | None = setting(None, ge=1, requires={"scheduler": "pbt"})
    """Steps between perturbations of a trial; None: total_steps / 10."""
    cpus: float | None = setting(None, gt=0)
    """CPUs of a trial; None: computed from the cluster."""
    gpus: float | None = setting(None, ge=0)
    """GPUs of a trial, which may be a fraction; None: computed from the cluster, with at most four trials per GPU."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid value."""
        check_settings(self)

    def checkpoint_interval(self, config: TrainConfig) -> int:
        """Return the number of iterations between checkpoints of a trial."""
        interval = self.eval_interval or -(-config.total_steps // 20)
        return max(1, round(interval / config.rollout_steps))


def trainable(config: TrainConfig, plan: TuneConfig) -> Callable[[dict[str, Any]], None]:
    """Return the function that Ray Tune calls for every trial with the settings of the trial."""
    modules = named_modules()

    def trial(settings: dict[str, Any]) -> None:
        import_named(modules)
        numbers = {name: value.item() if hasattr(value, "item") else value for name, value in settings.items()}
        run_trial(config, plan, numbers)  # Ray's are NumPy's

    return trial


def run_trial(config: TrainConfig, plan: TuneConfig, settings: Mapping[str, Any]) -> None:
    """Train within Ray Tune, and report metrics at every checkpoint.

    A trial that fails with a `GpuEnvsError`, such as a diverged training, ends with the worst score. Other exceptions
    are handled by Ray Tune.
    """
    tune = ray_module("tune")
    worst = WORST if plan.mode == "max" else -WORST
    last = {"steps": 0, plan.metric: worst}

    def report(path: Path, row: Mapping[str, float]) -> None:
        if plan.metric not in row:
            raise ConfigError(f"metric: expected one of {', '.join(row)}, got {plan.metric!r}")
        value = row[plan.metric]  # NaN if no episode ended: the previous value is reported again
        last.update(steps=int(row["env_steps"]), **({plan.metric: value} if math.isfinite(value) else {}))
        tune.report({**row, **last}, checkpoint=tune.Checkpoint.from_directory(path))

    try:
        trial = trial_config(config, plan, settings)
        start, saved = tune.get_checkpoint(), None
        if start is not None:
            with start.as_directory() as folder:
                saved = with_config(checkpoint.load(Path(folder)), trial)
            if saved.steps >= trial.total_steps:  # interrupted after its last step, or a copy of a finished trial
                return
        with tempfile.TemporaryDirectory(prefix="gpu-envs-trial-") as folder:
            Trainer(trial, Path(folder) / "run", saved, on_save=report).run()
    except GpuEnvsError as error:
        tune.report({**last, plan.metric: worst, "failed": str(error)})


def trial_config(config: TrainConfig, plan: TuneConfig, settings: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of a trial with its settings."""
    trial = changed(config, settings, "search", FIELDS)
    return dataclasses.replace(trial, checkpoint_interval=plan.checkpoint_interval(trial), keep_last_checkpoints=1)


def with_config(saved: Checkpoint, config: TrainConfig) -> Checkpoint:
    """Return a checkpoint with another configuration, so that a trial can continue it with changed settings.

    A resumed run cannot change settings of its learners; a trial that copies another one must.
    """
    return dataclasses.replace(saved, config=json.loads(json.dumps(dataclasses.asdict(config))))
