"""Distributed training over GPUs and nodes with Ray Train; equal to one process with all environments.

    from trainers.cluster import train_distributed

    last = train_distributed(preset("TagContinuous-v0", "cuda"), "out/tag", address="auto")

Every worker is a rank with a share of the environments, see `trainers.base.shard`. Rank 0 writes the folder of the run,
which must be on storage that all machines share. If a worker or its machine fails, Ray restarts the workers, and they
continue from the newest checkpoint.
"""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch

from gpu_envs.definition.id_modules import import_named, named_modules
from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.utils.devices import resolve_device
from trainers.algorithms import algorithm_specs
from trainers.base.shard import Shard, check_ranks
from trainers.cluster.connect import connect
from trainers.config.train_config import TrainConfig
from trainers.runner.early_stopping import DivergedError
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, run_folder
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.config_yaml import CONFIG_FILE
from trainers.storage.folder_lock import check_free

WHO = "trainers.cluster.ray_train"  # in messages
_ERRORS = {kind.__name__: kind for kind in (CheckpointError, ConfigError, DivergedError)}
"""Errors that occur on all workers alike, so that a restart would not help."""


def train_distributed(
    config: TrainConfig,
    path: Path | str,
    num_workers: int | None = None,
    address: str | None = None,
    *,
    resume: Checkpoint | None = None,
    gpus_per_worker: float = 1.0,
    cpus_per_worker: float = 1.0,
    max_failures: int = 3,
) -> Path:
    """Train on the workers of a Ray cluster, and return the last checkpoint.

    Args:
        config: Configuration of the run. Its environments are split evenly over the workers; the first workers have
            one more if the split is uneven.
        path: Folder of the run, which must not hold another run.
        num_workers: Number of workers. None: what the cluster has resources for, one per GPU if `config.device`
            is a GPU, otherwise one per node, and never more than environments.
        address: Address of the cluster, see `trainers.cluster.connect.connect`.
        resume: Checkpoint to continue from, of any number of workers, in its own folder or in a new one.
        gpus_per_worker: GPUs of each worker; below 1 several workers share a GPU and communicate through the host.
        cpus_per_worker: CPU cores that Ray reserves for each worker.
        max_failures: Number of restarts of the workers. Errors of the training itself, such as a diverged loss, end it
            without a restart.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: `path` holds another run, there are more workers than environments, the cluster lacks GPUs or has
            different ones, or the algorithm refuses a setting.
        GpuEnvsError: Another process writes in `path`, the cluster lacks resources, the training diverged, or the
            workers failed more than `max_failures` times.
    """
    algorithm_specs.find(config.algorithm).check_plays()
    if config.num_actors:
        raise ConfigError(f"num_actors: expected 0 with num_workers, got {config.num_actors}; use one of them")
    chosen = run_folder.resolve_run_dir(Path(path), resume)
    assert chosen is not None
    out = chosen.absolute()
    check_free(out)
    if resume is not None and config.total_steps <= resume.steps:
        raise ConfigError(
            f"total_steps: expected more than the {resume.steps} of {resume.path}, got {config.total_steps}; raise it"
        )
    ray = connect(WHO, address)
    from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    on_gpu = config.device.startswith("cuda")
    demand = {"CPU": cpus_per_worker, **({"GPU": gpus_per_worker} if on_gpu else {})}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if on_gpu and not any(node.get("GPU") for node in nodes):
        raise ConfigError(f"device={config.device!r}: expected a cluster with GPUs, got none; use device='cpu'")
    capacity = _workers_per_node(nodes, demand)
    if num_workers is None:
        num_workers = min(sum(capacity) if on_gpu else sum(1 for fits in capacity if fits), config.num_envs)
    check_ranks(max(num_workers, 1), config.num_envs)
    if not 1 <= num_workers <= sum(capacity):
        raise GpuEnvsError(
            f"num_workers = {num_workers}: the cluster has resources for {sum(capacity)} workers with "
            f"{', '.join(f'{count:g} {resource}' for resource, count in demand.items())} each; use fewer workers"
        )
    _, lock = run_folder.open_folder(out, config.env_id, resume)
    if resume is not None and run_folder.is_run_of(resume, out):  # workers resume from the newest checkpoint
        run_folder.archive_after(out, resume.iteration)
    trainer = TorchTrainer(
        _work,
        train_loop_config={
            "config": json.dumps(dataclasses.asdict(config)),
            "modules": named_modules(),
            "out": str(out),
            "resume": None if resume is None else str(resume.path.absolute()),
        },
        scaling_config=ScalingConfig(
            num_workers=num_workers, use_gpu=on_gpu, resources_per_worker=demand, placement_strategy="PACK"
        ),
        run_config=RunConfig(
            name=out.name,
            storage_path=str(out / "ray"),
            failure_config=FailureConfig(max_failures=max_failures),
            logging_config=LoggingConfig(log_level="WARNING"),
        ),
        torch_config=TorchConfig(backend="nccl" if on_gpu and gpus_per_worker >= 1 else "gloo"),
    )
    try:
        kind, message = trainer.fit().return_value
    except TrainingFailedError as error:
        raise GpuEnvsError(f"{out}: the workers failed more than {max_failures} times; last error: {error}") from error
    finally:
        lock.release()
        shutil.rmtree(out / "ray", ignore_errors=True)  # Ray's own records; what there is to keep is a checkpoint
    if message:
        raise _ERRORS[kind](message)
    return checkpoint.find(out)


def _workers_per_node(nodes: list[dict[str, float]], demand: dict[str, float]) -> list[int]:
    """Return the number of workers that fit on each node."""
    positive = {resource: count for resource, count in demand.items() if count > 0}
    return [
        min((math.floor(node.get(resource, 0.0) / count + 1e-9) for resource, count in positive.items()), default=0)
        for node in nodes
    ]


def _work(settings: dict[str, Any]) -> tuple[str, str]:
    """Train as one rank; Ray calls this on every worker, also after a restart.

    Errors are raised only if a restart may help.

    Returns:
        Name and message of an error in `_ERRORS` that ended the training; both are empty after a success.
    """
    import_named(settings.get("modules", ()))
    config = TrainConfig.from_json(json.loads(settings["config"]))
    out = Path(settings["out"])
    device = torch.device("cpu")
    if config.device.startswith("cuda"):
        from ray.train.torch import get_device

        device = resolve_device(get_device())  # Ray does not check that the device exists
    try:
        config.prepare()  # before the process group starts CUDA
        shard = Shard.from_env(config.num_envs, device)
        resume = checkpoint.load_on_rank0(shard, lambda: _newest(out, settings["resume"]))
        if resume is not None and resume.steps >= config.total_steps:  # a worker failed after the last step
            return "", ""
        trainer = Trainer(config, out, resume, shard=shard, locked=True)
        del resume  # on rank 0 it holds the replay of all ranks
        trainer.run()
    except tuple(_ERRORS.values()) as error:  # on all ranks, and again after a restart
        return type(error).__name__, str(error)
    return "", ""


def _newest(out: Path, resume: str | None) -> Checkpoint | None:
    """Return the newest checkpoint of the run, else the one to resume, after removing files of a failed attempt."""
    if checkpoint.every(out / "checkpoints"):
        return checkpoint.load(out)
    for name in ("metrics.csv", "config.json", CONFIG_FILE):
        (out / name).unlink(missing_ok=True)
    return None if resume is None else checkpoint.load(Path(resume))
