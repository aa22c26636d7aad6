"""The interface of loggers, and the loggers of a run by name."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gpu_envs.definition.id_modules import named_object

CSV = "csv"
"""Name of the logger that every training has."""
LOGGERS = {CSV: "CSVLogger", "tensorboard": "TensorBoardLogger", "wandb": "WandbLogger", "mlflow": "MLflowLogger"}
"""Classes of the loggers, in the modules of `trainers.loggers` with their names."""


class Logger(Protocol):
    """Receiver of the metrics of a run; `--logger module:Name` names a class of your own."""

    def __init__(self, run_dir: Path, last_step: int) -> None:
        """Create a logger.

        Args:
            run_dir: Folder of the run.
            last_step: Step of a resumed run at its checkpoint, after which earlier rows do not count; 0 in a new run.
        """

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Record a row of metrics.csv, or an iteration of a league.

        Args:
            row: Numbers by name, such as "agent/policy_loss"; NaN without a value, such as a mean over no episodes.
            step: Environment steps of a training; iteration of a league.
        """

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Record the configuration, nested JSON values by name. It is called once, before the first row."""

    def log_video(self, file: Path, step: int) -> None:
        """Record a video of the trained policies, an MP4 file."""

    def close(self) -> None:
        """Write what is left. It is called once, at the end."""


def logger_classes(names: Sequence[str]) -> list[type[Logger]]:
    """Return the classes of loggers, of "module:Name" the object of a module that is imported already.

    Raises:
        ConfigError: A module is not imported, or its object is no function of (run_dir, last_step).
        MissingExtraError: The library of a logger is not installed.
    """
    classes = []
    for name in dict.fromkeys(names):
        if ":" in name:
            classes.append(named_object("logger", name, ["run_dir", "last_step"]))
        else:
            classes.append(getattr(importlib.import_module(f"trainers.loggers.{name}_logger"), LOGGERS[name]))
    return classes


def finite_values(row: Mapping[str, float]) -> dict[str, float]:
    """Return a row without NaN and infinity."""
    return {name: value for name, value in row.items() if math.isfinite(value)}


class Loggers:
    """All loggers of a run, which receive the same calls."""

    def __init__(
        self, classes: Sequence[type[Logger]], run_dir: Path, last_step: int, config: Mapping[str, Any]
    ) -> None:
        """Create the loggers, see `Logger`, and let them record the configuration."""
        self.loggers: list[Logger] = []
        try:
            for kind in classes:
                self.loggers.append(kind(run_dir, last_step))
                self.loggers[-1].log_config(config)
        except BaseException:
            self.close()
            raise

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Record a row."""
        for logger in self.loggers:
            logger.log(row, step)

    def log_video(self, file: Path, step: int) -> None:
        """Record a video."""
        for logger in self.loggers:
            logger.log_video(file, step)

    def close(self) -> None:
        """Close all loggers; a second call does nothing."""
        while self.loggers:
            self.loggers.pop().close()
