"""Loggers of leagues."""

import pytest
import recording_logger

from gpu_envs.cli import main
from league.game import Game
from league.storage.iteration_log import IterationLog
from league.storage.run_store import RunStore

KUHN = ["KuhnPoker-v0", "--oracle", "exact", "--payoff-estimation", "exact", "--meta-solver", "nash"]
OWN = "recording_logger:Recording"


@pytest.fixture
def calls():
    recording_logger.CALLS.clear()
    return recording_logger.CALLS


def steps(calls):
    return [call[2] for call in calls if call[0] == "log"]


def test_every_iteration_is_logged_once_and_a_resumed_run_continues(tmp_path, calls, capsys):
    loggers = ["--logger", "csv", OWN]
    assert main(["league", "train", *KUHN, "--iterations", "2", "--run-dir", str(tmp_path), *loggers]) == 0
    assert calls[0] == ("open", tmp_path, 0)
    assert calls[1][1]["algorithm"] == "psro"
    assert sorted(set(steps(calls))) == [0, 1, 2]
    rows = [call[1] for call in calls if call[0] == "log"]
    assert [row["nash_conv"] for row in rows if row["iteration"] == 0] == [pytest.approx(0.9167, abs=1e-4)]
    assert rows[0]["policies/player_0"] == 1
    calls.clear()
    assert main(["league", "resume", str(tmp_path), "--iterations", "3", *loggers]) == 0
    assert calls[0] == ("open", tmp_path, 2)
    assert set(steps(calls)) == {3}
    lines = (tmp_path / "iterations.csv").read_text().splitlines()
    assert lines[0].startswith("iteration,")
    assert [line.partition(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]


def test_value_that_comes_later_is_logged_at_its_iteration(tmp_path, calls):
    with RunStore.create(tmp_path / "run", Game.of("KuhnPoker-v0"), {}) as store, IterationLog(store, [OWN]) as log:
        with store.step():
            store.put_iteration(0, {"seconds": 1.5, "nash_conv": None, "return": {"a": 2}, "value": [1.0]})
        log.record()
        with store.step():
            store.put_iteration(0, {"seconds": 1.5, "nash_conv": 0.5, "return": {"a": 2}})
    assert [call[1:] for call in calls if call[0] == "log"] == [
        ({"iteration": 0, "seconds": 1.5, "return/a": 2}, 0),
        ({"iteration": 0, "nash_conv": 0.5}, 0),
    ]
    assert calls[-1] == ("close",)


def test_unknown_logger_leaves_no_run(tmp_path, capsys):
    words = [*KUHN, "--iterations", "2", "--run-dir", str(tmp_path / "run"), "--logger", "wandbb"]
    assert main(["league", "train", *words]) == 2
    assert capsys.readouterr().err.endswith("module:NAME, got 'wandbb'; did you mean 'wandb'?\n")
    assert not (tmp_path / "run").exists()
