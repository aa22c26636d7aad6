"""Pytest plugin of the suite: results are collected and written at the end of the session."""

import csv
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hardware import provenance
from benchmarks.pages import performance_page, picture, results
from benchmarks.throughput import rounds
from benchmarks.throughput.target import BENCH, NOISE, Effort, Figure
from benchmarks.throughput.timing import QUIET as DISTURBED

QUICK = Effort(repeats=3, seconds=0.05, patience=1)
COLUMNS = (
    "comparison", "round", "kind", "name", "env_id", "worlds", "agents", "schedule", "device", "interface", "threads",
    "unit", "rate", "low", "high", "agent_rate", "ratio", "ratio_low", "ratio_high", "others", "note",
)  # fmt: skip
"""Columns of bench.csv."""


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
        self.out = out or provenance.ROOT / "out" / name
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
        self.groups[comparison.id] = results.group(comparison.title, self.command, self.effort, load, figures)

    def write(self) -> list[Path]:
        """Write JSON for the report, CSV by row, and a plot of steps and one of agent-steps for groups with curves."""
        if not self.groups:
            return []
        paths = [self.out / "bench.json", self.out / "bench.csv"]
        results.write(paths[0], provenance.machine(), self.groups)
        with paths[1].open("w", newline="") as file:
            table: csv.DictWriter[str] = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            table.writeheader()
            for id, group in self.groups.items():
                for row in results.rows_of(group):
                    by_agent = {"agent_rate": row["rate"] * row["agents"]} if "rate" in row else {}
                    table.writerow(row | by_agent | {"comparison": id})
        for id, group in self.groups.items():
            if curves := performance_page.curves(group):
                for kind, figures in (("env", curves), ("agent", [_times_agents(figure) for figure in curves])):
                    paths.append(self.out / f"{id.replace('-', '_')}_{kind}_steps.png")
                    picture.draw(figures, group["title"], paths[-1], curves[0].along)
        return paths


def _times_agents(figure: Figure) -> Figure:
    agents: Any = (figure.row or {})["agents"]
    value, low, high = (part and part * agents for part in (figure.value, figure.low, figure.high))
    return replace(figure, unit=figure.unit.replace("env-", "agent-"), value=value, low=low, high=high)


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
