"""Injected deaths of workers and coordinators for `ray_faults.py`: each once, at a random moment."""
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toy_league import FRAME, end_at

from league.executors import LazyValue
from league.rollout.best_response import BestResponse
from league.storage import policy_files, run_store

PAGES = 2
"""Minimum number of pages that a step changes: of the table of tasks and of its index."""


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def cut(file: Path, share: float) -> None:
    """Kill this process after a share of a file is written."""
    os.truncate(file, int(share * file.stat().st_size))
    die()


# ---------------------------------------------------------------- workers


def worker(function: Callable[..., Any], word: str, how: str, moment: float, pools: Any, **arguments: Any) -> Any:
    """Run a task's function, and kill its worker once.

    Args:
        function: Function of the task.
        word: File to which every attempt adds a line with its process and its node.
        how: "saving": die while the result is serialized; "node": work until the node is removed; else: die during the
            task.
        moment: Seconds of work, or share of the bytes; in [0, 1).
        pools: Policies of the task.
        **arguments: Further arguments of the task.
    """
    first = not Path(word).exists()
    with open(word, "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {sys.modules['ray'].get_runtime_context().get_node_id()}\n")
    if not first:
        return function(pools, **arguments)
    if how == "saving":
        tempfile.tempdir = str(Path(word).parent)  # folder of serialized policies, which remain after a kill
        return torn(function(pools, **arguments), moment)
    if how != "node":
        threading.Timer(moment, die).start()
    while True:
        function(pools, **arguments)


def torn(result: Any, moment: float) -> Any:
    """Return the result of a training task, of which only a part can be serialized.

    Serializing the rest kills the process.
    """
    if not isinstance(result, BestResponse):
        names = list(result["state"])
        return {**result, "state": {**result["state"], names[int(moment * len(names))]: LazyValue(die)}}
    save = result.policy.save

    def half(path: Path) -> None:
        save(path)
        cut(path.with_suffix(".safetensors"), moment)

    result.policy.save = half
    return result


def tries(word: Path) -> list[tuple[int, str]]:
    """Return the processes that have attempted a task, and their nodes."""
    lines = word.read_text().splitlines() if word.exists() else []
    return [(int(process), node) for process, node in map(str.split, lines)]


def alive(process: int) -> bool:
    """Return whether a process is running."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ---------------------------------------------------------------- coordinators


def coordinator(how: str, task: str, moment: float) -> None:
    """Make this process die during the step of a task.

    Args:
        how: Moment of the kill. "half a file": after a share of the step's first file is written. "files": after the
            files of the step, and of all steps of its batch, are written but none is committed. "commit": while SQLite
            commits the step, after a share of the first pages is in its log. Else: some seconds after the step starts.
        task: Task of the step.
        moment: Share or seconds, in [0, 1).
    """
    armed, step, publish, connect = threading.Event(), run_store.RunStore.step, policy_files.publish, sqlite3.connect

    @contextlib.contextmanager
    def watched(run: run_store.RunStore, name: str | None = None) -> Iterator[dict[str, Any]]:
        with step(run, name) as result:
            if name == task:
                armed.set()
                if how == "coordinator":
                    threading.Timer(moment, die).start()
            yield result

    def published(file: Path, final: Path) -> str:
        if how == "half a file" and armed.is_set():
            cut(file, moment)
        return publish(file, final)

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql == "COMMIT" and armed.is_set():
                if how == "files":
                    die()
                if how == "commit":
                    ((_, _, file),) = super().execute("PRAGMA database_list")
                    end_at(Path(f"{file}-wal"), int(moment * PAGES * FRAME))
            return super().execute(sql, *values)

    run_store.RunStore.step, policy_files.publish = watched, published
    sqlite3.connect = lambda *arguments, **more: connect(*arguments, **{"factory": Connection, **more})
