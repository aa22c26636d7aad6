"""The folder of a run: name, kind and lock, and the archive of checkpoints after the one that a run resumes."""

from __future__ import annotations

import dataclasses
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.settings import setting
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import read_json, read_record, write_json, wrong_format
from trainers.storage import checkpoint
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.folder_lock import LOCK, FolderLock
from trainers.storage.learning_curves import read_rows

TRACES = ("checkpoints", "metrics.csv", "config.json")
"""Files that show that a folder holds a training."""
SEARCH = "search.json"  # file of a search for settings
EXPERIMENT = "experiment.yaml"  # copy of the file of an experiment
SEEDS_FORMAT = "gpu-envs seeds 1"  # format of seeds.json
KINDS = {
    "league": (checkpoint.LEAGUE,),
    "multi-seed": (checkpoint.SEEDS,),
    "tune": (SEARCH,),
    "experiment": (EXPERIMENT,),
    "training": TRACES,
}
"""Files that show the kind of a run, by kind."""


def run_kind(path: Path) -> str | None:
    """Return what a folder holds: "training", "multi-seed", "league", "tune", "experiment", or None."""
    return next((kind for kind in KINDS if _holds(path, kind)), None)


def _holds(path: Path, kind: str) -> bool:
    return any((path / name).exists() for name in KINDS[kind])


def check_kind(path: Path, kind: str) -> None:
    """Raise ConfigError if a folder holds a run of another kind, or is among the checkpoints of a run."""
    for folder in (path.absolute(), *path.absolute().parents):
        run = folder.parent
        if folder.name == checkpoint.FOLDER and all((run / name).exists() for name in ("metrics.csv", "config.json")):
            raise ConfigError(
                f"{path}: {with_article(kind)} run needs a folder of its own, this one is among the checkpoints of "
                f"{run}; choose another"
            )
    if not _holds(path, kind) and (other := run_kind(path)):
        raise ConfigError(
            f"{path}: {with_article(kind)} run needs a folder of its own, this one holds {with_article(other)} run; "
            "choose another"
        )


def with_article(kind: str) -> str:
    """Return a kind of runs after "a" or "an"."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def resolve_run_dir(out: Path | None, resume: Checkpoint | None) -> Path | None:
    """Return the folder for a run, without creating it; None means a new folder, see `open_folder`.

    Args:
        out: Requested folder. None: a new folder, or the run's own folder with `resume`.
        resume: Checkpoint to continue from.

    Raises:
        ConfigError: The folder holds another run of any kind, or cannot be created.
        CheckpointError: The metrics of the run to continue are damaged.
    """
    if out is None and resume is None:
        return None
    is_default = out is None
    if out is None:
        assert resume is not None
        path = resume.path if resume.path.parent.name == "checkpoints" else resume.path.resolve()  # it may be "."
        if path.parent.name != "checkpoints":
            raise ConfigError(f"{path}: a checkpoint outside of any run; name a folder with --run-dir")
        out = path.parent.parent
    check_folder(out)
    check_kind(out, "training")
    trace = next((out / name for name in TRACES if (out / name).exists()), None)
    if trace is None or is_default or (resume is not None and is_run_of(resume, out)):
        read_rows(out / "metrics.csv")
        return out
    if resume is not None:
        raise ConfigError(
            f"{trace}: expected the run of {resume.path}, got another; resume into its own folder or a new one"
        )
    saved = checkpoint.every(out / "checkpoints")
    what_to_do = f"continue it with {shell_command('--resume', out)}, or" if saved else "it has no checkpoint yet;"
    raise ConfigError(f"{trace}: there is a run already; {what_to_do} choose another folder")


def is_run_of(saved: Checkpoint, out: Path) -> bool:
    """Return whether a checkpoint belongs to the run in `out`."""
    return saved.path.resolve().parent == (out / "checkpoints").resolve()


def open_folder(out: Path | None, env_id: str, resume: Checkpoint | None = None) -> tuple[Path, FolderLock]:
    """Create the folder that `resolve_run_dir` returned, see `make_folder`, and take its lock.

    Raises:
        ConfigError: Another process has started a run there since `resolve_run_dir`.
        GpuEnvsError: Another process writes there.
    """
    path = make_folder(out, env_id)
    lock = FolderLock(path, take_over=True)
    resolve_run_dir(path, resume)
    return path, lock


def make_folder(out: Path | None, env_id: str) -> Path:
    """Create the folder that `resolve_run_dir` returned; for None, out/<environment>-<time>."""
    if out is None:
        name = env_id.rpartition(":")[2].replace("/", "-")
        return _new_folder(Path("out") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    out.mkdir(parents=True, exist_ok=True)
    return out


def archive_after(out: Path, iteration: int) -> Path | None:
    """Move the checkpoints after an iteration to a new folder below rewound/, and copy the other files there.

    Returns:
        The new folder, which holds a run; None if there was no later checkpoint.
    """
    later = [path for path in checkpoint.every(out / "checkpoints") if int(path.name) > iteration]
    if not later:
        return None
    aside = _new_folder(out / "rewound")
    for file in out.iterdir():
        if file.is_file() and "tfevents" not in file.name and file.name != LOCK:
            shutil.copy2(file, aside)
    (aside / "checkpoints").mkdir()
    for path in reversed(later):  # after a kill in between, the run continues from the remaining ones
        path.rename(aside / "checkpoints" / path.name)
    return aside


def _new_folder(path: Path) -> Path:
    """Create a folder with this name, or with the suffix -2, -3, ... if it exists; two processes never share one."""
    number = 1
    while True:
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


# ---------------------------------------------------------------- several seeds of one training


@dataclass(frozen=True)
class SeedsRecord:
    """Content of seeds.json."""

    format: str
    """Format, equal to `SEEDS_FORMAT`."""
    num_seeds: int = setting(1, ge=1)
    """Number of runs."""
    config: dict[str, Any] = field(default_factory=dict)
    """TrainConfig of the first run as JSON; each following run has the next seed."""
    path: Path = Path()
    """Folder of the runs; it is not in the file."""


def run_name(seed: int) -> str:
    """Return the name of the folder of the run with a seed."""
    return f"seed-{seed}"


def seed_runs(path: Path) -> list[Path]:
    """Return the folders of the runs in a folder of several seeds, in the order of the seeds.

    Raises:
        CheckpointError: The record of the seeds is missing or damaged, or no run has begun.
    """
    record = read_seeds(path)
    names = [run_name(int(record.config.get("seed", 0)) + number) for number in range(record.num_seeds)]
    runs = [path / name for name in names if (path / name / checkpoint.CONFIG).is_file()]
    if not runs:
        raise CheckpointError(f"{path}: expected runs of {len(names)} seeds such as {names[0]}, got none")
    return runs


def runs_to_play(path: Path) -> list[Path]:
    """Return the runs in a folder of several seeds that have a checkpoint, in the order of the seeds.

    Raises:
        CheckpointError: There is no checkpoint.
    """
    runs = [run for run in seed_runs(path) if checkpoint.every(run / checkpoint.FOLDER)]
    if not runs:
        raise CheckpointError(f"{path}: expected checkpoints of several seeds, got none; continue the training")
    return runs


def best_seed(path: Path) -> tuple[Path, str]:
    """Return the run of several seeds whose last checkpoint has the highest score, and why it was chosen.

    Raises:
        CheckpointError: There is no checkpoint.
    """
    runs = runs_to_play(path)
    scores = {run: checkpoint.read_manifest(checkpoint.find(run)).score for run in runs}
    evaluated = {run: score for run, score in scores.items() if score is not None}
    if not evaluated:
        return runs[0], f"the first of {len(runs)} seeds, which have no evaluations"
    run = max(evaluated, key=lambda run: evaluated[run])
    return run, f"the best of {len(runs)} seeds, score {evaluated[run]:.4g}"


def read_seeds(path: Path) -> SeedsRecord:
    """Read the record of a folder.

    Raises:
        CheckpointError: The record is missing, damaged or of another format.
    """
    data = read_json(path / checkpoint.SEEDS)
    if (actual := data.get("format")) != SEEDS_FORMAT:
        raise wrong_format(path / checkpoint.SEEDS, SEEDS_FORMAT, actual)
    return dataclasses.replace(read_record(SeedsRecord, str(path / checkpoint.SEEDS), data, ("path",)), path=path)


def write_seeds(path: Path, num_seeds: int, config: dict[str, Any]) -> None:
    """Write the record of a folder."""
    write_json(path / checkpoint.SEEDS, {"format": SEEDS_FORMAT, "num_seeds": num_seeds, "config": config})


def check_no_seeds(path: Path) -> None:
    """Raise ConfigError unless the runs of several seeds can start in a folder."""
    check_folder(path)
    check_kind(path, "multi-seed")
    if (path / checkpoint.SEEDS).is_file():
        raise ConfigError(
            f"{path / checkpoint.SEEDS}: there are runs already; continue them with "
            f"{shell_command('--resume', path)}, or choose another"
        )
