"""Runs that write like a league without playing, in separate processes.

`python toy_league.py kill FOLDER POINTS` runs once undisturbed in FOLDER/whole, then POINTS times in FOLDER/0, 1, ...,
each killed at a random point and resumed. The runs are forks, so that PyTorch is imported once.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from league.game import Game, Seat
from league.policies.random import RandomPolicy
from league.storage import database
from league.storage.run_store import RunStore, derive_named_seed
from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.learner_spec import LearnerSpec
from trainers.models.policy import Policy

SPACE = spaces.Discrete(3)
FRAME = 4096 + 24
"""Size of a page in SQLite's log, with its header [byte]."""
GAME = Game("Toy-v0", (Seat("row", "first", ("row",)), Seat("column", "second", ("column",))), zero_sum=True)


def trained(seed: int) -> Policy:
    return PPO(PPOConfig(hidden_sizes=(4,)), LearnerSpec(2, SPACE, 2, 1, 10, seed=seed)).policy()


def random_policy() -> RandomPolicy:
    return RandomPolicy({"kind": "discrete", "sizes": [3]})


def results(matchups: np.ndarray, seed: int) -> SimpleNamespace:
    draw = np.random.default_rng(seed)
    total, square, score = draw.normal(size=(3, *matchups.shape))
    return SimpleNamespace(count=draw.integers(1, 9, len(matchups)), total=total, square=square**2, score=score**2)


def pairs(store: RunStore) -> np.ndarray:
    return np.stack(np.meshgrid(*(np.arange(len(pool)) for pool in store.populations.values())), -1).reshape(-1, 2)


def start(path: Path, **config: Any) -> RunStore:
    store = RunStore.create(path, GAME, {"seed": 7, **config})
    with store.step("start"):
        for role in GAME.roles:
            store.add_policy(role, random_policy(), "random", name="random")
    return store


def loop(path: Path, iterations: int = 2) -> None:
    """Write a run as a league does, without training or playing."""
    if not RunStore.run_exists(path):
        RunStore.create(path, GAME, {"seed": 7}).close()
    with RunStore.open(path) as store:
        seed = store.config["seed"]
        if not store.done("start"):
            with store.step("start"):
                for role in GAME.roles:
                    store.add_policy(role, random_policy(), "random", name="random")
        for iteration in range(1, iterations + 1):
            for role in GAME.roles:
                respond(store, iteration, role, seed)
            evaluate(store, iteration, seed)


def respond(store: RunStore, iteration: int, role: str, seed: int) -> None:
    task = f"{iteration}/respond/{role}"
    if store.done(task):
        return
    learner = store.state(task) or {"weights": torch.zeros(3), "updates": 0}
    while learner["updates"] < 3:
        generator = torch.Generator().manual_seed(derive_named_seed(seed, task, learner["updates"]))
        noise = torch.randn(3, generator=generator)
        learner = {"weights": learner["weights"] + noise, "updates": learner["updates"] + 1}
        with store.step():
            store.put_state(task, learner)
            store.put_state("latest", learner)
            store.put("progress", [task, learner["updates"]])
    with store.step(task) as result:
        parent, meta = len(store.populations[role]) - 1, {"weights": learner["weights"]}
        policy = trained(derive_named_seed(seed, task))
        result["index"] = store.add_policy(role, policy, parent=parent, iteration=iteration, meta=meta).index
        store.add_matches(iteration, role, [[-1, 0], [0, -1]], [5, 6])
        store.drop_state(task)


def evaluate(store: RunStore, iteration: int, seed: int) -> None:
    task = f"{iteration}/payoffs"
    if store.done(task):
        return
    matchups = pairs(store)
    drawn = np.random.default_rng(derive_named_seed(seed, task, "draws")).permutation(matchups)
    with store.step(task) as result:
        for part in np.array_split(drawn, 2):  # a cell gets its results in two parts
            store.add_results(part, results(part, derive_named_seed(seed, task, len(part))))
        result["episodes"] = int(store.cells().count.sum())
        store.put_iteration(iteration, {"policies": len(store.populations["first"])})


def dump(path: Path) -> dict[str, Any]:
    """Return all rows of a run, and its files."""
    with RunStore.open(path, write=False) as store:
        rows = {name: store._rows(f"SELECT * FROM {name} ORDER BY rowid") for name in database.TABLES}
    files = {file.relative_to(path).as_posix() for part in ("policies", "states") for file in (path / part).iterdir()}
    return {**rows, "files": files}


def digests(path: Path) -> dict[str, Any]:
    """Return the digests and modification times of all files in a folder."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(f): (f.stat().st_mtime_ns, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files}


class Ticks:
    """Count statements, flushes, renames and removals of this process, and kill it at one of them."""

    def __init__(self, last: int = 0) -> None:
        self.count, self.last = 0, last
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            self.watch(owner, name)
        connect = database.connect

        def watched(file: Path) -> sqlite3.Connection:
            db = connect(file)
            db.set_trace_callback(self.tick)
            return db

        database.connect = watched

    def watch(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def ticking(*args: Any, **kwargs: Any) -> Any:
            self.tick()
            return original(*args, **kwargs)

        setattr(owner, name, ticking)

    def tick(self, _: str = "") -> None:
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def forked(
    path: Path, last: int | None = None, after: float | None = None, work: Callable[..., None] = loop
) -> tuple[int, int, float]:
    """Run the loop, or other work, in a process; return its exit code (-9 if killed), ticks and seconds."""
    begin, (read, write) = time.perf_counter(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ticks = Ticks(last or 0) if after is None else None
            work(path)
            os.write(write, str(ticks.count if ticks else 0).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    count = os.read(read, 32).decode()
    os.close(read)
    return os.waitstatus_to_exitcode(status), int(count or 0), time.perf_counter() - begin


def end_at(file: Path, more: int) -> None:
    """Limit the size of files to `more` bytes beyond the present size of one; a larger write ends the process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = file.stat().st_size + more
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def write(path: Path, started: Any) -> None:
    """Add 1 to three values in every step, until this process is killed; set an event after the first one."""
    with RunStore.open(path) as store:
        for number in range(10**9):
            with store.step(f"{number}") as result:
                store.add_results(
                    [[0, 0]], SimpleNamespace(count=[1], total=[[1, -1]], square=[[1, 1]], score=[[1, 0]])
                )
                store.put("number", number)
                result["number"] = number
            if number == 0:
                started.set()


def kill(folder: Path, points: int, work: Callable[..., None] = loop) -> None:
    draw, killed = random.Random(3), 0
    work(folder / "warm", iterations=1)  # imports everything before the forks
    code, ticks, seconds = forked(folder / "whole", work=work)
    assert code == 0
    for point in range(points):
        path, hit, share = folder / str(point), False, 1.0
        while True:  # a run may be killed twice; it may finish first, and starts again if it was never killed
            if not hit:
                shutil.rmtree(path, ignore_errors=True)
            if point % 2:
                code, _, _ = forked(path, after=share * draw.uniform(0.0, 1.0) * seconds, work=work)
            else:
                code, _, _ = forked(path, last=draw.randint(1, max(int(share * ticks), 1)), work=work)
            assert code in (0, -signal.SIGKILL), (point, code)
            if code == 0 and not hit:  # fewer statements than the first run, or a machine that is less busy by now
                share *= 0.6
                continue
            killed += code == -signal.SIGKILL
            hit = True
            if RunStore.run_exists(path):  # it can be read, and reading changes nothing
                contents = digests(path)
                dump(path)
                assert digests(path) == contents
            if draw.random() < 0.7:
                break
        code, _, _ = forked(path, work=work)
        assert code == 0, point
    print(f"killed {killed} of {ticks} ticks, {seconds:.2f} s")


def files(path: Path) -> dict:
    """Return the files of a folder, except the lock, which names its holder."""
    return {name: was for name, was in digests(path).items() if not name.endswith("run.lock")}


def grown(store: RunStore) -> None:
    """Add a second policy for the first role."""
    with store.step("grow"):
        store.add_policy("first", trained(1))


if __name__ == "__main__":
    torch.set_num_threads(1)
    kill(Path(sys.argv[2]), int(sys.argv[3]))
