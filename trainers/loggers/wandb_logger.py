"""Runs of Weights & Biases."""
# Weights & Biases is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError, missing_extra, packages

try:
    import wandb
except ModuleNotFoundError as error:
    raise missing_extra(error, "--logger wandb", ("wandb",), packages("wandb")) from None

PROJECT = "gpu-envs"
"""Project of runs, unless the variable WANDB_PROJECT names another."""


class WandbLogger:
    """Log to Weights & Biases; `trainers.loggers.logger.Logger` describes the methods.

    Its variables apply: with WANDB_MODE=offline files are written in the folder of the run, for `wandb sync` later. A
    resumed run continues the run of Weights & Biases whose files are there.
    """

    def __init__(self, run_dir: Path, last_step: int) -> None:
        """Start or continue a run; raise ConfigError if Weights & Biases refuses, such as without an API key."""
        earlier = sorted((run_dir / "wandb").glob("*run-*-*"), key=lambda folder: folder.name.partition("run-")[2])
        settings: dict[str, Any] = {"project": wandb.setup().settings.project or PROJECT}
        if last_step and earlier:
            settings |= {"id": earlier[-1].name.rpartition("-")[2], "resume": "allow"}
        try:
            self.run: Any = wandb.init(  # several at once: every seed has one
                dir=run_dir, name="/".join(run_dir.resolve().parts[-2:]), reinit="create_new", **settings
            )
        except wandb.Error as error:
            raise ConfigError(
                f"--logger wandb: {error}; call `wandb login`, or set WANDB_MODE=offline to write files only"
            ) from error
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Log a row; its axis is "step", so that rows of a resumed run may repeat steps."""
        self.run.log({**row, "step": step})

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Set the configuration of the run."""
        self.run.config.update(dict(config), allow_val_change=True)

    def log_video(self, file: Path, step: int) -> None:
        """Log the video."""
        self.run.log({"video": wandb.Video(str(file), format="mp4"), "step": step})

    def close(self) -> None:
        """Upload or write what is left."""
        self.run.finish()
