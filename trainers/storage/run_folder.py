"""The folder of a run: which one it gets, what it holds, and what is set aside when the run goes back in time."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from gpu_envs.errors import ConfigError
from gpu_envs.paths import check_folder
from trainers import checkpoint
from trainers.checkpoint import Checkpoint
from trainers.folder_lock import LOCK, FolderLock
from trainers.logs import read_rows

TRACES = ("checkpoints", "metrics.csv", "config.json")
"""Any of these shows that a folder holds a training."""
SEARCH = "search.json"  # file in the folder of a search for settings
KINDS = {"league": (checkpoint.LEAGUE,), "tune": (SEARCH,), "training": TRACES}
"""Kinds of runs, and files that show that a folder holds one."""


def kind_of(path: Path) -> str | None:
    """Return what a folder holds: "training", "league", "tune", or None."""
    return next((kind for kind in KINDS if _holds(path, kind)), None)


def _holds(path: Path, kind: str) -> bool:
    return any((path / name).exists() for name in KINDS[kind])


def check_kind(path: Path, kind: str) -> None:
    """Raise ConfigError if a run of one kind is to begin in a folder of another, or among a run's checkpoints."""
    for folder in (path.absolute(), *path.absolute().parents):
        run = folder.parent
        if folder.name == checkpoint.FOLDER and all((run / name).exists() for name in ("metrics.csv", "config.json")):
            raise ConfigError(
                f"{path}: a {kind} run needs a folder of its own, this one is among the checkpoints of {run}; "
                "choose another"
            )
    if not _holds(path, kind) and (found := kind_of(path)):
        raise ConfigError(
            f"{path}: a {kind} run needs a folder of its own, this one holds a {found} run; choose another"
        )


def choose(out: Path | None, resume: Checkpoint | None) -> Path | None:
    """The folder that a run is to have; None means a new one, see `open_folder`. Nothing is made or changed yet.

    Args:
        out: The folder asked for; None: a new one, or the run's own where it is resumed.
        resume: The checkpoint to go on from.

    Raises:
        ConfigError: The folder holds another run, of any kind, or cannot be made.
        CheckpointError: The metrics of the run to go on with are damaged.
    """
    if out is None and resume is None:
        return None
    own = out is None
    if out is None:
        assert resume is not None
        path = resume.path if resume.path.parent.name == "checkpoints" else resume.path.resolve()  # it may be "."
        if path.parent.name != "checkpoints":
            raise ConfigError(f"{path}: a checkpoint outside of any run; name a folder with --out")
        out = path.parent.parent
    check_folder(out)
    check_kind(out, "training")
    trace = next((out / name for name in TRACES if (out / name).exists()), None)
    if trace is None or own or (resume is not None and belongs(resume, out)):
        read_rows(out / "metrics.csv")
        return out
    if resume is not None:
        raise ConfigError(f"{trace}: another run than that of {resume.path}; resume into its own folder or a new one")
    saved = checkpoint.every(out / "checkpoints")
    what_to_do = f"continue it with --resume {out}, or" if saved else "it has no checkpoint yet;"
    raise ConfigError(f"{trace}: there is a run already; {what_to_do} choose another folder")


def belongs(saved: Checkpoint, out: Path) -> bool:
    """Whether a checkpoint is one of the run in `out`."""
    return saved.path.resolve().parent == (out / "checkpoints").resolve()


def open_folder(out: Path | None, env_id: str, resume: Checkpoint | None = None) -> tuple[Path, FolderLock]:
    """Make the folder that `choose` gave, see `make_folder`, and take its lock.

    Raises:
        ConfigError: Another process has begun a run there since `choose`.
        GpuEnvsError: Another process writes there.
    """
    path = make_folder(out, env_id)
    lock = FolderLock(path, take_over=True)
    choose(path, resume)
    return path, lock


def make_folder(out: Path | None, env_id: str) -> Path:
    """Makes the folder that `choose` gave; for None one below out/, with the environment's name and the time."""
    if out is None:
        name = env_id.rpartition(":")[2]
        return _new_folder(Path("out") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}")
    out.mkdir(parents=True, exist_ok=True)
    return out


def set_aside(out: Path, iteration: int) -> Path | None:
    """Puts what a run made after `iteration` into a folder below it, itself a run, and so loses nothing.

    Checkpoints move; the other files, which the run goes on to overwrite, are copied.

    Returns:
        The folder, None if there was no later checkpoint.
    """
    later = [path for path in checkpoint.every(out / "checkpoints") if int(path.name) > iteration]
    if not later:
        return None
    aside = _new_folder(out / "rewound")
    for file in out.iterdir():
        if file.is_file() and "tfevents" not in file.name and file.name != LOCK:
            shutil.copy2(file, aside)
    (aside / "checkpoints").mkdir()
    for path in reversed(later):  # killed in between, the run goes on from those that are left
        path.rename(aside / "checkpoints" / path.name)
    return aside


def _new_folder(path: Path) -> Path:
    """Makes a folder of this name, or with -2, -3, ... where there is one: no two processes get the same."""
    number = 1
    while True:
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
