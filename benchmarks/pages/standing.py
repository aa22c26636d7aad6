"""The table that compares gpu-envs with other libraries and with bounds, from a result file."""

from collections.abc import Iterator
from typing import Any

from benchmarks.pages import sources
from benchmarks.peers.published import PUBLISHED
from benchmarks.throughput.timing import QUIET

HEAD = """\
## Comparison with other libraries

A ratio has quartiles; without them it is a quotient of two medians. The C step is the same work in C. The memory bound
is the number of bytes that a step must move over the copy bandwidth of the machine. A share above 1 means that the
worlds stay in the caches.
"""
COLUMNS = """\
| | unit | gpu-envs | best library | ratio | share of the C step | share of the memory bound |
|---|---|---|---|---|---|---|
"""
ELSEWHERE = """\
Published, not measured here:

| | what | figure | on | source |
|---|---|---|---|---|
"""


def number(value: float | None) -> str:
    """Format a number with three significant digits and thousands separated."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def section(result: dict[str, Any]) -> list[str]:
    """Return the section as lines of Markdown; no lines if the file has no comparison."""
    lines = []
    for group in result["groups"].values():
        where = sources.elsewhere(group, result.get("machine", {}))
        rows = [figure["row"] for figure in group["figures"] if figure.get("row")]
        for round_ in dict.fromkeys(row["round"] for row in rows):
            there = [row for row in rows if row["round"] == round_]
            if any(row["kind"] == "interface" for row in there):
                continue
            lines += _lines(group["title"] + (f" ({where})" if where else ""), round_, there)
    if not lines:
        return []
    without = sources.unmeasured(result["groups"])
    missing = [without, ""] if without else []
    published = [f"| {one.name} | {one.what} | {one.figure} | {one.device} | {one.source} |" for one in PUBLISHED]
    opening = ["<details>", f"<summary>All {len(lines)} comparisons</summary>", ""]
    table = [*opening, *COLUMNS.splitlines(), *lines, "", "</details>", ""]
    return [*HEAD.splitlines(), "", *table, *missing, *ELSEWHERE.splitlines(), *published, ""]


def _lines(title: str, round_: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a row for each contender of gpu-envs; the first is the reference of all ratios."""
    peers = [row for row in rows if row["kind"] == "peer"]
    best = max(peers, key=lambda row: row["rate"], default=None)
    for own in (row for row in rows if row["kind"] == "gpu_envs"):
        first = own["ratio"] == 1
        name = f"{title}: {round_}" + ("" if first else f", {own['name']}")
        theirs, over = "", ""
        if best is not None:
            theirs, over = f"{best['name']} {number(best['rate'])}", number(best["ratio"] / own["ratio"])
            over += f" ({number(best['ratio_low'])} – {number(best['ratio_high'])})" if first else ""
        bounds = ([row["ratio"] for row in rows if row["kind"] == kind and first] for kind in ("bound", "memory"))
        shares = [number(next(iter(found), None)) for found in bounds]
        busy = " (the machine was busy)" if own["others"] > QUIET else ""
        cells = (f"{name}{busy}", own["unit"], number(own["rate"]), theirs, over, *shares)
        yield f"| {' | '.join(cells)} |"
