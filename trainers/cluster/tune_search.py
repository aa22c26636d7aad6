"""Search for settings with Ray Tune: many trainings, of which bad ones stop early (ASHA) or copy good ones (PBT).

A trial is a training by `trainers.runner.trainer.Trainer`. It reports its metrics to Ray Tune with every checkpoint. An
interrupted trial, and a trial that copies another, continue from a checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.terminal import shell_command, short_number
from trainers.base.serialization import write_json
from trainers.cluster import search_space
from trainers.cluster.connect import connect, ray_library, ray_module
from trainers.cluster.search_space import FIELDS, Space
from trainers.cluster.tune_results import COMMAND, FORMAT, TuneResult, read_results, read_search, search_settings
from trainers.cluster.tune_trial import TuneConfig, trainable
from trainers.config.train_config import TrainConfig, changed, make_train_core
from trainers.evaluation.scripted_policies import SCRIPTED
from trainers.runner.collector import Collector
from trainers.runner.learner_group import LearnerGroup
from trainers.runner.signals import interrupts
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, run_folder
from trainers.storage.config_yaml import write_config
from trainers.storage.folder_lock import FolderLock
from trainers.storage.learning_curves import read_rows
from trainers.storage.run_folder import SEARCH

TUNE = "tune"
"""Name of Ray Tune's own folder inside the folder of a search."""
MAX_TRIALS_PER_GPU = 4
"""Trials that share a GPU if `TuneConfig.gpus` is not set."""
RETRIES = 2
"""Restarts of a trial whose machine or process was lost; it continues from its last checkpoint."""
SIZES = ("learner.rollout_length", "learner.replay_size")  # settings that determine sizes of buffers
_SMALL = {"num_envs": 4, "eval_episodes": 2}


def tune(
    config: TrainConfig,
    search: Mapping[str, Any],
    run_dir: Path | str,
    plan: TuneConfig | None = None,
    address: str | None = None,
    progress: bool = False,
) -> TuneResult:
    """Search for settings of a training.

    Args:
        config: Settings that all trials share; each trial trains for its `total_steps`.
        search: Search space by setting, such as "learner.learning_rate" or "num_envs". A space is text, see
            `trainers.cluster.search_space`, or an object of Ray Tune: a bounded range, a choice or a grid.
        run_dir: Folder of the search, visible on all machines; it must not hold a search.
        plan: Configuration of the search.
        address: Address of a Ray cluster, see `trainers.cluster.connect.connect`.
        progress: Print a line for every trial that ends.

    Raises:
        ConfigError: A name, value, metric or folder is not valid; nothing was started.
        MissingExtraError: Ray is not installed.
        GpuEnvsError: No trial has a score.
    """
    plan = plan or TuneConfig()
    spaces = {name: search_space.space(name, entry) for name, entry in search.items()}
    search_space.check(config, spaces)
    if config.until_return is not None:
        raise ConfigError(f"until_return = {config.until_return}: has no effect in a search; leave it out")
    if config.device.startswith("cuda:"):
        raise ConfigError(f"device: expected 'cuda', because Ray assigns GPUs to trials, got {config.device!r}")
    if config.eval_opponents not in (None, SCRIPTED):  # trials run elsewhere
        config = dataclasses.replace(config, eval_opponents=str(checkpoint.find(Path(config.eval_opponents)).resolve()))
    run_dir = Path(run_dir).resolve()
    _check_new(run_dir)
    ray_library(COMMAND)
    dry_run(config, spaces, plan)
    with _library(address) as (ray, library), contextlib.ExitStack() as stack:
        needs = resources(plan, config, math.prod(_lengths(spaces)) * plan.num_samples, ray.nodes())
        run_dir.mkdir(parents=True, exist_ok=True)
        stack.enter_context(FolderLock(run_dir))
        _check_new(run_dir)
        texts = {
            name: str(space) if space.source is None else f"{space} as {space.source!r}"
            for name, space in spaces.items()
        }
        trials = math.prod(_lengths(spaces)) * plan.num_samples
        content = {"format": FORMAT, "config": dataclasses.asdict(config), "plan": dataclasses.asdict(plan)}
        write_json(run_dir / SEARCH, {**content, "search": texts, "trials": trials})
        write_config(run_dir, "tune", search_settings(config, spaces, plan))
        tuner = library.Tuner(
            library.with_resources(trainable(config, plan), needs),
            param_space={name: space.domain(library) for name, space in spaces.items()},
            tune_config=library.TuneConfig(
                metric=plan.metric,
                mode=plan.mode,
                num_samples=plan.num_samples,
                scheduler=_scheduler(plan, config.total_steps, spaces, library),
                search_alg=library.search.basic_variant.BasicVariantGenerator(random_state=config.seed % 2**32),
                reuse_actors=True,  # starting a process takes seconds
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=library.RunConfig(
                name=TUNE,
                storage_path=str(run_dir),
                verbose=0,
                callbacks=[_trial_printer(plan, library)] if progress else None,
                failure_config=library.FailureConfig(max_failures=RETRIES),
                checkpoint_config=library.CheckpointConfig(),  # keep all: after a kill Tune may restore an older one
            ),
        )
        with interrupts():
            trials = tuner.fit()
        return read_results(trials, run_dir)


def resume(run_dir: Path | str, address: str | None = None, allow_pickle: bool = False) -> TuneResult:
    """Continue an interrupted or killed search; completed trials are not run again.

    Args:
        run_dir: Folder of the search.
        address: Address of a Ray cluster, see `tune`.
        allow_pickle: Let Ray Tune load its own files in the folder. They are pickles, which can run code when loaded.

    Raises:
        CheckpointError: The folder holds no search, or it cannot be read.
        ConfigError: `allow_pickle` is not set.
        GpuEnvsError: Another process continues the search.
    """
    run_dir = Path(run_dir).resolve()
    config, plan, count = read_search(run_dir)
    if not allow_pickle:
        raise ConfigError(
            f"{run_dir / TUNE}: Ray Tune keeps a search in pickles, which can run code when loaded; "
            "add --allow-pickle (in Python allow_pickle=True) if you trust everyone who can write there"
        )
    with FolderLock(run_dir), _library(address) as (ray, library):
        if not library.Tuner.can_restore(str(run_dir / TUNE)):
            raise CheckpointError(f"{run_dir / TUNE}: expected Ray Tune's files, got none; start in another folder")
        needs = resources(plan, config, count, ray.nodes())
        function = library.with_resources(trainable(config, plan), needs)
        tuner = library.Tuner.restore(str(run_dir / TUNE), function, resume_errored=True)
        with interrupts():
            trials = tuner.fit()
        return read_results(trials, run_dir)


def dry_run(config: TrainConfig, spaces: Mapping[str, Space], plan: TuneConfig) -> None:
    """Run one iteration in a few environments on the CPU, to detect invalid settings before the search starts.

    Raises:
        ConfigError: The metric does not exist, or with "pbt" a setting cannot change during a training.
        GpuEnvsError: Another error of the training.
    """
    if plan.metric.startswith("eval/") and not config.eval_episodes:
        raise ConfigError(f"metric = {plan.metric!r}: has no effect with eval_episodes = 0; set eval_episodes > 0")
    small = {name: min(limit, getattr(config, name)) for name, limit in _SMALL.items()}
    config = dataclasses.replace(config, device="cpu", deterministic=False, checkpoint_interval=1, logger=(), **small)
    with tempfile.TemporaryDirectory(prefix="gpu-envs-dry-run-") as folder, config.in_force():
        trainer = Trainer(config, Path(folder) / "run")
        trainer.iterate()
        trainer.log.close()
        columns = list(read_rows(trainer.run_dir / "metrics.csv")[0])
        late = getattr(config.learner, "learning_starts", 0) > 0  # then metrics of updates appear later
        if plan.metric not in columns and not late:
            raise ConfigError(f"metric: expected one of {', '.join(columns)}, got {plan.metric!r}")
        if plan.scheduler != "pbt":
            return
        state = trainer.state_dict()
        for name, space in spaces.items():
            if not name.startswith("learner.") or not space.numbers:
                raise ConfigError(f"search: {name}: pbt can only change numbers of the learner; use asha")
            for value in (space.values[0], space.values[-1]):
                other = changed(config, {name: value}, "search", FIELDS)
                prefix = f"search: {name} = {value}: pbt cannot change it during a training"
                if name in SIZES:
                    raise ConfigError(f"{prefix}, because it is the size of a buffer; use asha")
                try:
                    core = make_train_core(other, other.num_envs, other.seed)
                    learners = LearnerGroup(other, core)
                    Collector(other, core, learners).load_state_dict(state)
                    learners.load_state_dict(state)
                except CheckpointError as error:
                    raise ConfigError(f"{prefix} ({error}); use asha") from None


def resources(plan: TuneConfig, config: TrainConfig, trials: int, nodes: list[dict[str, Any]]) -> dict[str, float]:
    """Return the CPUs and GPUs of a trial, so that many trials run at once and each fits on one machine.

    Raises:
        ConfigError: The cluster does not have the requested resources.
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    cpus, gpus = ([node.get(kind, 0.0) for node in alive] for kind in ("CPU", "GPU"))
    parallel_trials, demand = float(trials), {"CPU": 0.0, "GPU": 0.0}
    if config.device.startswith("cuda"):
        if not sum(gpus):
            raise ConfigError(f"device={config.device!r}: expected a cluster with GPUs, got none; use device='cpu'")
        demand["GPU"] = 1 / min(MAX_TRIALS_PER_GPU, math.ceil(trials / sum(gpus))) if plan.gpus is None else plan.gpus
        if not demand["GPU"]:
            raise ConfigError(f"gpus = 0: has no effect with device = {config.device!r}; set gpus > 0")
        parallel_trials = min(parallel_trials, sum(gpus) / demand["GPU"])
    elif plan.gpus:
        raise ConfigError(f"gpus = {plan.gpus}: has no effect with device = 'cpu'; set device = 'cuda'")
    share = sum(cpus) / parallel_trials
    least = share if config.device.startswith("cuda") else 1.0
    usual = float(min(max(math.floor(share), min(least, 1.0)), max(cpus), config.num_threads or math.inf))
    demand["CPU"] = usual if plan.cpus is None else plan.cpus
    for kind, limit in (("CPU", max(cpus)), ("GPU", max(gpus))):
        if demand[kind] > limit:
            name = f"{kind.lower()}s"
            raise ConfigError(f"{name}: expected at most the {limit:g} of the largest machine, got {demand[kind]:g}")
    return {"cpu": demand["CPU"], "gpu": demand["GPU"]}


@contextmanager
def _library(address: str | None) -> Iterator[tuple[Any, Any]]:
    """Connect to a cluster within the block, and yield the modules `ray` and `ray.tune`."""
    os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1")  # after a kill, steps since the last snapshot are repeated
    connected_before = ray_library(COMMAND).is_initialized()
    os.environ.setdefault("TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "0")  # snapshots are small
    ray = connect(COMMAND, address, log_to_driver=False)  # errors of a trial are in its result
    try:
        ray_module("tune.search.basic_variant")  # `ray.tune` alone does not import it
        yield ray, ray_module("tune")
    finally:
        if not connected_before:
            ray.shutdown()


def _scheduler(plan: TuneConfig, total_steps: int, spaces: Mapping[str, Space], library: Any) -> Any:
    schedulers = ray_module("tune.schedulers")
    if plan.scheduler == "asha":
        grace = min(plan.grace_period or -(-total_steps // 9), total_steps)
        return schedulers.ASHAScheduler(
            "steps", max_t=total_steps, grace_period=grace, reduction_factor=plan.reduction_factor
        )
    if plan.scheduler == "pbt":
        return schedulers.PopulationBasedTraining(
            "steps",
            perturbation_interval=plan.perturbation_interval or -(-total_steps // 10),
            hyperparam_mutations={
                name: list(space.values) if space.kind in search_space.LISTS else space.domain(library)
                for name, space in spaces.items()
            },
            custom_explore_fn=search_space.clip_to_space(spaces),
            log_config=False,
        )
    return schedulers.FIFOScheduler()


def _trial_printer(plan: TuneConfig, library: Any) -> Any:
    """Return a callback that prints a line for every trial that ends."""

    class TrialPrinter(library.Callback):
        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            last = trial.last_result or {}
            ended = 1 + sum(other.is_finished() for other in trials if other is not trial)
            text = last.get("failed") or f"{plan.metric} {short_number(last.get(plan.metric, math.nan), 4)}"
            print(f"{trial}: {last.get('steps', 0):,} steps, {text} ({ended} ended)", flush=True)

    return TrialPrinter()


def _name(trial: Any) -> str:
    return f"trial-{trial.trial_id.rpartition('_')[2]}"


def _lengths(spaces: Mapping[str, Space]) -> list[int]:
    return [len(space.values) for space in spaces.values() if space.kind == "grid"]


def _check_new(run_dir: Path) -> None:
    """Raise ConfigError if a search cannot start in a folder."""
    if (run_dir / SEARCH).exists():
        raise ConfigError(
            f"{run_dir / SEARCH}: expected a folder without a search; choose another, or continue "
            f"with {shell_command('--resume', run_dir)}"
        )
    run_folder.check_kind(run_dir, "tune")
    check_folder(run_dir)
    if (run_dir / TUNE).exists():
        raise ConfigError(f"{run_dir}: expected a folder without a run; choose another")
