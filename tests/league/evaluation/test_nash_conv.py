"""NashConv of an iteration is computed during the next one, with equal results."""

import json
import os
import time
from pathlib import Path

import psro_runs
import pytest
import torch
from calls_made import RPS
from shuffled import Shuffled
from small_league import league

from gpu_envs.errors import GpuEnvsError
from league.evaluation import nash_conv
from league.evaluation.tabular_game import TabularGame
from league.executors.process import ProcessExecutor
from league.executors.tasks import LocalExecutor
from league.game import Game
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

KUHN = Game.of("KuhnPoker-v0")
MEASURES = ("nash_conv", "exploitability", "best_nash_conv", "best_iteration")


def psro(path, executor=None, progress=None, iterations=2, **settings):
    config = PSROConfig(iterations=iterations, **{**psro_runs.QUICK, **settings})
    with open_run(path, KUHN, "psro", config) as store:
        return PSRO(store, config, progress, executor).run()


def summary(path):
    content = json.loads((path / "summary.json").read_text())
    for row in content["iterations"]:
        row.pop("seconds", None)
    return json.dumps(content)  # the order of fields, too


def test_nash_conv_equals_that_of_the_policies_of_the_iteration(tmp_path):
    rows = psro(tmp_path)
    nash_convs = []
    with RunStore.open(tmp_path, write=False) as store:
        for number, row in enumerate(rows):
            pools = {role: pool[: row["policies"][role]] for role, pool in store.populations.items()}
            marginals = [torch.tensor(value, dtype=torch.float64) for value in row["meta_strategy"]]
            small = TabularGame.of(KUHN)
            assert small is not None
            nash_convs.append(small.nash_conv(pools, marginals))
            assert row["nash_conv"] == nash_convs[-1]
            assert row["exploitability"] == nash_convs[-1] / 2
            assert row["best_nash_conv"] == min(nash_convs)
            assert row["best_iteration"] == max(at for at, value in enumerate(nash_convs) if value == min(nash_convs))
            assert store.result(f"{number}/evaluation") == {"nash_conv": nash_convs[-1]}


@pytest.mark.slow
def test_summary_equals_that_of_one_process(tmp_path):
    torch.set_num_threads(1)
    psro(tmp_path / "local")
    processes = ProcessExecutor(workers=2)
    try:
        psro(tmp_path / "processes", processes)
    finally:
        processes.close()
    for seed in range(2):
        psro(tmp_path / str(seed), Shuffled(seed=seed))
    for name in ("processes", "0", "1"):
        assert summary(tmp_path / name) == summary(tmp_path / "local")
        assert psro_runs.contents(tmp_path / name) == psro_runs.contents(tmp_path / "local")


def test_league_summary_equals_that_of_one_process(tmp_path):
    for name, executor in (("local", None), ("other", Shuffled(seed=0))):
        running = league(tmp_path / name, "alphastar", 2, RPS, executor=executor, episodes=4)
        with running.store:
            assert all(row["nash_conv"] is not None for row in running.run())
    assert summary(tmp_path / "other") == summary(tmp_path / "local")


class Late(LocalExecutor):
    """Others do its calls; evaluations end when nothing else is left, the last of them first."""

    remote = True

    def next(self, within=None):
        if within is not None:
            return None
        calls = [call for call in self._tasks if call.function is not nash_conv.compute_gaps]
        call = calls[0] if calls else self._tasks[-1]
        self._tasks.remove(call)
        return call.key, call.function(call.policies, **call.arguments)


@pytest.mark.slow
def test_responses_are_submitted_while_evaluations_are_pending(tmp_path):
    reports, late = [], Late()
    psro(tmp_path / "whole")
    psro(tmp_path / "run", late, lambda number, text: reports.append((number, text)))
    with RunStore.open(tmp_path / "run", write=False) as store:
        done = store.tasks()
    last = done.index("2/respond/player_1/0")
    assert [done.index(f"{number}/evaluation") > last for number in range(3)] == [True] * 3
    assert [key for key in done if key.endswith("/evaluation")] == [f"{n}/evaluation" for n in range(3)]  # in order
    assert [number for number, text in reports if text.startswith("NashConv")] == [0, 1, 2]
    assert summary(tmp_path / "run") == summary(tmp_path / "whole")


def slow(pools, **arguments):
    """Wait in a worker until a response exists or the time limit has passed."""
    until = time.monotonic() + 300.0
    while not Path(os.environ["RESPONDED"]).exists() and time.monotonic() < until:
        time.sleep(0.02)
    return nash_conv.compute_gaps(pools, **arguments)


@pytest.mark.slow
def test_slow_evaluation_does_not_block_training(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    psro(tmp_path / "whole", iterations=1)
    monkeypatch.setattr(nash_conv, "compute_gaps", slow)
    monkeypatch.setenv("RESPONDED", str(tmp_path / "responded"))
    processes, given_out = ProcessExecutor(workers=2), []
    submit = processes.submit

    def noted(call):
        given_out.append(call.key)
        if call.key.startswith("1/respond/player_0/0/payoffs"):  # given out when the response has been written down
            (tmp_path / "responded").touch()
        submit(call)

    monkeypatch.setattr(processes, "submit", noted)
    try:
        psro(tmp_path / "run", processes, iterations=1)
    finally:
        processes.close()
    assert given_out.index("0/evaluation") < given_out.index("1/respond/player_0/0")
    with RunStore.open(tmp_path / "run", write=False) as store:
        done = store.tasks()
    assert done.index("1/respond/player_0/0") < done.index("0/evaluation")
    assert summary(tmp_path / "run") == summary(tmp_path / "whole")


class Stops(Late):
    """Ends with an error before an evaluation."""

    def next(self, within=None):
        if within is None and all(call.function is nash_conv.compute_gaps for call in self._tasks):
            raise GpuEnvsError("killed")
        return super().next(within)


@pytest.mark.slow
@pytest.mark.parametrize("iterations", range(3))
def test_resumed_run_computes_missing_evaluations(iterations, tmp_path):
    psro(tmp_path / "whole")
    with pytest.raises(GpuEnvsError, match="killed"):
        psro(tmp_path / "run", Stops(), iterations=iterations)
    with RunStore.open(tmp_path / "run", write=False) as store:
        rows = store.iterations()
        assert len(rows) == iterations + 1
        assert all(row[measure] is None for row in rows.values() for measure in MEASURES)
        contents = psro_runs.contents(tmp_path / "run")
        assert not any(task.endswith("/evaluation") for task in contents["tasks"])
    for row in psro(tmp_path / "run"):
        assert all(row[measure] is not None for measure in MEASURES)
    resumed, expected = (json.loads(summary(tmp_path / name)) for name in ("run", "whole"))
    assert resumed["iterations"] == expected["iterations"]
    assert psro_runs.contents(tmp_path / "run") == psro_runs.contents(tmp_path / "whole")
