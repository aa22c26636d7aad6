"""Results of a search for settings: the trials, the best configuration, and its command line."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from gpu_envs.definition.id_modules import import_words
from gpu_envs.errors import CheckpointError, GpuEnvsError
from gpu_envs.utils.terminal import shell_command, short_number
from trainers.base.serialization import check_fields, read_json, write_json, wrong_format
from trainers.cluster.search_space import ALLOWED_OVERRIDES, FIELDS, Space
from trainers.cluster.tune_trial import WORST, TuneConfig
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig, changed
from trainers.storage.run_folder import SEARCH

COMMAND = "gpu-envs tune"  # in messages
FORMAT = "gpu-envs search 2"  # format of search.json
RESULTS = "tune.json"  # file with the results; `SEARCH` holds the configuration of the search
_MISSING = object()


@dataclass(frozen=True)
class TrialResult:
    """Result of one trial."""

    name: str
    """Name of the trial, with the number that Ray Tune gave it."""
    settings: dict[str, Any]
    """Values of the searched settings; with "pbt", the best checkpoint's values."""
    score: float | None
    """Best score; None: no score."""
    steps: int
    """Environment steps of the trial."""
    state: str
    """"finished", "stopped" early, "failed", or "unfinished"."""
    checkpoint: str | None
    """Folder of the checkpoint with the best score."""
    error: str | None = None
    """Message of the error of a failed trial."""


@dataclass(frozen=True)
class TuneResult:
    """Result of a search."""

    config: TrainConfig
    """Configuration of the best trial."""
    score: float
    """Score of the best trial, by the metric of the search."""
    checkpoint: Path
    """Best checkpoint of the best trial; it can be evaluated, exported and continued."""
    trials: tuple[TrialResult, ...]
    """All trials, best first."""
    run_dir: Path
    """Folder of the search."""
    complete: bool
    """Whether all trials have ended; otherwise `resume` continues the search."""

    @property
    def command(self) -> str:
        """Command line that trains with the best settings."""
        return command_line(self.config)

    def table(self, rows: int = 10) -> str:
        """Return a table of the best trials as text, one line per trial."""
        names = list(self.trials[0].settings)
        lines = [["", "trial", "score", "steps", "", *names]]
        for rank, trial in enumerate(self.trials[:rows], start=1):
            score = "-" if trial.score is None else short_number(trial.score, 4)
            values = [trial.settings.get(name, "-") for name in names]  # a trial that has not started has no settings
            values = [short_number(value) if isinstance(value, float) else str(value) for value in values]
            lines.append([str(rank), trial.name, score, f"{trial.steps:,}", trial.state, *values])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def command_line(config: TrainConfig) -> str:
    """Return the `gpu-envs train` command of a configuration, with the options that differ from the preset."""
    usual = preset(config.env_id, config.device, config.algorithm)
    words = ["gpu-envs", "train", config.env_id, "--device", config.device, "--algorithm", config.algorithm]
    for name, value in config.env.items():
        words += [] if usual.env.get(name, _MISSING) == value else ["--env-arg", f"{name}={json.dumps(value)}"]
    for group, name in config.policies.items():
        words += ["--policy", f"{group}={name}"]
    separate = {"env_id", "env", "policies", "learner", "device", "algorithm"}
    for prefix, changed_settings, base in (("", config, usual), ("learner.", config.learner, usual.learner)):
        for name in (field.name for field in dataclasses.fields(changed_settings)):
            if prefix or name not in separate:
                value = getattr(changed_settings, name)
                words += [] if value == getattr(base, name) else _option(prefix, name.replace("_", "-"), value)
    return shell_command(*words)


def resume_command(run_dir: Path, config: TrainConfig) -> str:
    """Return the `gpu-envs tune` command that continues a search."""
    imports = import_words(dataclasses.asdict(config))
    return shell_command("gpu-envs", "tune", "--resume", run_dir, "--allow-pickle", *imports)


def _option(prefix: str, name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{prefix}{name}" if value else f"--{prefix}no-{name}"]
    return [f"--{prefix}{name}", *([str(item) for item in value] if isinstance(value, tuple) else [str(value)])]


def search_settings(config: TrainConfig, spaces: Mapping[str, Space], plan: TuneConfig) -> dict[str, Any]:
    """Return the settings of a search as in a configuration file of `gpu-envs tune`."""
    overrides = {name: getattr(config, name) for name in ALLOWED_OVERRIDES}
    base = {name: getattr(config, name) for name in ("env_id", "env", "algorithm", "total_steps", "device")}
    searched = {"search": {name: str(space) for name, space in spaces.items()}}
    train_overrides = {"train_overrides": {**overrides, "learner": dataclasses.asdict(config.learner)}}
    return {**base, **searched, **dataclasses.asdict(plan), **train_overrides}


def read_search(run_dir: Path) -> tuple[TrainConfig, TuneConfig, int]:
    """Return the configurations of the trainings and of the search, and the number of trials.

    Raises:
        CheckpointError: The folder holds no search, or search.json is damaged.
    """
    file = run_dir / SEARCH
    if not file.exists():
        raise CheckpointError(f"{run_dir}: expected a search, got none; start one with gpu-envs tune ID --run-dir DIR")
    data = read_json(file)
    if (number := data.get("format")) != FORMAT:
        raise wrong_format(file, FORMAT, number)
    kinds = {"format": str, "config": dict[str, Any], "plan": dict[str, Any], "search": dict[str, str], "trials": int}
    check_fields(str(file), data, kinds)
    plan = TuneConfig(**check_fields(f"{file}: plan", data["plan"], get_type_hints(TuneConfig)))
    return TrainConfig.from_json(data["config"], str(file)), plan, data["trials"]


def read_results(grid: Any, run_dir: Path) -> TuneResult:
    """Read the trials of Ray Tune's result grid, and write tune.json.

    Raises:
        GpuEnvsError: No trial has a score.
    """
    config, plan, count = read_search(run_dir)
    sign = 1 if plan.mode == "max" else -1
    trials = [_read_trial(result, config, plan, sign) for result in grid]
    trials.sort(key=lambda trial: -math.inf if trial.score is None else sign * trial.score, reverse=True)
    complete = grid.num_terminated + grid.num_errors >= count
    best = next((trial for trial in trials if trial.score is not None), None)
    content: dict[str, Any] = {"score": None, "config": None, "command": None, "checkpoint": None}
    best_result = None
    if best is not None and best.score is not None and best.checkpoint is not None:
        best_config = changed(config, best.settings, "search", FIELDS)
        best_result = TuneResult(best_config, best.score, Path(best.checkpoint), tuple(trials), run_dir, complete)
        content = {"score": best.score, "config": dataclasses.asdict(best_config), "command": best_result.command}
        content["checkpoint"] = best.checkpoint
    search = {"env_id": config.env_id, "metric": plan.metric, "mode": plan.mode, "scheduler": plan.scheduler}
    search |= {"complete": complete, "best": content, "trials": [dataclasses.asdict(trial) for trial in trials]}
    write_json(run_dir / RESULTS, search)
    if best_result is None:
        reason = f"interrupted; continue with {resume_command(run_dir, config)}"
        if complete:
            reason = next((trial.error for trial in trials if trial.error), reason)
        raise GpuEnvsError(f"{run_dir}: none of {len(trials)} trials has a score: {reason}")
    return best_result


def _read_trial(result: Any, config: TrainConfig, plan: TuneConfig, sign: int) -> TrialResult:
    metrics = result.metrics or {}
    checkpoints: list[Any] = result.best_checkpoints or []
    scored = [(sign * metric[plan.metric], -i, saved) for i, (saved, metric) in enumerate(checkpoints)]
    top = max(scored, default=None, key=lambda entry: entry[:2])
    settings = metrics.get("config") or {}
    settings = {name: value.item() if hasattr(value, "item") else value for name, value in settings.items()}
    if top is not None:  # "pbt" changes settings: the best score's are in its checkpoint
        manifest = Path(top[2].path) / "manifest.json"
        recorded = TrainConfig.from_json(read_json(manifest)["config"], str(manifest))
        settings = {name: current_value(recorded, name) for name in settings}
    ray_error = str(result.error).strip().splitlines()[-1:] if result.error else []
    error = metrics.get("failed") or next(iter(ray_error), None)
    steps = int(metrics.get("steps", 0))
    state = "finished" if steps >= config.total_steps else "stopped" if metrics.get("done") else "unfinished"
    return TrialResult(
        name=Path(result.path).name,
        settings=settings,
        score=None if top is None or abs(top[0]) >= -WORST else sign * top[0],
        steps=steps,
        state="failed" if error else state,
        checkpoint=None if top is None else str(top[2].path),
        error=error,
    )


def current_value(config: TrainConfig, name: str) -> Any:
    """Return the value of a setting by its name in a search, such as "num_envs" or "learner.gamma"."""
    return getattr(config.learner if name.startswith("learner.") else config, name.removeprefix("learner."))
