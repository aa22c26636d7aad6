"""The suite under pytest: what was played is kept, and written when all is done."""

import os
from pathlib import Path

import pytest

from benchmarks import heats, report, written
from benchmarks.compare import QUIET as DISTURBED
from benchmarks.targets import NOISE, Effort, Figure

BENCH = Effort(rounds=7, seconds=0.25, patience=1.5)
QUICK = Effort(rounds=3, seconds=0.05, patience=1)


def pytest_addoption(parser):
    """The options of `make bench`."""
    own = parser.getgroup("throughput suite")
    own.addoption("--quick", action="store_true", help="few heats and short turns: to try the suite, not for figures")
    own.addoption("--out", type=Path, default=report.ROOT / "out" / "bench", help="folder of the results")


class Suite:
    """Plays every heat once, however many rows ask for it."""

    def __init__(self, quick, out):
        self.effort, self.out = (QUICK if quick else BENCH), out
        self.command = "make bench-quick" if quick else "make bench"
        self.played, self.groups = {}, {}

    def play(self, contest, heat):
        """The heat's results, played now if they have not been."""
        key = contest.id, heat.title
        if key not in self.played:
            load = os.getloadavg()[0]
            played = self.played[key] = heats.play(contest, heat, self.effort)
            before = self.groups.get(contest.id, {"figures": []})["figures"]
            figures = [*(Figure(**one) for one in before), *heats.figures(contest, played)]
            self.groups[contest.id] = report.group(contest.title, self.command, self.effort, load, figures)
        return self.played[key]

    def write(self):
        """Write what was played; nothing where nothing was."""
        return written.write(self.out, self.groups) if self.groups else []


@pytest.fixture(scope="session")
def suite(request):
    """The suite of this session."""
    suite = Suite(request.config.getoption("--quick"), request.config.getoption("--out"))
    yield suite
    request.config.stash[FILES] = suite.write()
    request.config.stash[GOALS] = [
        figure
        for group in suite.groups.values()
        for figure in (Figure(**one) for one in group["figures"])
        if figure.target or (figure.what == NOISE and (figure.value or 0.0) > 100 * DISTURBED)
    ]


FILES, GOALS = pytest.StashKey(), pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    """Goals and files at the end."""
    for figure in config.stash.get(GOALS, []):
        verdict = {None: "", True: "met", False: "not met"}[figure.met]
        terminalreporter.write_line(f"{figure.what}: {figure.value:.3g} {figure.unit} {figure.target} {verdict}")
    for path in config.stash.get(FILES, []):
        terminalreporter.write_line(f"wrote {path}")
