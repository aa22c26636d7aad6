"""Tables of a report, for the terminal and for the viewer's page."""

from __future__ import annotations

import io
import math
import shutil
from collections.abc import Mapping, Sequence

from gpu_envs.errors import missing_extra, packages
from league.analysis.report_data import Report

Table = tuple[str, list[str], list[list[str]]]
"""Title, column names (empty for no header) and rows."""
MAX_ROWS = 30
"""Maximum number of rows in a terminal table; of longer tables the first few and the last ones are shown."""
MAX_PAIRS = 200
"""Maximum number of pairs on the page, those with most episodes; report.json has all."""
RATINGS = {"weight": "weight", "elo": "Elo", "alpharank": "alpha-rank", "nash_average": "Nash average"}
"""Column titles of ratings."""
ITERATIONS = {
    "nash_conv": "NashConv",
    "exploitability": "exploitability",
    "best_nash_conv": "best so far",
    "ce_gap": "CE gap",
    "population_gain": "gain by own policies",
}
"""Column titles of measures of iterations."""


def format_report(report: Report, width: int | None = None) -> str:
    """Format all tables of a report for a terminal.

    Args:
        report: Report to format.
        width: Width in characters; None: the terminal's.

    Raises:
        MissingExtraError: rich is not installed.
    """
    width = width or shutil.get_terminal_size((140, 24)).columns
    return "\n".join(_printed(title, head, _few(rows), width) for title, head, rows in tables(report))


def tables(report: Report) -> list[Table]:
    """Return all tables of a report, the summary first."""
    result: list[Table] = [(f"{report.env_id}, {report.algorithm}: {report.run}", ["", ""], summary(report))]
    if report.iterations:
        measures = [key for key in ITERATIONS if any(row[key] is not None for row in report.iterations)]
        few = len(report.policies) <= 2  # names of more roles would fill the row
        rows = [
            [
                str(row["iteration"]),
                format_sizes(row["policies"]) if few else "/".join(map(str, row["policies"].values())),
                *(_with_interval(row[key], row.get(f"{key}_half_width")) for key in measures),
            ]
            for row in report.iterations
        ]
        result.append(("Iterations", ["iteration", "policies", *(ITERATIONS[key] for key in measures)], rows))
    for role, entries in report.policies.items():
        keys = [key for key in RATINGS if any(entry.get(key) is not None for entry in entries)]
        names = {entry["index"]: entry["name"] for entry in entries}
        parents = [names.get(entry["parent"], "") for entry in entries]
        rows = [
            [
                *(str(entry[key]) for key in ("name", "kind", "iteration")),
                *([parent] if any(parents) else []),
                *(format_number(entry[key], 0 if key == "elo" else 4) for key in keys),
            ]
            for entry, parent in zip(entries, parents, strict=True)
        ]
        if rows:
            head = [
                "policy",
                "kind",
                "iteration",
                *(["initialized from"] if any(parents) else []),
                *(RATINGS[key] for key in keys),
            ]
            result.append((f"Policies of {role}", head, rows))
    for name, title in (("by_role", "role"), ("by_kind", "kind")):
        if report.matches[name]:
            rows = [[key, f"{count:,}"] for key, count in report.matches[name].items()]
            suffix = ", once per opponent" if title == "kind" and _counts_opponents(report) else ""
            result.append((f"Training episodes by {title}{suffix}", [title, "episodes"], rows))
    if report.left_out:
        result.append(("Left out", ["measure", "reason"], [[name, why] for name, why in report.left_out.items()]))
    return result


def page_tables(report: Report) -> list[Table]:
    """Return all tables for the viewer's page: the terminal's tables, and training episodes by pair."""
    (_, head, rows), *remaining = tables(report)
    result = [("Summary", head, rows), *remaining]
    if pairs := sorted(report.matches["by_pair"], key=lambda pair: -pair[2]):
        title = "Training episodes by pair" + (", once per opponent" if _counts_opponents(report) else "")
        if len(pairs) > MAX_PAIRS:
            title += f": the {MAX_PAIRS} of {len(pairs):,} pairs with most episodes, see report.json"
        cells = [[learner, opponent, f"{count:,}"] for learner, opponent, count in pairs[:MAX_PAIRS]]
        result.append((title, ["learner", "opponent", "episodes"], cells))
    return result


def _counts_opponents(report: Report) -> bool:
    """Return whether matches are counted by single opponents, as leagues do, and an episode has several of them."""
    return len(report.seats) > 2 and sum(report.matches["by_kind"].values()) > sum(report.matches["by_role"].values())


def summary(report: Report) -> list[list[str]]:
    """Return the rows of the summary of the run."""
    rows = [["iterations", "none yet" if report.finished is None else str(report.finished)]]
    rows.append(["policies", format_sizes({role: len(entries) for role, entries in report.policies.items()})])
    if report.strategy is not None:
        source = "of the run" if report.strategy["of_the_run"] else "computed for this report"
        text = f"{report.strategy['solver']} at iteration {report.strategy['iteration']}, {source}"
        rows.append(["final meta-strategy", text])
    if report.best is not None:
        rows.append(
            ["lowest NashConv", f"{format_number(report.best['nash_conv'])} at iteration {report.best['iteration']}"]
        )
    if report.exploit is not None:
        bound = report.exploit
        text = f"{format_number(bound['nash_conv'])} ± {format_number(bound['half_width'])} (95 %), a lower bound by"
        rows.append(
            [
                "NashConv, at least",
                f"{text} responses of {bound['steps']:,} environment steps each, {bound['seconds']:.0f} s in all",
            ]
        )
    return rows + [[_words(name), format_number(value)] for name, value in report.measures.items()]


def format_sizes(policies: Mapping[str, int]) -> str:
    """Format the number of policies of each role."""
    return ", ".join(f"{count} {role}" for role, count in policies.items())


def format_number(value: float | None, digits: int = 4) -> str:
    """Format a number with fixed digits; return an empty string for None and numbers that are not finite."""
    if value is None or not math.isfinite(value):
        return ""
    small = digits and 0 < abs(value) < 5e-5
    return f"{value:.1e}" if small else f"{round(value, digits) + 0.0:.{digits}f}"  # no -0


def _with_interval(value: float | None, half: float | None) -> str:
    return format_number(value) + (f" ± {format_number(half)}" if half else "")


def _words(name: str) -> str:
    """Format a measure's name: "expected_cardinality/player_0" as "expected cardinality of player_0"."""
    measure, _, role = name.partition("/")
    return measure.replace("_", " ") + (f" of {role}" if role else "")


def _few(rows: list[list[str]]) -> list[list[str]]:
    if len(rows) <= MAX_ROWS:
        return rows
    return [*rows[:3], ["...", *[""] * (len(rows[0]) - 1)], *rows[4 - MAX_ROWS :]]


def _printed(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Format a table; raise MissingExtraError if rich is not installed."""
    try:
        from rich import table, text
        from rich.console import Console
    except ModuleNotFoundError as error:
        raise missing_extra(error, "gpu-envs league report", ("rich",), packages("train")) from None

    grid = table.Table(show_header=any(head), box=None, pad_edge=False)
    for name in head:
        grid.add_column(name, overflow="fold", min_width=max(map(len, name.split()), default=None))
    for row in rows:
        grid.add_row(*map(text.Text, row))
    file = io.StringIO()
    Console(file=file, width=width, force_jupyter=False).print(grid)  # a notebook would display it
    return "\n".join([title, *(line.rstrip() for line in file.getvalue().splitlines()), ""])
