"""A report in tables: title, columns, rows; for a terminal and for a page."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from league.report import Report

Table = tuple[str, list[str], list[list[str]]]
"""Title, columns (empty names: none) and rows."""
SHOWN = 30
"""Rows of a table in a terminal; of more, the first few and the last."""
RATINGS = {"weight": "weight", "elo": "Elo", "alpharank": "alpha-rank", "nash_average": "Nash average"}
"""Columns of policies, in words."""
ITERATIONS = {
    "nash_conv": "NashConv",
    "exploitability": "exploitability",
    "best_so_far": "best so far",
    "population_gain": "gain by own policies",
}
"""Of iterations, likewise."""


def text(report: Report, width: int | None = None) -> str:
    """All tables for a terminal, see `Report.text`."""
    width = width or shutil.get_terminal_size((140, 24)).columns
    return "\n".join(_printed(title, head, _few(rows), width) for title, head, rows in tables(report))


def tables(report: Report) -> list[Table]:
    """All that is no picture, the summary first."""
    found: list[Table] = [(f"{report.env_id}, {report.algorithm}: {report.run}", ["", ""], summary(report))]
    if report.iterations:
        rows = [
            [
                str(row["iteration"]),
                sizes_text(row["policies"]),
                *(_with_interval(row[key], row.get(f"{key}_half_width")) for key in ITERATIONS),
            ]
            for row in report.iterations
        ]
        found.append(("Iterations", ["iteration", "policies", *ITERATIONS.values()], rows))
    for role, entries in report.policies.items():
        keys = [key for key in RATINGS if any(entry.get(key) is not None for entry in entries)]
        names = {entry["index"]: entry["name"] for entry in entries}
        rows = [
            [
                *(str(entry[key]) for key in ("name", "kind", "iteration")),
                names.get(entry["parent"], ""),
                *(number(entry[key], 0 if key == "elo" else 4) for key in keys),
            ]
            for entry in entries
        ]
        if rows:
            head = ["policy", "kind", "iteration", "began from", *(RATINGS[key] for key in keys)]
            found.append((f"Policies of {role}", head, rows))
    for name, title in (("by_role", "role"), ("by_kind", "kinds")):
        if report.matches[name]:
            rows = [[key, f"{count:,}"] for key, count in report.matches[name].items()]
            found.append((f"Episodes of training by {title}", [title, "episodes"], rows))
    if report.left_out:
        found.append(("Left out", ["what", "why"], [[name, why] for name, why in report.left_out.items()]))
    return found


def summary(report: Report) -> list[list[str]]:
    """The numbers of the whole run."""
    rows = [["iterations", "none yet" if report.finished is None else str(report.finished)]]
    rows.append(["policies", sizes_text({role: len(entries) for role, entries in report.policies.items()})])
    if report.strategy is not None:
        whose = "of the run" if report.strategy["of_the_run"] else "made for this report"
        told = f"{report.strategy['solver']} at iteration {report.strategy['iteration']}, {whose}"
        rows.append(["meta-strategy of the end", told])
    if report.best is not None:
        rows.append(["least NashConv", f"{number(report.best['nash_conv'])} at iteration {report.best['iteration']}"])
    if report.exploit is not None:
        found = report.exploit
        told = f"{number(found['nash_conv'])} ± {number(found['half_width'])} (95 %), a lower bound: responses learned"
        rows.append(
            ["NashConv, at least", f"{told} from {found['steps']:,} steps each, {found['seconds']:.0f} s in all"]
        )
    return rows + [[_words(name), number(value)] for name, value in report.measures.items()]


def sizes_text(policies: Mapping[str, int]) -> str:
    """How many policies of each role."""
    return ", ".join(f"{count} {role}" for role, count in policies.items())


def number(value: float | None, digits: int = 4) -> str:
    """Of fixed digits; nothing where there is none."""
    if value is None or not math.isfinite(value):
        return ""
    small = digits and 0 < abs(value) < 5e-5
    return f"{value:.1e}" if small else f"{value + 0.0:.{digits}f}"  # no -0


def _with_interval(value: float | None, half: float | None) -> str:
    return number(value) + (f" ± {number(half)}" if half else "")


def _words(name: str) -> str:
    """expected_cardinality/player_0: expected cardinality of player_0."""
    measure, _, role = name.partition("/")
    return measure.replace("_", " ") + (f" of {role}" if role else "")


def _few(rows: list[list[str]]) -> list[list[str]]:
    if len(rows) <= SHOWN:
        return rows
    return [*rows[:3], ["...", *[""] * (len(rows[0]) - 1)], *rows[4 - SHOWN :]]


def _printed(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """With rich where it is installed, else in plain columns."""
    try:
        from rich import table, text
        from rich.console import Console
    except ModuleNotFoundError:
        wide = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = ["  ".join(each.ljust(size) for each, size in zip(row, wide, strict=True)) for row in (head, *rows)]
        return "\n".join([title, *(line.rstrip() for line in lines if line.strip()), ""])
    made = table.Table(show_header=any(head), box=None, pad_edge=False)
    for name in head:
        made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*map(text.Text, row))
    file = io.StringIO()
    Console(file=file, width=width, force_jupyter=False).print(made)  # a notebook would show it by itself
    return "\n".join([title, *(line.rstrip() for line in file.getvalue().splitlines()), ""])
