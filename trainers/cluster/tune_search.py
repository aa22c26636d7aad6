"""Searches for settings with Ray Tune: many trainings, of which the bad end early (ASHA) or copy the good (PBT).

A trial is a run of `trainers.loop.Trainer` as it is; it tells Tune of its metrics whenever it saves a checkpoint, and a
trial that was interrupted, or copies another, goes on from a checkpoint. What Tune keeps of a search is Tune's.
"""
# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from gpu_envs.id_modules import import_named, import_option, named_modules
from gpu_envs.paths import check_folder
from trainers import checkpoint, runs
from trainers.arguments import SHARED
from trainers.checkpoint import Checkpoint
from trainers.cluster import search_space
from trainers.cluster.connect import connect, ray_library
from trainers.cluster.search_space import FIELDS, Space
from trainers.collector import Collector
from trainers.config import TrainConfig, changed, make_core
from trainers.files import check_fields, read_json, write_json
from trainers.folder_lock import FolderLock
from trainers.logs import read_rows
from trainers.loop import Trainer
from trainers.presets import preset
from trainers.runs import SEARCH
from trainers.settings import check_settings, setting

WHO = "gpu-envs tune"  # asks for Ray, in messages
FORMAT = "gpu-envs search 1"  # of search.json
RESULTS = "tune.json"  # what was found; SEARCH says what was asked
TUNE = "tune"
"""Folder of Tune's own in that of a search."""
SHARE = 4
"""Trials on one GPU at most, unless it is said how many."""
RETRIES = 2
"""Of a trial whose machine or process was lost; it goes on from its last checkpoint."""
WORST = -1e30
"""Score of what failed, in mode "max": finite, as schedulers interpolate between scores."""
SIZES = ("learner.rollout_length", "learner.replay_size")  # settings that memory depends on
_SMALL = {"num_envs": 4, "eval_episodes": 2}


@dataclass(frozen=True)
class Plan:
    """How settings are searched for. Steps are steps of worlds, as `total_steps`."""

    scheduler: str = setting("asha", ("asha", "pbt", "none"))
    """"asha": bad trials end early; "pbt": they copy good ones and go on with changed settings; "none"."""
    samples: int = setting(16, ">= 1")
    """Trials; for each combination of grids, if there are any."""
    metric: str = "eval/score"
    """Column of metrics.csv that trials are compared by; by default what evaluations give."""
    mode: str = setting("max", ("max", "min"))
    """Whether more of it is better."""
    interval: int | None = setting(None, ">= 1")
    """Steps between two evaluations and checkpoints of a trial; None: a twentieth of total_steps."""
    grace: int | None = setting(None, ">= 1", needs={"scheduler": "asha"})
    """Steps before which no trial is ended; None: a ninth of total_steps."""
    reduction: int = setting(3, ">= 2", needs={"scheduler": "asha"})
    """One of so many trials goes on at every rung; rungs are at grace, grace * reduction, ... steps."""
    perturb: int | None = setting(None, ">= 1", needs={"scheduler": "pbt"})
    """Steps between two copies; None: a tenth of total_steps."""
    cpus: float | None = setting(None, "> 0")
    """CPUs of a trial; None: as the cluster has them."""
    gpus: float | None = setting(None, ">= 0")
    """GPUs of a trial, or the part of one; None: as the cluster has them, four trials on each at most."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)

    def every(self, config: TrainConfig) -> int:
        """Iterations of a trial between two checkpoints."""
        interval = self.interval or -(-config.total_steps // 20)
        return max(1, round(interval / config.rollout_steps))


@dataclass(frozen=True)
class Trial:
    """What came of one."""

    name: str
    """Ray Tune's id of it."""
    settings: dict[str, Any]
    """What was searched; of a trial whose settings changed, those of its best checkpoint."""
    score: float | None
    """The best that it had; None: none."""
    steps: int
    """How far it came."""
    state: str
    """"finished", "stopped" before its steps were through, "failed", or "unfinished"."""
    checkpoint: str | None
    """The one with this score."""
    why: str | None = None
    """It failed."""


@dataclass(frozen=True)
class Tuned:
    """What came of a search."""

    config: TrainConfig
    """That of the best trial."""
    score: float
    """Of the best trial, by the metric of the search."""
    checkpoint: Path
    """Its own best; it can be evaluated, exported and trained on."""
    trials: tuple[Trial, ...]
    """All, the best first."""
    run_dir: Path
    """Folder of the search."""
    complete: bool
    """Whether all trials are through; else `resume` goes on."""

    @property
    def command(self) -> str:
        """The command line that trains with the best settings."""
        return command_line(self.config)

    def table(self, rows: int = 10) -> str:
        """The best trials, a line each."""
        names = list(self.trials[0].settings)
        lines = [["", "trial", "score", "steps", "", *names]]
        for rank, trial in enumerate(self.trials[:rows], start=1):
            score = "-" if trial.score is None else f"{trial.score:.4g}"
            values = [trial.settings.get(name, "-") for name in names]  # one that has not begun has none
            values = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
            lines.append([str(rank), trial.name, score, f"{trial.steps:,}", trial.state, *values])
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, wide)).rstrip() for line in lines)


def tune(
    config: TrainConfig,
    search: Mapping[str, Any],
    run_dir: Path | str,
    plan: Plan | None = None,
    address: str | None = None,
    progress: bool = False,
) -> Tuned:
    """Searches for settings.

    Args:
        config: What all trials have in common; the steps of each are its `total_steps`.
        search: By name, as "learner.learning_rate" or "num_envs", a space: text, see `search_space`, or
            Ray Tune's own (a range with ends, a choice or a grid).
        run_dir: Folder of the search, which all machines see; not one that holds a search.
        plan: How.
        address: Of a cluster, see `trainers.cluster.connect`.
        progress: Print a line about every trial that ends.

    Raises:
        ConfigError: A name, a value, a metric or a folder that does not fit; nothing has been started.
        MissingExtraError: Ray is not installed.
        GpuEnvsError: No trial came to a score.
    """
    plan = plan or Plan()
    spaces = {name: search_space.space(name, given) for name, given in search.items()}
    search_space.check(config, spaces)
    if config.until_return is not None:
        raise ConfigError(f"until_return = {config.until_return}: has no effect in a search; leave it out")
    if config.device.startswith("cuda:"):
        raise ConfigError(f"device = {config.device!r}: expected 'cuda', as Ray says which GPU a trial has")
    if config.eval_against is not None:  # trials run elsewhere
        config = dataclasses.replace(config, eval_against=str(checkpoint.find(Path(config.eval_against)).resolve()))
    run_dir = Path(run_dir).resolve()
    _check_new(run_dir)
    ray_library(WHO)
    rehearse(config, spaces, plan)
    with _library(address) as (ray, library), contextlib.ExitStack() as stack:
        needs = resources(plan, config, math.prod(_lengths(spaces)) * plan.samples, ray.nodes())
        run_dir.mkdir(parents=True, exist_ok=True)
        stack.enter_context(FolderLock(run_dir))
        _check_new(run_dir)
        said = {name: str(each) if each.own is None else f"{each} as {each.own!r}" for name, each in spaces.items()}
        content = {"format": FORMAT, "config": dataclasses.asdict(config), "plan": dataclasses.asdict(plan)}
        write_json(run_dir / SEARCH, {**content, "search": said, "trials": math.prod(_lengths(spaces)) * plan.samples})
        tuner = library.Tuner(
            library.with_resources(trainable(config, plan), needs),
            param_space={name: each.domain(library) for name, each in spaces.items()},
            tune_config=library.TuneConfig(
                metric=plan.metric,
                mode=plan.mode,
                num_samples=plan.samples,
                scheduler=_scheduler(plan, config.total_steps, spaces, library),
                search_alg=library.search.basic_variant.BasicVariantGenerator(random_state=config.seed % 2**32),
                reuse_actors=True,  # a process needs seconds to start
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=library.RunConfig(
                name=TUNE,
                storage_path=str(run_dir),
                verbose=0,
                callbacks=[_teller(plan, library)] if progress else None,
                failure_config=library.FailureConfig(max_failures=RETRIES),
                checkpoint_config=library.CheckpointConfig(),  # all: what Tune knows after a kill may be an older one
            ),
        )
        return _results(tuner.fit(), run_dir)


def resume(run_dir: Path | str, address: str | None = None, allow_pickle: bool = False) -> Tuned:
    """Continue a search that was interrupted, or killed; trials that ended are not run again.

    Args:
        run_dir: Folder of the search.
        address: Address of a Ray cluster, see `tune`.
        allow_pickle: Let Ray Tune read its own files in the folder. They are pickles, which run code when read.

    Raises:
        CheckpointError: There is no search, or it cannot be read.
        ConfigError: Without `allow_pickle`.
        GpuEnvsError: Another process continues the search.
    """
    run_dir = Path(run_dir).resolve()
    config, plan, count = _search(run_dir)
    if not allow_pickle:
        raise ConfigError(
            f"{run_dir / TUNE}: Ray Tune keeps a search in pickles, which run code when they are read; "
            "add --allow-pickle (in Python allow_pickle=True) if you trust everyone who can write there"
        )
    with FolderLock(run_dir), _library(address) as (ray, library):
        if not library.Tuner.can_restore(str(run_dir / TUNE)):
            raise CheckpointError(f"{run_dir / TUNE}: expected Ray Tune's files, got none; begin in another folder")
        needs = resources(plan, config, count, ray.nodes())
        found = library.with_resources(trainable(config, plan), needs)
        return _results(library.Tuner.restore(str(run_dir / TUNE), found, resume_errored=True).fit(), run_dir)


def trainable(config: TrainConfig, plan: Plan) -> Callable[[dict[str, Any]], None]:
    """What Tune calls for every trial, with the settings that it is to try."""
    modules = named_modules()

    def trial(settings: dict[str, Any]) -> None:
        import_named(modules)
        run_trial(config, plan, {name: _plain(value) for name, value in settings.items()})

    return trial


def run_trial(config: TrainConfig, plan: Plan, settings: Mapping[str, Any]) -> None:
    """One trial, within Tune: trains, and tells it of every checkpoint.

    What is our own error, as a training that diverged, is a bad trial and ends with the worst score; others are Tune's
    to deal with.
    """
    from ray import tune as library

    worst = WORST if plan.mode == "max" else -WORST
    last = {"steps": 0, plan.metric: worst}

    def tell(path: Path, row: Mapping[str, float]) -> None:
        if plan.metric not in row:
            raise ConfigError(f"metric = {plan.metric!r}: expected one of {', '.join(row)}")
        value = row[plan.metric]  # not finite where no episode ended: as before then
        last.update(steps=int(row["steps"]), **({plan.metric: value} if math.isfinite(value) else {}))
        library.report({**row, **last}, checkpoint=library.Checkpoint.from_directory(path))

    try:
        own = trial_config(config, plan, settings)
        start, saved = library.get_checkpoint(), None
        if start is not None:
            with start.as_directory() as folder:
                saved = continued(checkpoint.load(Path(folder)), own)
            if saved.steps >= own.total_steps:  # it was interrupted at its very end, or copies one that is there
                return
        with tempfile.TemporaryDirectory(prefix="gpu-envs-trial-") as folder:
            Trainer(own, Path(folder) / "run", saved, on_save=tell).run()
    except GpuEnvsError as error:
        library.report({**last, plan.metric: worst, "failed": str(error)})


def trial_config(config: TrainConfig, plan: Plan, settings: Mapping[str, Any]) -> TrainConfig:
    """The run of one trial."""
    own = changed(config, settings, "search", FIELDS)
    return dataclasses.replace(own, checkpoint_every=plan.every(own), keep_last=1)


def continued(saved: Checkpoint, config: TrainConfig) -> Checkpoint:
    """A checkpoint as one of a run with other settings: learners take up its weights, and go on with theirs.

    A run that is resumed cannot change them; a trial that copies another has to.
    """
    return dataclasses.replace(saved, config=json.loads(json.dumps(dataclasses.asdict(config))))


def rehearse(config: TrainConfig, spaces: Mapping[str, Space], plan: Plan) -> None:
    """Plays one iteration on the CPU in a few worlds, to see before anything starts that a trial can run.

    Raises:
        ConfigError: There is no such metric, or with "pbt" a setting that cannot change while a policy learns.
        GpuEnvsError: What else keeps a trial from running.
    """
    if plan.metric.startswith("eval/") and not config.eval_episodes:
        raise ConfigError(f"metric = {plan.metric!r}: has no effect with eval_episodes = 0; set eval_episodes > 0")
    small = {name: min(most, getattr(config, name)) for name, most in _SMALL.items()}
    config = dataclasses.replace(config, device="cpu", deterministic=False, checkpoint_every=1, **small)
    with tempfile.TemporaryDirectory(prefix="gpu-envs-rehearsal-") as folder, config.in_force():
        trainer = Trainer(config, Path(folder) / "run")
        trainer.iterate()
        trainer.log.close()
        columns = list(read_rows(trainer.log.path)[0])
        late = getattr(config.learner, "learning_starts", 0) > 0  # metrics of learning come when it starts
        if plan.metric not in columns and not late:
            raise ConfigError(f"metric = {plan.metric!r}: expected one of {', '.join(columns)}")
        if plan.scheduler != "pbt":
            return
        state = trainer.collector.state_dict()
        for name, each in spaces.items():
            if not name.startswith("learner.") or not each.numbers:
                raise ConfigError(
                    f"search: {name}: pbt changes numbers of the learner as it learns, this is none; use asha"
                )
            for value in (each.values[0], each.values[-1]):
                other = changed(config, {name: value}, "search", FIELDS)
                told = f"search: {name} = {value}: pbt cannot change it while a policy learns"
                if name in SIZES:
                    raise ConfigError(f"{told}, as it is the size of what a learner holds; use asha")
                try:
                    Collector(other, make_core(other, other.num_envs, other.seed)).load_state_dict(state)
                except CheckpointError as error:
                    raise ConfigError(f"{told} ({error}); use asha") from None


def resources(plan: Plan, config: TrainConfig, trials: int, nodes: list[dict[str, Any]]) -> dict[str, float]:
    """CPUs and GPUs of a trial: such that many run at once, and none asks for more than a machine has.

    Raises:
        ConfigError: The cluster has less.
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    cpus, gpus = ([node.get(kind, 0.0) for node in alive] for kind in ("CPU", "GPU"))
    at_once, wanted = float(trials), {"CPU": 0.0, "GPU": 0.0}
    if config.device.startswith("cuda"):
        if not sum(gpus):
            raise ConfigError(f"device = {config.device!r}: expected a cluster with GPUs, got one without; use cpu")
        wanted["GPU"] = 1 / min(SHARE, math.ceil(trials / sum(gpus))) if plan.gpus is None else plan.gpus
        if not wanted["GPU"]:
            raise ConfigError(f"gpus = 0: has no effect with device = {config.device!r}; set gpus > 0")
        at_once = min(at_once, sum(gpus) / wanted["GPU"])
    elif plan.gpus:
        raise ConfigError(f"gpus = {plan.gpus}: has no effect with device = 'cpu'; set device = 'cuda'")
    fair = sum(cpus) / at_once
    least = fair if config.device.startswith("cuda") else 1.0
    usual = float(min(max(math.floor(fair), min(least, 1.0)), max(cpus), config.threads or math.inf))
    wanted["CPU"] = usual if plan.cpus is None else plan.cpus
    for kind, most in (("CPU", max(cpus)), ("GPU", max(gpus))):
        if wanted[kind] > most:
            name = f"{kind.lower()}s"
            raise ConfigError(f"{name} = {wanted[kind]:g}: expected at most the {most:g} of the largest machine")
    return {"cpu": wanted["CPU"], "gpu": wanted["GPU"]}


def command_line(config: TrainConfig) -> str:
    """The `gpu-envs train` that gives a configuration: what differs from the preset."""
    usual = preset(config.env_id, config.device, config.algorithm)
    words = ["gpu-envs", "train", config.env_id, "--device", config.device, "--algorithm", config.algorithm]
    for name, value in config.env.items():
        words += [] if usual.env.get(name, _NOTHING) == value else ["--env", f"{name}={json.dumps(value)}"]
    for group, name in config.policies.items():
        words += ["--policy", f"{group}={name}"]
    for prefix, own, base, names in (
        ("", config, usual, [name for name in SHARED if name not in ("device", "algorithm")]),
        ("learner.", config.learner, usual.learner, [field.name for field in dataclasses.fields(config.learner)]),
    ):
        for name in names:
            if (value := getattr(own, name)) != getattr(base, name):
                words += _option(prefix, name.replace("_", "-"), value)
    return shlex.join(words)


_NOTHING = object()


def _option(prefix: str, name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{prefix}{name}" if value else f"--{prefix}no-{name}"]
    return [f"--{prefix}{name}", *([str(each) for each in value] if isinstance(value, tuple) else [str(value)])]


@contextmanager
def _library(address: str | None) -> Iterator[tuple[Any, Any]]:
    """Ray and `ray.tune`, connected within the block."""
    os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1")  # what Tune has not written down is done again after a kill
    before = ray_library(WHO).is_initialized()
    os.environ.setdefault("TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "0")  # small and often is right
    ray = connect(WHO, address, log_to_driver=False)  # what goes wrong in a trial is in its results
    try:
        from ray import tune as library
        from ray.tune.search import basic_variant  # noqa: F401  so that it is there

        yield ray, library
    finally:
        if not before:
            ray.shutdown()


def _scheduler(plan: Plan, total_steps: int, spaces: Mapping[str, Space], library: Any) -> Any:
    from ray.tune import schedulers

    if plan.scheduler == "asha":
        grace = min(plan.grace or -(-total_steps // 9), total_steps)
        return schedulers.ASHAScheduler("steps", max_t=total_steps, grace_period=grace, reduction_factor=plan.reduction)
    if plan.scheduler == "pbt":
        return schedulers.PopulationBasedTraining(
            "steps",
            perturbation_interval=plan.perturb or -(-total_steps // 10),
            hyperparam_mutations={
                name: list(each.values) if each.kind in search_space.LISTS else each.domain(library)
                for name, each in spaces.items()
            },
            custom_explore_fn=search_space.within(spaces),
            log_config=False,
        )
    return schedulers.FIFOScheduler()


def _teller(plan: Plan, library: Any) -> Any:
    """Prints a line about every trial that ends."""

    class Teller(library.Callback):
        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            last = trial.last_result or {}
            ended = 1 + sum(other.is_finished() for other in trials if other is not trial)
            what = last.get("failed") or f"{plan.metric} {last.get(plan.metric, math.nan):.4g}"
            print(f"{trial}: {last.get('steps', 0):,} steps, {what} ({ended} ended)", flush=True)

    return Teller()


def _name(trial: Any) -> str:
    return f"trial-{trial.trial_id.rpartition('_')[2]}"


def _lengths(spaces: Mapping[str, Space]) -> list[int]:
    return [len(each.values) for each in spaces.values() if each.kind == "grid"]


def _plain(value: Any) -> Any:
    """A number of Python's where it is one of NumPy's."""
    return value.item() if hasattr(value, "item") else value


def _check_new(run_dir: Path) -> None:
    """Raise ConfigError unless a search can begin in a folder."""
    if (run_dir / SEARCH).exists():
        raise ConfigError(f"{run_dir / SEARCH}: there is a search already; --resume {run_dir} goes on with it")
    runs.check_kind(run_dir, "tune")
    check_folder(run_dir)
    if (run_dir / TUNE).exists():
        raise ConfigError(f"{run_dir}: expected a folder without a run in it; choose another")


def _search(run_dir: Path) -> tuple[TrainConfig, Plan, int]:
    """What a search was told, and how many trials it has."""
    file = run_dir / SEARCH
    if not file.exists():
        raise CheckpointError(f"{run_dir}: expected a search, got none; gpu-envs tune ID --run-dir begins one")
    data = read_json(file)
    if (got := data.get("format")) != FORMAT:
        raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r}")
    kinds = {"format": str, "config": dict[str, Any], "plan": dict[str, Any], "search": dict[str, str], "trials": int}
    check_fields(str(file), data, kinds)
    plan = Plan(**check_fields(f"{file}: plan", data["plan"], get_type_hints(Plan)))
    return TrainConfig.from_json(data["config"], str(file)), plan, data["trials"]


def _results(grid: Any, run_dir: Path) -> Tuned:
    """Reads what Tune has of the trials, and writes `tune.json`."""
    config, plan, count = _search(run_dir)
    sign = 1 if plan.mode == "max" else -1
    trials = [_trial(result, config, plan, sign) for result in grid]
    trials.sort(key=lambda trial: -math.inf if trial.score is None else sign * trial.score, reverse=True)
    complete = grid.num_terminated + grid.num_errors >= count
    best = next((trial for trial in trials if trial.score is not None), None)
    found: dict[str, Any] = {"score": None, "config": None, "command": None, "checkpoint": None}
    tuned = None
    if best is not None and best.score is not None and best.checkpoint is not None:
        own = changed(config, best.settings, "search", FIELDS)
        tuned = Tuned(own, best.score, Path(best.checkpoint), tuple(trials), run_dir, complete)
        found = {"score": best.score, "config": dataclasses.asdict(own), "command": tuned.command}
        found["checkpoint"] = best.checkpoint
    content = {"env_id": config.env_id, "metric": plan.metric, "mode": plan.mode, "scheduler": plan.scheduler}
    content |= {"complete": complete, "best": found, "trials": [dataclasses.asdict(trial) for trial in trials]}
    write_json(run_dir / RESULTS, content)
    if tuned is None:
        go_on = f"interrupted; go on with {WHO} --resume {run_dir} --allow-pickle{import_option(config.env_id)}"
        why = next((trial.why for trial in trials if trial.why), go_on) if complete else go_on
        raise GpuEnvsError(f"{run_dir}: no trial of {len(trials)} came to a score: {why}")
    return tuned


def _trial(result: Any, config: TrainConfig, plan: Plan, sign: int) -> Trial:
    metrics = result.metrics or {}
    kept: list[Any] = result.best_checkpoints or []
    scored = [(sign * told[plan.metric], -i, saved) for i, (saved, told) in enumerate(kept)]
    top = max(scored, default=None, key=lambda each: each[:2])
    settings = {name: _plain(value) for name, value in (metrics.get("config") or {}).items()}
    if top is not None:  # with "pbt" they change, and those of the best are in its checkpoint
        manifest = Path(top[2].path) / "manifest.json"
        recorded = TrainConfig.from_json(read_json(manifest)["config"], str(manifest))
        settings = {name: current(recorded, name) for name in settings}
    lost = str(result.error).strip().splitlines()[-1:] if result.error else []
    why = metrics.get("failed") or next(iter(lost), None)
    steps = int(metrics.get("steps", 0))
    ended = "finished" if steps >= config.total_steps else "stopped" if metrics.get("done") else "unfinished"
    return Trial(
        name=Path(result.path).name,
        settings=settings,
        score=None if top is None or abs(top[0]) >= -WORST else sign * top[0],
        steps=steps,
        state="failed" if why else ended,
        checkpoint=None if top is None else str(top[2].path),
        why=why,
    )


def current(config: TrainConfig, name: str) -> Any:
    """What a setting is, by its name in a search."""
    return getattr(config.learner if name.startswith("learner.") else config, name.removeprefix("learner."))
