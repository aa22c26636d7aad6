"""What `make bench` leaves under out/bench: JSON as the report reads it, CSV by row, and pictures."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import origin, picture, report
from benchmarks.heats import CONTESTS
from benchmarks.targets import Figure

COLUMNS = (
    *("comparison", "heat", "kind", "name", "env_id", "worlds", "agents", "schedule", "device", "door", "threads"),
    *("unit", "rate", "low", "high", "agent_rate", "ratio", "ratio_low", "ratio_high", "others", "note"),
)


def write(folder: Path, groups: dict[str, Any]) -> list[Path]:
    """Write all files.

    Args:
        folder: Where.
        groups: By the id of a comparison, as ``report.group`` makes them.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report.write(folder / "bench.json", origin.machine(), groups)
    with (folder / "bench.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        table.writeheader()
        table.writerows(row for id, group in groups.items() for row in _rows(id, group))
    return [folder / "bench.json", folder / "bench.csv", *_pictures(folder, groups)]


def _rows(id: str, group: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a comparison, agent-steps added."""
    rows = [figure["row"] for figure in group["figures"] if figure["row"]]
    steps = [row | {"comparison": id} for row in rows]
    return [row | {"agent_rate": row["rate"] * row["agents"]} if "rate" in row else row for row in steps]


def _pictures(folder: Path, groups: dict[str, Any]) -> list[Path]:
    """Two of every comparison that has curves: steps of worlds, and of agents."""
    paths = []
    for contest in CONTESTS:
        group = groups.get(contest.id)
        curves = [Figure(**one) for one in group["figures"] if one["curve"]] if group else []
        if not curves:
            continue
        by_agent = [_times_agents(figure) for figure in curves]
        for figures, name in ((curves, "env"), (by_agent, "agent")):
            paths.append(folder / f"{contest.id.replace('-', '_')}_{name}_steps.png")
            picture.draw(figures, contest.title, paths[-1], contest.along)
    return paths


def _times_agents(figure: Figure) -> Figure:
    agents = (figure.row or {})["agents"]
    value, low, high = (None if part is None else part * agents for part in (figure.value, figure.low, figure.high))
    return replace(figure, unit=figure.unit.replace("env-", "agent-"), value=value, low=low, high=high)
