"""The suite under pytest: what was played is kept, and written when all is done."""

import os
from pathlib import Path

import pytest

from benchmarks import heats, report, written
from benchmarks.compare import QUIET as DISTURBED
from benchmarks.origin import ROOT
from benchmarks.targets import BENCH, NOISE, Effort, Figure

QUICK = Effort(rounds=3, seconds=0.05, patience=1)


def pytest_addoption(parser):
    """The options of `make bench`."""
    own = parser.getgroup("throughput suite")
    own.addoption("--quick", action="store_true", help="few heats and short turns: to try the suite, not for figures")
    own.addoption("--out", type=Path, help="folder of the results; out/bench without it, or out/bench-quick")


class Suite:
    """Plays every heat once, however many rows ask for it."""

    def __init__(self, quick, out=None):
        name = "bench-quick" if quick else "bench"
        self.effort, self.command = (QUICK if quick else BENCH), f"make {name}"
        self.out = out or ROOT / "out" / name
        self.played, self.groups = {}, {}

    def play(self, contest, heat):
        """The heat's results, played now if they have not been; what has failed is not tried again."""
        key = contest.id, heat.title
        if key not in self.played:
            load = os.getloadavg()[0]
            try:
                self.played[key] = heats.play(contest, heat, self.effort)
                self.keep(contest, self.played[key], load)
            except Exception as error:  # noqa: BLE001  # raised below, for every row of the heat
                self.played[key] = error
        if isinstance(self.played[key], Exception):
            raise self.played[key]
        return self.played[key]

    def keep(self, contest, played, load):
        """Put a heat's figures into the group of its contest."""
        before = self.groups.get(contest.id, {"figures": []})["figures"]
        figures = [*(Figure(**one) for one in before), *heats.figures(contest, played)]
        self.groups[contest.id] = report.group(contest.title, self.command, self.effort, load, figures)

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
        told = f"not measured: {figure.note}" if figure.value is None else f"{figure.value:.3g} {figure.unit}"
        verdict = {None: "", True: "met", False: "not met"}[figure.met]
        terminalreporter.write_line(f"{figure.what}: {told} {figure.target} {verdict}")
    for path in config.stash.get(FILES, []):
        terminalreporter.write_line(f"wrote {path}")
