"""Tests of leagues on a Ray cluster: after any failure results equal a run in one process."""
# ruff: noqa: E402

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")
sys.path[:0] = [str(Path(__file__).parents[1] / "league"), str(Path(__file__).parent)]

import psro_runs
import ray_faults
import small_league
import torch

from league.executors import LocalExecutor, RayExecutor
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run


@pytest.fixture(scope="module")
def address():
    torch.set_num_threads(1)
    with ray_faults.cluster(nodes=2) as ray_cluster:
        yield ray_cluster.address


def psro(path, executor):
    config = PSROConfig(iterations=2, **psro_runs.QUICK)
    with open_run(path, Game.of("LeducPoker-v0"), "psro", config) as store:
        PSRO(store, config, executor=executor).run()


def alphastar(path, executor):
    game = Game.of("SimpleTag-v0")
    running = small_league.league(path, "alphastar", 2, game, executor=executor, episodes=4)
    with running.store:
        running.run()


@pytest.mark.parametrize("run", [psro, alphastar])
def test_run_equals_that_of_one_process(run, address, tmp_path):
    run(tmp_path / "local", LocalExecutor())
    executor = RayExecutor(address)
    run(tmp_path / "ray", executor)
    executor.close()
    assert psro_runs.contents(tmp_path / "ray") == psro_runs.contents(tmp_path / "local")


@pytest.mark.slow
def test_run_after_faults_equals_one_without(tmp_path):
    command = [
        sys.executable,
        ray_faults.__file__,
        str(tmp_path),
        "4",
    ]  # more: benchmarks.league.executor_scaling --faults
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"run"')]
    assert done.returncode == 0, done.stderr[-2000:]
    assert [record["fault"] for record in records] == ["response", "commit", "node", "saving"]
    assert {record["kind"] for record in records} == set(ray_faults.KINDS)
    for record in records:
        assert record["happened"], record
        assert record["equal"], record
