"""Leagues on a Ray cluster to which things happen: `python ray_faults.py FOLDER RUNS [SEED]`.

Small runs of PSRO and of an AlphaStar league undisturbed in this process, in FOLDER/whole-KIND; then RUNS of them in
FOLDER/0, 1, ... on a cluster of this machine, each with a fault that its seed chooses: workers that are killed while a
response learns or while cells are played, a node that goes, or the coordinator, which is killed at a random moment,
maybe while it writes, and begun again. Prints a line of JSON per run.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import dataclasses
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = [str(ROOT), str(ROOT / "tests" / "league"), str(ROOT / "tests" / "libraries")]
FAULTS = ("response", "payoffs", "node", "coordinator")
KINDS = ("psro", "alphastar")
LONGEST = 1.5
"""Seconds after which a worker dies, at most."""


def dying(function: Any, mark: str, after: float, *given: Any, **arguments: Any) -> Any:
    """A call whose worker is killed, once: in the middle of it, or before it has given back what it has found."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return function(*given, **arguments)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    timer = threading.Timer(after, die)
    timer.start()
    function(*given, **arguments)
    die()


def deaths(folder: Path, seed: int) -> int:
    """How many workers `faulty` has killed."""
    return len(list(folder.glob(f"{seed}-*")))


def leaving(made: Any, after: int) -> Any:
    """An executor, and a node that goes while it does the call of that number."""
    from league.executors import RayExecutor

    class Leaving(RayExecutor):
        calls, gone = 0, threading.Thread(target=remove, args=[made])

        def next(self, within: float | None = None) -> Any:
            Leaving.calls += 1
            if Leaving.calls == after:
                Leaving.gone.start()
            return super().next(within)

    return Leaving(made.address)


def faulty(address: str, folder: Path, seed: int, learns: bool) -> Any:
    """An executor of whose calls of a kind the first and a third of the others kill their worker."""
    from league.executors import RayExecutor

    class Faulty(RayExecutor):
        begun = 0

        def submit(self, call: Any) -> None:
            draw = random.Random(f"{seed} {call.key}")
            if call.learns == learns and (draw.random() < 1 / 3 or not Faulty.begun):
                mark = str(folder / f"{seed}-{call.key.replace('/', '-')}")
                function = functools.partial(dying, call.function, mark, draw.uniform(0, LONGEST))
                call = dataclasses.replace(call, function=function)
                Faulty.begun += 1
            super().submit(call)

    return Faulty(address)


def play(kind: str, path: Path, executor: Any = None) -> dict[str, Any]:
    """A small run, begun or gone on with; what has come of it."""
    import psro_runs
    import small_league

    from league.psro import PSRO, PSROConfig
    from league.run import opened

    if kind == "psro":
        config = PSROConfig(iterations=2, **psro_runs.KINDS["psro"])
        with opened(path, small_league.Game.of("KuhnPoker-v0"), "psro", config) as store:
            PSRO(store, config, executor=executor).run()
    else:
        running = small_league.league(path, "alphastar", 2, executor=executor)
        with running.store:
            running.run()
    return psro_runs.contents(path)


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A head that does nothing but coordinate, and nodes of one core each."""
    os.environ["PYTHONPATH"] = os.pathsep.join([*HERE, os.environ.get("PYTHONPATH", "")])
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1)
        yield made
    finally:
        made.shutdown()


def coordinator(kind: str, path: Path, address: str, after: float | None) -> int:
    """A run whose coordinator is another process, which is killed after so many seconds of work; its exit code."""
    command = [sys.executable, __file__, "--play", kind, str(path), address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # it works from now on
    if after is not None:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def main(folder: Path, runs: int, seed: int) -> None:
    """All runs, one after the other."""
    import torch

    from trainers.cluster.connect import connect

    torch.set_num_threads(1)
    whole = {kind: play(kind, folder / f"whole-{kind}") for kind in KINDS}
    with cluster(nodes=2) as made:
        ray = connect("faults", made.address)  # for all runs: workers take long to begin
        for number in range(runs):
            began, draw = time.perf_counter(), random.Random(seed * 1_000 + number)
            kind, fault = KINDS[(number + number // len(FAULTS)) % len(KINDS)], FAULTS[number % len(FAULTS)]
            path, happened = folder / str(number), 0
            if fault == "coordinator":
                code, moment = 0, draw.uniform(0.1, 4.0)
                while code == 0:  # it may be through before it is hit
                    shutil.rmtree(path, ignore_errors=True)
                    code = coordinator(kind, path, made.address, moment)
                    moment *= 0.6
                happened = int(code == -signal.SIGKILL)
                assert coordinator(kind, path, made.address, None) == 0, (number, kind, fault)
            elif fault == "node":
                executor = leaving(made, draw.randint(1, 6))
                play(kind, path, executor)
                executor.gone.join()  # an error if it never began
                made.add_node(num_cpus=1)  # by this thread: a node ends with the thread that has begun it
                made.wait_for_nodes()  # a process that joins might be given to the node that has gone
                happened = 1
                executor.close()
            else:
                executor = faulty(made.address, folder, number, learns=fault == "response")
                play(kind, path, executor)
                happened = deaths(folder, number)
                executor.close()
            equal = contents(path) == whole[kind]
            told = {"run": number, "kind": kind, "fault": fault, "happened": happened, "equal": equal}
            print(json.dumps({**told, "seconds": round(time.perf_counter() - began, 1)}), flush=True)
        ray.shutdown()


def remove(made: Any) -> None:
    """A node goes, with whatever runs there."""
    made.remove_node(made.worker_nodes.copy().pop(), allow_graceful=False)


def contents(path: Path) -> dict[str, Any]:
    """What has come of a run."""
    import psro_runs

    return psro_runs.contents(path)


if __name__ == "__main__":
    sys.path[:0] = HERE
    if sys.argv[1] == "--play":
        import torch

        from league.executors import RayExecutor

        torch.set_num_threads(1)
        executor = RayExecutor(sys.argv[4])
        print("working", flush=True)
        play(sys.argv[2], Path(sys.argv[3]), executor)
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 7)
