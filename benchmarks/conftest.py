"""Pytest plugin of the suite: results are collected and written at the end of the session."""

import os
from pathlib import Path

import pytest

from benchmarks.hardware.provenance import ROOT
from benchmarks.pages import report, written
from benchmarks.throughput import rounds
from benchmarks.throughput.target import BENCH, NOISE, Effort, Figure
from benchmarks.throughput.timing import QUIET as DISTURBED

QUICK = Effort(repeats=3, seconds=0.05, patience=1)


def pytest_addoption(parser):
    """Add the options of `make bench`."""
    group = parser.getgroup("throughput suite")
    group.addoption(
        "--quick", action="store_true", help="few rounds and short turns: to try the suite, not for figures"
    )
    group.addoption("--out", type=Path, help="folder of the results; out/bench without it, or out/bench-quick")


class Suite:
    """Results of a session; each round is run once for all of its rows."""

    def __init__(self, quick, out=None):
        name = "bench-quick" if quick else "bench"
        self.effort, self.command = (QUICK if quick else BENCH), f"make {name}"
        self.out = out or ROOT / "out" / name
        self.played, self.groups = {}, {}

    def play(self, comparison, round_):
        """Return the results of a round, running it at the first call; a failed round is not repeated."""
        key = comparison.id, round_.title
        if key not in self.played:
            load = os.getloadavg()[0]
            try:
                self.played[key] = rounds.play(comparison, round_, self.effort)
                self.keep(comparison, self.played[key], load)
            except Exception as error:  # noqa: BLE001  # raised below, for every row of the round
                self.played[key] = error
        if isinstance(self.played[key], Exception):
            raise self.played[key]
        return self.played[key]

    def keep(self, comparison, played, load):
        """Add the figures of a round to the group of its comparison."""
        earlier = self.groups.get(comparison.id, {"figures": []})["figures"]
        figures = [*(Figure(**entry) for entry in earlier), *rounds.figures(comparison, played)]
        self.groups[comparison.id] = report.group(comparison.title, self.command, self.effort, load, figures)

    def write(self):
        """Write the results, if there are any."""
        return written.write(self.out, self.groups) if self.groups else []


@pytest.fixture(scope="session")
def suite(request):
    """Return the suite of this session."""
    suite = Suite(request.config.getoption("--quick"), request.config.getoption("--out"))
    yield suite
    request.config.stash[FILES] = suite.write()
    request.config.stash[GOALS] = [
        figure
        for group in suite.groups.values()
        for figure in (Figure(**entry) for entry in group["figures"])
        if figure.target or (figure.what == NOISE and (figure.value or 0.0) > 100 * DISTURBED)
    ]


FILES, GOALS = pytest.StashKey(), pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    """Print targets and files at the end."""
    for figure in config.stash.get(GOALS, []):
        result = f"not measured: {figure.note}" if figure.value is None else f"{figure.value:.3g} {figure.unit}"
        verdict = {None: "", True: "met", False: "not met"}[figure.met]
        terminalreporter.write_line(f"{figure.what}: {result} {figure.target} {verdict}")
    for path in config.stash.get(FILES, []):
        terminalreporter.write_line(f"wrote {path}")
