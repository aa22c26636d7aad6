"""Output files of `make bench`: JSON for the report, CSV by row, and plots."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.hardware import provenance
from benchmarks.pages import picture, report
from benchmarks.throughput.rounds import COMPARISONS
from benchmarks.throughput.target import Figure

COLUMNS = (
    *(
        "comparison",
        "round",
        "kind",
        "name",
        "env_id",
        "worlds",
        "agents",
        "schedule",
        "device",
        "interface",
        "threads",
    ),
    *("unit", "rate", "low", "high", "agent_rate", "ratio", "ratio_low", "ratio_high", "others", "note"),
)


def write(folder: Path, groups: dict[str, Any]) -> list[Path]:
    """Write all files.

    Args:
        folder: Output folder.
        groups: Groups of ``report.group`` by the id of a comparison.

    Returns:
        Paths of the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report.write(folder / "bench.json", provenance.machine(), groups)
    with (folder / "bench.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        table.writeheader()
        table.writerows(row for id, group in groups.items() for row in _rows(id, group))
    return [folder / "bench.json", folder / "bench.csv", *_pictures(folder, groups)]


def _rows(id: str, group: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a comparison with agent-steps added."""
    rows = [figure["row"] for figure in group["figures"] if figure["row"]]
    steps = [row | {"comparison": id} for row in rows]
    return [row | {"agent_rate": row["rate"] * row["agents"]} if "rate" in row else row for row in steps]


def _pictures(folder: Path, groups: dict[str, Any]) -> list[Path]:
    """Plot each comparison with curves twice: environment steps and agent steps."""
    paths = []
    for comparison in COMPARISONS:
        group = groups.get(comparison.id)
        curves = [Figure(**entry) for entry in group["figures"] if entry["curve"]] if group else []
        if not curves:
            continue
        by_agent = [_times_agents(figure) for figure in curves]
        for figures, name in ((curves, "env"), (by_agent, "agent")):
            paths.append(folder / f"{comparison.id.replace('-', '_')}_{name}_steps.png")
            picture.draw(figures, comparison.title, paths[-1], comparison.along)
    return paths


def _times_agents(figure: Figure) -> Figure:
    agents = (figure.row or {})["agents"]
    value, low, high = (None if part is None else part * agents for part in (figure.value, figure.low, figure.high))
    return replace(figure, unit=figure.unit.replace("env-", "agent-"), value=value, low=low, high=high)
