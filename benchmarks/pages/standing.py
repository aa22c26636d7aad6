"""The table "ours, the best peer, the bounds", out of nothing but a result file."""

from collections.abc import Iterator
from typing import Any

from benchmarks.compare import QUIET
from benchmarks.peers.published import PUBLISHED

HEAD = """\
## Ours, the best peer, and the bounds

Every line is one alternating run; a ratio is the median of the ratios of its turns, or without quartiles the quotient
of two of those. The best peer is the fastest that was there and does the same: it observes where ours observes. The C
step does the same work in C; the memory bound is the bytes that the rules must move in a step over the bandwidth at
which this machine copies. A share of it above 1 says that the worlds stay in the caches.

| | unit | ours | best peer | ours over it | of the C step | of the memory bound |
|---|---|---|---|---|---|---|
"""
ELSEWHERE = """\
Published, not measured here:

| | what | figure | on | source |
|---|---|---|---|---|
"""


def number(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def section(result: dict[str, Any]) -> list[str]:
    """Lines of Markdown; none where the file has no comparison."""
    lines, absent = [], []
    for group in result["groups"].values():
        rows = [figure["row"] for figure in group["figures"] if figure.get("row")]
        for heat in dict.fromkeys(row["heat"] for row in rows):
            there = [row for row in rows if row["heat"] == heat]
            absent += [row["name"] for row in there if row["kind"] == "absent"]
            if any(row["kind"] == "door" for row in there):
                continue
            lines += _lines(group["title"], heat, there)
    if not lines:
        return []
    missing = [f"Not there when this was measured: {', '.join(dict.fromkeys(absent))}.", ""] if absent else []
    published = [f"| {one.name} | {one.what} | {one.figure} | {one.device} | {one.source} |" for one in PUBLISHED]
    return [*HEAD.splitlines(), *lines, "", *missing, *ELSEWHERE.splitlines(), *published, ""]


def _lines(title: str, heat: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for every entrant of ours, the first of which all are compared with."""
    peers = [row for row in rows if row["kind"] == "peer"]
    best = max(peers, key=lambda row: row["rate"], default=None)
    for ours in (row for row in rows if row["kind"] == "ours"):
        first = ours["ratio"] == 1
        name = f"{title}: {heat}" + ("" if first else f", {ours['name']}")
        theirs, over = "", ""
        if best is not None:
            theirs, over = f"{best['name']} {number(best['rate'])}", number(best["ratio"] / ours["ratio"])
            over += f" ({number(best['ratio_low'])} – {number(best['ratio_high'])})" if first else ""
        bounds = ([row["ratio"] for row in rows if row["kind"] == kind and first] for kind in ("bound", "memory"))
        shares = [number(next(iter(found), None)) for found in bounds]
        busy = " (the machine was busy)" if ours["others"] > QUIET else ""
        cells = (f"{name}{busy}", ours["unit"], number(ours["rate"]), theirs, over, *shares)
        yield f"| {' | '.join(cells)} |"
