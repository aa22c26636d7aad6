"""How workers and coordinators die in `ray_faults.py`: each once, at a moment that was drawn."""
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

from league import store
from league.executors import Later
from league.response import Response

PAGES = 2
"""That a step changes at least: of the table of tasks, and of its index."""


def die() -> None:
    """As if somebody else had killed this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def cut(file: Path, share: float) -> None:
    """Dies with a share of a file written."""
    os.truncate(file, int(share * file.stat().st_size))
    die()


# ---------------------------------------------------------------- workers


def worker(function: Callable[..., Any], word: str, how: str, moment: float, pools: Any, **arguments: Any) -> Any:
    """A call over which its worker dies, once.

    Args:
        function: Of the call.
        word: A file to which every try adds a line: its process, and its node.
        how: "saving": it dies while it puts into bytes what the call gives back; "node": it works until its node goes;
            else it dies in the middle of the call.
        moment: In seconds of work, or as a share of the bytes; in [0, 1).
        pools: Of the call.
        **arguments: Likewise.
    """
    first = not Path(word).exists()
    with open(word, "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {sys.modules['ray'].get_runtime_context().get_node_id()}\n")
    if not first:
        return function(pools, **arguments)
    if how == "saving":
        tempfile.tempdir = str(Path(word).parent)  # where policies are put into bytes; nobody tidies up after a kill
        return torn(function(pools, **arguments), moment)
    if how != "node":
        threading.Timer(moment, die).start()
    while True:
        function(pools, **arguments)


def torn(found: Any, moment: float) -> Any:
    """What a call that learns gives back, of which a part can be put into bytes: of PSRO's policy, of a player's state.

    Whoever puts the rest into bytes dies.
    """
    if not isinstance(found, Response):
        names = list(found["state"])
        return {**found, "state": {**found["state"], names[int(moment * len(names))]: Later(die)}}
    save = found.policy.save

    def half(path: Path) -> None:
        save(path)
        cut(path.with_suffix(".safetensors"), moment)

    found.policy.save = half
    return found


def tries(word: Path) -> list[tuple[int, str]]:
    """Processes that have tried to do a call, and their nodes."""
    lines = word.read_text().splitlines() if word.exists() else []
    return [(int(process), node) for process, node in map(str.split, lines)]


def alive(process: int) -> bool:
    """Whether a process still runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ---------------------------------------------------------------- coordinators


def coordinator(how: str, task: str, moment: float) -> None:
    """From now on this process dies over the step of a task.

    Args:
        how: "half a file": with a share of the first file of the step written; "files": with the files of the step, and
            of all that are committed with it, under their names, and none of it committed; "commit": while SQLite
            commits it, with a share of the first pages in its log; else so many seconds after the step has begun.
        task: Of the step.
        moment: The share or the seconds, in [0, 1).
    """
    armed, step, publish, connect = threading.Event(), store.Store.step, store.publish, sqlite3.connect

    @contextlib.contextmanager
    def watched(run: store.Store, name: str | None = None) -> Iterator[dict[str, Any]]:
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

    store.Store.step, store.publish = watched, published
    sqlite3.connect = lambda *given, **more: connect(*given, **{"factory": Connection, **more})
