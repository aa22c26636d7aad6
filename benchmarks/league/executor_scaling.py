"""Scaling of executors: speed-up with simulated devices, cost of the coordinator, and docs/scaling.md.

`python -m benchmarks.league.executor_scaling` measures everything and writes the page; it needs the extra `ray`. An
option measures one part again and keeps the other recorded parts:

- `--workers 1 8`: the dispatcher with these numbers of workers.
- `--constants`: the cost and the size of a call.
- `--faults 30`: this number of runs with faults.
- `--leagues`: utilization of devices by leagues with a barrier and without.
- `--actors`: actors of a training as threads and as processes.
- `--write`: nothing; it writes the page from the recorded results.
"""

# Ray is an extra: the type checker runs without it.
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.hardware import provenance
from benchmarks.league import async_utilization, scaling_page, sleeping_device
from benchmarks.training import actor_processes
from league.evaluation.payoff_filler import PayoffSamplingConfig
from league.evaluation.payoff_filler import payoff_task as cells_of
from league.executors import Coordinator, LazyValue, RayExecutor, RemoteTask, pack, worker
from league.executors import ray as of_ray
from league.game import Game
from league.policies.random import RandomPolicy
from league.rollout.best_response import train_best_response
from league.rollout.matchup_distribution import MatchupDistribution
from league.rollout.matchups import MAX_ENVS
from league.storage.run_config import training
from league.storage.run_store import RunStore
from trainers.cluster.connect import connect
from trainers.models.policy import Policy

RESULTS = provenance.ROOT / "benchmarks" / "results" / "league" / "dispatch.json"
WORKERS = (1, 2, 4, 8, 16, 64)
SECONDS = 2.0
"""Sleep of a task [s]."""
EACH = 10
"""Tasks per worker."""
CELLS = MAX_ENVS // 1000
"""Payoff cells per task: one batch of worlds, 1,000 games each."""
POLICIES = 8
"""Policies per role."""
REAL = 60
"""Measured tasks of each kind."""
GAMES = ("KuhnPoker-v0", "LeducPoker-v0", "TagContinuous-v0")
GAME = Game.of("LeducPoker-v0")


class Commits:
    """Commit payoffs to a run's store and measure the time."""

    def __init__(self, store: RunStore) -> None:
        self.store, self.seconds, self.processes = store, [], []

    def __call__(self, key: str, outcome: dict[str, Any]) -> None:
        began = time.perf_counter()
        self.processes.append(outcome.pop("process"))
        assert not outcome.pop("torch"), "expected a worker that sleeps to have no torch"
        with self.store.step(key) as result:
            results: Any = SimpleNamespace(**outcome)
            self.store.add_results(np.zeros((CELLS, 2), np.int64), results)
            result["process"] = self.processes[-1]
        self.seconds.append(time.perf_counter() - began)


def store_of(folder: str) -> RunStore:
    """Create a run with random policies."""
    store = RunStore.create(Path(folder) / "run", GAME, {})
    with store.step("start"):
        for role in GAME.roles:
            store.add_policy(role, RandomPolicy.of(GAME, role), "random")
    return store


def dispatch(workers: int, seconds: float = SECONDS, tasks: int = EACH) -> dict[str, Any]:
    """Measure sleeping tasks on a local cluster, submitted and committed by a coordinator.

    Args:
        workers: Number of concurrent tasks.
        seconds: Sleep of each task [s].
        tasks: Tasks per worker.
    """
    with tempfile.TemporaryDirectory() as folder, store_of(folder) as store:
        ray = connect("benchmarks.league.executor_scaling", "local", num_cpus=workers)
        for module in (of_ray, worker):  # what workers run is sent to them, so that they need not import the league
            ray.cloudpickle.register_pickle_by_value(module)
        try:
            executor = RayExecutor()
            coordinator, commits = Coordinator(store, executor), Commits(store)
            warmed, processes = 0, 0
            while processes < workers:  # until all workers are there
                commits.processes.clear()
                _give(coordinator, commits, f"warm/{warmed}", workers, 1.0)
                warmed, processes = warmed + 1, len(set(commits.processes))
            commits.seconds.clear()
            executor.waited = 0.0
            clocks = _clocks()
            _give(coordinator, commits, "calls", workers * tasks, seconds)
            took, busy, used = (now - then for now, then in zip(_clocks(), clocks, strict=True))
        finally:
            for module in (of_ray, worker):
                ray.cloudpickle.unregister_pickle_by_value(module)
            ray.shutdown()
    calls = workers * tasks
    return {
        "workers": workers,
        "calls": calls,
        "sleep": seconds,
        "seconds": took,
        "efficiency": seconds * tasks / took,
        "ms_per_call": 1e3 * (took - executor.waited) / calls,
        "commit_ms": 1e3 * statistics.median(commits.seconds),
        "thread_ms_per_call": 1e3 * busy / calls,
        "process_ms_per_call": 1e3 * used / calls,
    }


def _clocks() -> tuple[float, float, float]:
    """Return wall-clock time, CPU time of this thread and CPU time of this process [s]."""
    return time.perf_counter(), time.thread_time(), time.process_time()


def _give(coordinator: Coordinator, commits: Commits, name: str, count: int, seconds: float) -> None:
    """Run tasks until the last is committed."""
    for number in range(count):
        key = f"{name}/{number}"
        call = RemoteTask(key, sleeping_device.asleep, arguments={"seconds": seconds, "cells": CELLS})
        coordinator.submit(call, lambda outcome, key=key: commits(key, outcome), lane="payoffs")
    coordinator.wait("payoffs")


def relay(pools: Any, state: Any) -> dict[str, Any]:
    """Return the result of a response trained before."""
    return {"policy": pools[GAME.roles[0]][0], "state": state}


def constants() -> dict[str, Any]:
    """Measure cost and size of tasks with trained policies, in games with league presets."""
    games = [_game(env_id) for env_id in GAMES]
    policy, state = _learned(GAME)[:2]
    with tempfile.TemporaryDirectory() as folder, store_of(folder) as store:
        pools = {role: [_changed(policy, seed) for seed in range(POLICIES)] for role in GAME.roles}
        connect("benchmarks.league.executor_scaling", "local", num_cpus=2)
        executor = RayExecutor()
        coordinator = Coordinator(store, executor)
        try:
            costs = [_real(coordinator, executor, pools, state, kind) for kind in ("payoffs", "response")]
        finally:
            executor.close()
            of_ray.ray_library("benchmarks.league.executor_scaling").shutdown()
    return {"env_id": GAME.env_id, "games": games, "calls": costs, "cells": CELLS, "policies": POLICIES}


def _learned(game: Game) -> tuple[Policy, dict[str, Any], float]:
    """Return a response, the state of its learner, and its duration [s]."""
    from league.rollout.best_response import BestResponseTraining

    pools: dict[str, list[Any]] = {role: [RandomPolicy.of(game, role)] for role in game.roles}
    role, config = game.roles[0], training(game, "cpu", {})
    draw = MatchupDistribution.against(game, role, [torch.ones(1)] * len(game.seats))
    learner = BestResponseTraining(game, draw, pools, config).learner(role)
    train_best_response(
        pools, game=game, role=role, draw=draw, train=training(game, "cpu", {"total_steps": config.rollout_steps})
    )  # kernels are built
    response = train_best_response(pools, game=game, role=role, draw=draw, train=config)
    assert isinstance(response.policy, Policy)  # no team: the games have one action space
    return response.policy, dict(learner.state_dict()), response.seconds


def _changed(policy: Policy, seed: int) -> Policy:
    """Return a policy of equal size."""
    other = Policy.from_state(policy.state_dict())
    generator = torch.Generator().manual_seed(seed)
    for parameter in other.net.parameters():
        parameter.data += 0.01 * torch.randn(parameter.shape, generator=generator)
    return other


def _game(env_id: str) -> dict[str, Any]:
    policy, state, seconds = _learned(Game.of(env_id))
    return {
        "env_id": env_id,
        "policy_bytes": sum(map(len, pack(policy).files.values())),
        "state_bytes": sum(value.nbytes for value in state.values() if isinstance(value, torch.Tensor)),
        "response_seconds": seconds,
    }


def _real(
    coordinator: Coordinator, executor: RayExecutor, pools: dict[str, Any], state: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Measure the coordinator's cost of tasks with policies and results of a run."""
    store, sampling = coordinator.store, PayoffSamplingConfig(10, None, "cpu", 1024)
    took: list[float] = []
    ran: list[float] = []
    for name, count in ((f"warm/{kind}", 4), (kind, REAL)):
        took.clear()
        executor.waited, began = 0.0, time.perf_counter()
        for number in range(count):
            key = f"{name}/{number}"
            pairs = torch.stack([torch.arange(CELLS) % POLICIES, torch.arange(CELLS) // POLICIES % POLICIES], 1)
            if kind == "payoffs":
                call = cells_of(key, GAME, pools, pairs, torch.full((CELLS,), 10), 0, sampling)
            else:
                arguments = {"state": LazyValue(lambda: state)}
                call = RemoteTask(key, relay, {role: pools[role] for role in GAME.roles}, arguments, learns=True)

            def commit(outcome: Any, key: str = key) -> None:
                began = time.perf_counter()
                with store.step(key) as result:
                    if kind == "payoffs":
                        store.add_results(torch.zeros(CELLS, 2, dtype=torch.int64), outcome)
                        result["bytes"] = sum(tensor.nbytes for tensor in vars(outcome).values())
                    else:
                        store.add_policy(GAME.roles[0], outcome["policy"])
                        store.put_state("learner", outcome["state"])
                took.append(time.perf_counter() - began)

            coordinator.submit(call, commit)
        coordinator.wait()
        ran.append(time.perf_counter() - began)
    cost = {"kind": kind, "ms_per_call": 1e3 * (ran[-1] - executor.waited) / REAL}
    cost["commit_ms"] = 1e3 * statistics.median(took)
    if kind == "payoffs":
        cost["result_bytes"] = store.result(f"{kind}/0")["bytes"]
    return cost


def main(argv: Sequence[str]) -> None:
    """Run the selected measurements and record the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", nargs="*", type=int, help=f"the dispatcher with these; else {WORKERS}")
    parser.add_argument("--constants", action="store_true", help="measure cost and size of a task")
    parser.add_argument("--faults", type=int, default=0, help="number of small runs with one fault each")
    parser.add_argument("--leagues", action="store_true", help="measure leagues with a barrier and without")
    parser.add_argument("--actors", action="store_true", help="measure actors as threads and as processes")
    parser.add_argument("--write", action="store_true", help="write only the page, from recorded results")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    everything = args.workers is None and not any((args.constants, args.faults, args.leagues, args.actors, args.write))
    for workers in WORKERS if everything else args.workers or ():
        row = {**dispatch(workers), **_origin()}
        print(json.dumps(row), flush=True)
        rows = [entry for entry in recorded().get("dispatch", []) if entry["workers"] != workers]
        record({"dispatch": sorted([*rows, row], key=lambda entry: entry["workers"])})
    if everything or args.constants:
        result = {**constants(), **_origin()}
        print(json.dumps(result), flush=True)
        record({"constants": result})
    parts = {"leagues": (args.leagues, async_utilization), "actors": (args.actors, actor_processes)}
    for name, (chosen, module) in parts.items():
        if everything or chosen:
            result = {**module.measure(), **_origin()}
            print(json.dumps(result), flush=True)
            record({name: result})
    if args.faults:
        record({"faults": {"runs": faults(args.faults), **_origin()}})
    if {"dispatch", "constants", "faults", "leagues", "actors"} <= recorded().keys():
        scaling_page.write(recorded())


def faults(runs: int) -> list[dict[str, Any]]:
    """Run small leagues with faults on a Ray cluster, see tests/libraries/ray_faults.py; print each and a table.

    Raises:
        CalledProcessError: A run failed, or its fault did not occur.
    """
    script, records = provenance.ROOT / "tests" / "libraries" / "ray_faults.py", []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script), folder, str(runs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:  # Ray's are among them
                if line.startswith('{"run"'):
                    print(line, end="", flush=True)
                    records.append(json.loads(line))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    print("\n".join(scaling_page.tally(records)))
    return records


def _origin() -> dict[str, Any]:
    import ray

    machine = {**provenance.machine(), "ray": ray.__version__}
    return {
        "load": os.getloadavg()[2],
        "commit": provenance.commit(),
        "date": date.today().isoformat(),
        "machine": machine,
    }


def recorded() -> dict[str, Any]:
    """Return all recorded results."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def record(new: dict[str, Any]) -> None:
    """Add results."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(rounded(recorded() | new), indent=1) + "\n")
    temporary.replace(RESULTS)


def rounded(value: Any) -> Any:
    """Round floats to five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main(sys.argv[1:])
