"""The table of a league's iterations: in narrow terminals, while the league runs, and after Ctrl-C."""

import io
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_envs.utils.terminal import MARGIN
from league.cli.live_table import LiveTable, table
from league.cli.options import ExecutorOptions
from league.cli.run_output import run_league
from league.executors.tasks import LocalExecutor

NAMES = [f"{kind}_{i}" for kind in ("main", "main_exploiter", "league_exploiter") for i in range(3)][:8]


def league(iterations):
    """Make the rows of a league of eight players."""
    first = {"return": {}, "players": 9, "changes": [0], "seconds": None}
    values = {"return": dict.fromkeys(NAMES, -101.5), "score": dict.fromkeys(NAMES, 0.5)}
    return [first, *({**values, "players": 10 + i, "changes": [], "seconds": 16.0} for i in range(1, iterations))]


def psro(iterations):
    """Make the rows of PSRO with three seats and all measures."""
    measures = {"nash_conv": 0.5, "exploitability": 0.25, "best_nash_conv": 0.5, "ce_gap": 0.125}
    sizes = dict.fromkeys(("a", "b", "c"), 10)
    row = {**measures, "meta_strategy": [], "policies": sizes, "episodes": 1_234_567, "seconds": 1.5}
    return [row for _ in range(iterations)]


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self):
        return True


class Store:
    """Part of a store that the output of a run reads."""

    def __init__(self, rows):
        self.game = SimpleNamespace(env_id="RockPaperScissors-v0", roles=("player",))
        self.config, self.path, self.rows = {"algorithm": "alphastar"}, Path("out/my run"), rows

    def iterations(self):
        return dict(enumerate(self.rows))


@pytest.mark.parametrize("width", [60, 80])
def test_table_of_eight_players_has_a_row_per_player_in_a_narrow_terminal(width):
    lines = table(league(9), width).splitlines()
    assert max(map(len, lines)) <= width
    for name in NAMES:
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert line.split()[1:3] == ["-101.50", "(0.50)"]
    iterations = lines[0].split()[1:]
    assert iterations == [str(9 - len(iterations) + i) for i in range(len(iterations))]
    assert lines[-1].startswith(f"the last {len(iterations)} of 9 iterations")


def test_wide_table_has_a_row_per_iteration():
    lines = table(league(9)).splitlines()
    assert [line.split()[0] for line in lines[2:11]] == [str(i) for i in range(9)]
    assert lines[0].split() == ["iteration", "players", *NAMES, "changes", "seconds"]


def test_headers_of_psro_are_whole_in_a_narrow_terminal():
    text = table(psro(5), 80)
    assert max(map(len, text.splitlines())) <= 80
    for name in ("CE gap", "NashConv", "exploitability", "best so far", "episodes", "seconds"):
        assert name in text


@pytest.mark.parametrize("rows", [league(9), psro(9)])
def test_live_table_leaves_room_for_an_interrupt_at_80_columns(rows, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with LiveTable(Store(rows), 20, file=Terminal()) as live:
        lines = live._rich("x " * 60).plain.splitlines()
    assert max(map(len, lines)) == 80 - MARGIN
    assert lines[0] == "RockPaperScissors-v0: 8 of 20 iterations"
    assert not [line for line in lines[:-1] if "…" in line]


def test_live_table_shows_at_once_that_the_run_starts(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    file = Terminal()
    with LiveTable(Store([]), 20, file=file):
        assert "RockPaperScissors-v0: 0 of 20 iterations" in file.getvalue()
        assert "starting; " in file.getvalue()
        assert "changes" not in file.getvalue(), "a table without rows"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("usual_signals")
def test_interrupt_prints_the_finished_iterations(monkeypatch, capsys, number):
    monkeypatch.setenv("COLUMNS", "80")
    store = Store(league(4))
    live = LiveTable(store, 20, file=Terminal())

    def work() -> None:
        live(1, "main_0")
        signal.raise_signal(number)

    run = SimpleNamespace(run=work, train=None)
    assert run_league(run, store, ExecutorOptions(num_threads=1), live, LocalExecutor(), "cpu") == 130
    captured = capsys.readouterr()
    assert table(league(4), 80) in captured.out
    assert captured.err == "interrupted; continue with:\n  gpu-envs league resume 'out/my run'\n"
