"""Leagues on a Ray cluster with injected faults: `python ray_faults.py FOLDER RUNS [SEED]`.

Run small leagues, PSRO on Leduc poker and AlphaStar on Tag, undisturbed in this process in FOLDER/whole-KIND. Then run
RUNS of them in FOLDER/0, 1, ... on a cluster of this machine, each with one of `FAULTS`. The seed of a run decides
which tasks or which step fail, and when. Print a line of JSON per run; exit with an error if a fault did not occur.
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
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HERE = [str(ROOT), str(ROOT / "tests" / "league"), str(ROOT / "tests" / "libraries")]
KINDS = {"psro": "LeducPoker-v0", "alphastar": "SimpleTag-v0"}
"""Environments by kind of league."""
FAULTS = ("response", "commit", "node", "saving", "payoffs", "half a file", "coordinator", "files")
"""Injected faults. Workers die during a response, during payoffs, or while saving a result; a node is removed during a
task; the coordinator dies at any moment ("coordinator"), or while it writes, see `ray_deaths.coordinator`."""
OF_WORKERS = {
    "response": ("respond", "train"),
    "saving": ("respond", "train"),
    "payoffs": ("payoffs", "even"),
    "node": (),
}
"""Words in the names of the tasks that each fault affects; (): any task."""
WRITE = ("begin", "respond", "train", "change")
"""Words in the names of steps that write files."""
EPISODES = 10
"""Number of episodes per payoff cell."""
PATIENCE = 120.0
"""Timeout of every expected event [s]."""


@dataclasses.dataclass(frozen=True)
class Whole:
    """Records of an undisturbed run."""

    contents: dict[str, Any]
    calls: list[str]
    """Names of its tasks."""


def play(kind: str, path: Path, executor: Any = None) -> None:
    """Create or resume a small run and complete it."""
    import psro_runs
    import small_league

    from league.game import Game
    from league.psro.config import PSROConfig
    from league.psro.psro import PSRO
    from league.storage.open_run import open_run

    if kind == "psro":
        config = PSROConfig(iterations=2, episodes_per_matchup=EPISODES, train_overrides=psro_runs.TINY)
        with open_run(path, Game.of(KINDS[kind]), kind, config) as store:
            PSRO(store, config, executor=executor).run()
    else:
        game = Game.of(KINDS[kind], {"max_cycles": 5})  # some episodes continue in the next iteration
        running = small_league.league(path, kind, 2, game, episodes=EPISODES, max_envs=100, executor=executor)
        with running.store:
            running.run()


def undisturbed(kind: str, path: Path) -> Whole:
    """Run in this process and return the records."""
    from league.executors import LocalExecutor

    calls: list[str] = []

    class Recording(LocalExecutor):
        def submit(self, call: Any) -> None:
            calls.append(call.key)
            super().submit(call)

    play(kind, path, Recording())
    assert counted_once(path)
    return Whole(contents(path), calls)


def contents(path: Path) -> dict[str, Any]:
    """Return all records of a run without durations, and the sha256 of its files."""
    import psro_runs

    from league.storage.run_store import RunStore
    from trainers.base.serialization import sha256

    with RunStore.open(path, write=False) as store:
        results = {task: {**store.result(task), "seconds": None} for task in store.tasks()}
    files = [*(path / "policies").iterdir(), *(path / "states").iterdir()]
    digests = {str(file.relative_to(path)): sha256(file) for file in files}
    return {**psro_runs.contents(path), "results": results, "files": digests}


def counted_once(path: Path) -> bool:
    """Return whether every cell, and every count of training matches, has exactly its episodes."""
    from league.storage.run_store import RunStore

    with RunStore.open(path, write=False) as store:
        count, played, learned = store.cells().count, 0, 0
        for task in store.tasks():
            result = store.result(task)
            episodes = result.get("episodes")
            learned += sum(player["episodes"] for player in result.get("players", {}).values())
            if isinstance(episodes, int):  # plans have other values
                played += episodes if "payoffs" in task.split("/") else 0
                learned += episodes if "payoffs" not in task.split("/") else 0
        met = sum(match.count for match in store.matches())  # of PSRO; leagues have them in summaries
        met += sum(sum(row.get("matches_by_role", {}).values()) for row in store.iterations().values())
    return bool((count == EPISODES).all()) and count.sum() == played and met == learned


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """Yield a cluster with a head that only coordinates, and nodes of one core each."""
    os.environ["PYTHONPATH"] = os.pathsep.join([*HERE, os.environ.get("PYTHONPATH", "")])
    from ray.cluster_utils import Cluster

    ray_cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            ray_cluster.add_node(num_cpus=1)
        yield ray_cluster
    finally:
        ray_cluster.shutdown()


class Faults:
    """Runs with injected faults."""

    def __init__(self, folder: Path, ray_cluster: Any, ray: Any) -> None:
        """Share one cluster between the runs, because workers take long to start."""
        self.folder, self.ray_cluster, self.ray = folder, ray_cluster, ray
        self.references = {kind: undisturbed(kind, folder / f"whole-{kind}") for kind in KINDS}

    def run(self, number: int, seed: int) -> dict[str, Any]:
        """Run once and return the description of the run."""
        began, draw = time.perf_counter(), random.Random(seed * 1_000 + number)
        fault, kind = FAULTS[number % len(FAULTS)], list(KINDS)[(number + number // len(FAULTS)) % len(KINDS)]
        path, reference = self.folder / str(number), self.references[kind]
        hit = (self.workers if fault in OF_WORKERS else self.coordinator)(kind, fault, path, draw)
        equal = contents(path) == reference.contents and counted_once(path)
        record = {"run": number, "kind": kind, "game": KINDS[kind], "fault": fault, "hit": hit, "happened": len(hit)}
        return {**record, "equal": equal, "seconds": round(time.perf_counter() - began, 1)}

    def workers(self, kind: str, fault: str, path: Path, draw: random.Random) -> list[str]:
        """Run while workers die, or a node is removed; return the names of the affected tasks."""
        from ray_deaths import alive, tries

        calls = [key for key in self.references[kind].calls if is_of(key, OF_WORKERS[fault])]
        hit = draw.sample(calls, 1 if fault == "node" else draw.randint(1, 2))
        words = {key: path.with_name(f"{path.name}-{key.replace('/', '-')}") for key in hit}
        executor = deadly(
            self.ray_cluster.address, {key: (str(words[key]), fault, draw.uniform(0, 0.5)) for key in hit}
        )
        with ThreadPoolExecutor(1) as aside:
            going = aside.submit(self.remove, words[hit[0]]) if fault == "node" else None
            play(kind, path, executor)
            executor.close()
        if going is not None:
            going.result()
            self.ray_cluster.add_node(num_cpus=1)  # in this thread: a node ends with the thread that started it
            self.ray_cluster.wait_for_nodes()  # a new process could be assigned to the removed node
        for word in words.values():
            (process, node), *retries = tries(word)
            assert retries, f"{word.name}: expected a death during this task, got none"
            assert fault != "node" or retries[0][1] != node, f"{word.name}: done again by the node that has gone"
            until(lambda process=process: not alive(process), f"{word.name}: expected process {process} to be dead")
        return hit

    def remove(self, word: Path) -> None:
        """Remove a node during the task that creates this file."""
        from ray_deaths import tries

        until(lambda: tries(word), f"{word.name}: expected a worker to start this task")
        sockets = {node["NodeID"]: node["RayletSocketName"] for node in self.ray.nodes()}
        ((_, node_id),) = tries(word)
        (node,) = (worker for worker in self.ray_cluster.worker_nodes if worker.raylet_socket_name == sockets[node_id])
        self.ray_cluster.remove_node(node, allow_graceful=False)

    def coordinator(self, kind: str, fault: str, path: Path, draw: random.Random) -> list[str]:
        """Run in a process that dies during a step that writes files, then resume here."""
        from league.executors import RayExecutor

        task = draw.choice([task for task in self.references[kind].contents["tasks"] if is_of(task, WRITE)])
        moment, code = draw.random(), 0
        while code == 0:
            shutil.rmtree(path, ignore_errors=True)
            arguments = [kind, str(path), self.ray_cluster.address, fault, task, str(moment)]
            code = subprocess.run([sys.executable, __file__, "--play", *arguments], check=False).returncode
            assert code or fault == "coordinator", f"{path.name}: expected the coordinator to die over {task}"
            moment /= 2  # the step finished first
        died = signal.SIGXFSZ if fault == "commit" else signal.SIGKILL
        assert code == -died, f"{path.name}: expected the coordinator to die of {died!r}, got exit code {code}"
        if fault != "coordinator":
            assert left(path, task), f"{path.name}: expected files of {task}, which was not committed"
        executor = RayExecutor(self.ray_cluster.address)
        play(kind, path, executor)
        executor.close()
        return [task]


def is_of(name: str, does: tuple[str, ...]) -> bool:
    """Return whether the name of a task or step has one of these words; (): always."""
    words = name.split("/")
    return not does or ("payoffs" if "payoffs" in words else words[min(1, len(words) - 1)]) in does


def left(path: Path, task: str) -> list[Path]:
    """Return the files of a step that was not committed, none if it was."""
    from league.storage.policy_files import state_file_name
    from league.storage.run_store import RunStore

    with RunStore.open(path, write=False) as store:
        named = {file for pool in store.populations.values() for entry in pool.entries for file in entry.sha256}
        named |= {state_file_name(number) for (number,) in store._rows("SELECT number FROM states")}
        files = [] if store.done(task) else [*(path / "policies").iterdir(), *(path / "states").iterdir()]
    return [file for file in files if file.name not in named]


def deadly(address: str, calls: dict[str, tuple[str, str, float]]) -> Any:
    """Make an executor some of whose workers die, see `ray_deaths.worker`."""
    from ray_deaths import worker

    from league.executors import RayExecutor

    class Deadly(RayExecutor):
        def submit(self, call: Any) -> None:
            if call.key in calls:
                call = dataclasses.replace(call, function=functools.partial(worker, call.function, *calls[call.key]))
            super().submit(call)

    return Deadly(address)


def until(condition: Callable[[], Any], message: str) -> None:
    """Wait; raise TimeoutError after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(message)
        time.sleep(0.02)


def main(folder: Path, runs: int, seed: int) -> None:
    """Run all runs, one after the other."""
    from trainers.cluster.connect import connect

    with cluster(nodes=2) as ray_cluster:
        ray = connect("faults", ray_cluster.address)
        try:
            faults = Faults(folder, ray_cluster, ray)
            for number in range(runs):
                print(json.dumps(faults.run(number, seed)), flush=True)
        finally:
            ray.shutdown()


def alone(kind: str, path: str, address: str, fault: str, task: str, moment: str) -> None:
    """Run in a process that dies during the run."""
    import ray_deaths

    from league.executors import RayExecutor

    ray_deaths.coordinator(fault, task, float(moment))
    play(kind, Path(path), RayExecutor(address))


if __name__ == "__main__":
    sys.path[:0] = HERE
    import torch

    torch.set_num_threads(1)
    if sys.argv[1] == "--play":
        alone(*sys.argv[2:])
    else:
        main(Path(sys.argv[1]), *map(int, [*sys.argv[2:], 7][:2]))
