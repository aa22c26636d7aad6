"""Runs of MLflow."""
# MLflow is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_envs.errors import missing_extra, packages
from trainers.loggers.logger import finite_values

try:
    import mlflow
    from mlflow.entities import Metric, Param
except ModuleNotFoundError as error:
    raise missing_extra(error, "--logger mlflow", ("mlflow",), packages("mlflow")) from None

EXPERIMENT = "gpu-envs"
"""Experiment of runs, unless the variable MLFLOW_EXPERIMENT_NAME names another."""
FOLDER = "gpu_envs.run_dir"
"""Tag with the folder of a run, by which a resumed run finds its run of MLflow."""
MAX_PARAM = 500
"""Largest number of characters of a parameter."""
BATCH = 100
"""Largest number of parameters of one request."""


class MLflowLogger:
    """Log to MLflow; `trainers.loggers.logger.Logger` describes the methods.

    Its variables apply: MLFLOW_TRACKING_URI is a server, or a database such as sqlite:///mlflow.db. Without it MLflow
    writes files in the working folder, and needs no server.
    """

    def __init__(self, run_dir: Path, last_step: int) -> None:
        """Start a run, or continue the one of a resumed run's folder."""
        from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME

        self.client: Any = mlflow.MlflowClient()
        name = MLFLOW_EXPERIMENT_NAME.get() or EXPERIMENT
        folder = str(run_dir.resolve()).replace("'", "%27")  # a quote would end the text of the search below
        experiment = self.client.get_experiment_by_name(name)
        number = self.client.create_experiment(name) if experiment is None else experiment.experiment_id
        runs = self.client.search_runs([number], f"tags.`{FOLDER}` = '{folder}'") if last_step else []
        self.is_new: bool = not runs
        if runs:
            self.id: str = runs[0].info.run_id
            self.client.update_run(self.id, status="RUNNING")
        else:
            title = "/".join(run_dir.resolve().parts[-2:])
            self.id = self.client.create_run(number, tags={FOLDER: folder}, run_name=title).info.run_id

    def log(self, row: Mapping[str, float], step: int) -> None:
        """Log the finite numbers of a row."""
        now = int(1000 * time.time())
        metrics = [Metric(name, float(value), now, step) for name, value in finite_values(row).items()]
        self.client.log_batch(self.id, metrics=metrics)

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Log the configuration as a file, and as parameters of a new run; MLflow refuses to change those."""
        self.client.log_dict(self.id, dict(config), "config.json")
        params = [Param(name, str(value)[:MAX_PARAM]) for name, value in _flat(config)]
        for start in range(0, len(params) if self.is_new else 0, BATCH):
            self.client.log_batch(self.id, params=params[start : start + BATCH])

    def log_video(self, file: Path, step: int) -> None:
        """Log the video as a file."""
        self.client.log_artifact(self.id, str(file))

    def close(self) -> None:
        """End the run."""
        self.client.set_terminated(self.id)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings by dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
