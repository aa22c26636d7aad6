"""One training over many GPUs and nodes, under Ray Train: equal to one process with as many worlds, see `sharding`.

    from trainers.cluster.data_parallel import train

    last = train(preset("TagContinuous-v0", "cuda"), "out/tag", address="auto")

Every worker is a rank with a share of the worlds. The run's folder is that of any run, and the first rank writes it:
over several machines it has to be on storage that all of them see. If a worker or its machine dies, Ray starts the
workers again, and they go on from the newest checkpoint.
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

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.factory import resolve_device
from gpu_envs.id_modules import import_named, named_modules
from trainers import algorithms, checkpoint, runs
from trainers.checkpoint import Checkpoint
from trainers.cluster.connect import connect
from trainers.config import TrainConfig
from trainers.folder_lock import check_free
from trainers.loop import Trainer
from trainers.sharded_state import load_on_first
from trainers.sharding import Shard, check_ranks
from trainers.stopping import DivergedError

WHO = "trainers.cluster.data_parallel"  # asks for Ray, in messages
_ERRORS = {kind.__name__: kind for kind in (CheckpointError, ConfigError, DivergedError)}
"""What all workers come upon alike, so that no other attempt would help."""


def train(
    config: TrainConfig,
    path: Path | str,
    shards: int | None = None,
    address: str | None = None,
    *,
    resume: Checkpoint | None = None,
    gpus_per_worker: float = 1.0,
    cpus_per_worker: float = 1.0,
    max_failures: int = 3,
) -> Path:
    """Trains to the end, and returns the last checkpoint.

    Args:
        config: The run. Its worlds are split evenly; the first workers have one more where that does not come out.
        path: Its folder, not that of another run.
        shards: Workers. None: as many as the cluster has room for, one per GPU if `config.device` is one, else one per
            node; never more than worlds.
        address: Of the cluster, see `trainers.cluster.connect.connect`.
        resume: Go on from this checkpoint, of any number of shards; in its own folder, or another as a new run.
        gpus_per_worker: For a `config.device` that is a GPU; below 1 several share one, and talk by the host.
        cpus_per_worker: Cores that Ray sets aside for each.
        max_failures: So often the workers are started again; what ends a training by itself, such as numbers that are
            not finite, does not count.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: The algorithm does not play, `path` holds another run, there are more shards than worlds, or no
            GPUs for a `config.device` that is one, or unlike ones. What the workers' learners refuse, too.
        GpuEnvsError: Another process writes in `path`, the cluster has no room, the training diverged, or workers
            failed more often than they may.
    """
    algorithms.find(config.algorithm).check_plays()
    chosen = runs.choose(Path(path), resume)
    assert chosen is not None
    out = chosen.absolute()
    check_free(out)
    if resume is not None and config.total_steps <= resume.steps:
        raise ConfigError(
            f"total_steps = {config.total_steps}: expected more than the {resume.steps} of {resume.path}; raise it"
        )
    ray = connect(WHO, address)
    from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer
    from ray.train.v2.api.exceptions import TrainingFailedError

    on_gpu = config.device.startswith("cuda")
    each = {"CPU": cpus_per_worker, **({"GPU": gpus_per_worker} if on_gpu else {})}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if on_gpu and not any(node.get("GPU") for node in nodes):
        raise ConfigError(f"device = {config.device!r}: expected a cluster with GPUs, got one without; use cpu")
    room = _room(nodes, each)
    if shards is None:
        shards = min(sum(room) if on_gpu else sum(1 for fits in room if fits), config.num_envs)
    check_ranks(max(shards, 1), config.num_envs)
    if not 1 <= shards <= sum(room):
        raise GpuEnvsError(
            f"shards = {shards}: the cluster has room for {sum(room)} workers with "
            f"{', '.join(f'{count:g} {what}' for what, count in each.items())} each; ask for fewer shards"
        )
    _, lock = runs.open_folder(out, config.env_id, resume)
    if resume is not None and runs.belongs(resume, out):  # what workers go on from is then the newest in any case
        runs.set_aside(out, resume.iteration)
    trainer = TorchTrainer(
        _work,
        train_loop_config={
            "config": json.dumps(dataclasses.asdict(config)),
            "modules": named_modules(),
            "out": str(out),
            "resume": None if resume is None else str(resume.path.absolute()),
        },
        scaling_config=ScalingConfig(
            num_workers=shards, use_gpu=on_gpu, resources_per_worker=each, placement_strategy="PACK"
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
        kind, said = trainer.fit().return_value
    except TrainingFailedError as error:
        raise GpuEnvsError(
            f"{out}: the workers failed more than {max_failures} times; the last said: {error}"
        ) from error
    finally:
        lock.release()
        shutil.rmtree(out / "ray", ignore_errors=True)  # Ray's own records; what there is to keep is a checkpoint
    if said:
        raise _ERRORS[kind](said)
    return checkpoint.find(out)


def _room(nodes: list[dict[str, float]], each: dict[str, float]) -> list[int]:
    """Workers that each node has room for."""
    wanted = {what: count for what, count in each.items() if count > 0}
    return [
        min((math.floor(node.get(what, 0.0) / count + 1e-9) for what, count in wanted.items()), default=0)
        for node in nodes
    ]


def _work(given: dict[str, Any]) -> tuple[str, str]:
    """What a worker does: it is one rank, or one rank again after a failure.

    Returns the kind of error that the training ended with, of `_ERRORS`, and what it says; both empty if it ended well.

    An error is raised only where another attempt may help.
    """
    import_named(given.get("modules", ()))
    config = TrainConfig.from_json(json.loads(given["config"]))
    out = Path(given["out"])
    device = torch.device("cpu")
    if config.device.startswith("cuda"):
        from ray.train.torch import get_device

        device = resolve_device(get_device())  # of what Ray was told there need be nothing
    try:
        shard = Shard.from_env(config.num_envs, device)
        resume = load_on_first(shard, lambda: _newest(out, given["resume"]))
        if resume is not None and resume.steps >= config.total_steps:  # a worker failed when all was done
            return "", ""
        trainer = Trainer(config, out, resume, shard=shard, locked=True)
        del resume  # the first rank's holds the replay of all
        trainer.run()
    except tuple(_ERRORS.values()) as error:  # on all ranks, and it would again
        return type(error).__name__, str(error)
    return "", ""


def _newest(out: Path, resume: str | None) -> Checkpoint | None:
    """What an earlier attempt saved last, else what is to be resumed; what an attempt left that saved nothing goes."""
    if checkpoint.every(out / "checkpoints"):
        return checkpoint.load(out)
    for name in ("metrics.csv", "config.json"):
        (out / name).unlink(missing_ok=True)
    return None if resume is None else checkpoint.load(Path(resume))
