"""A report as one page without links, and as pictures."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from league import pictures
from league.tables import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from league.report import Report

STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --soft: #667080; --line: #d9dde3; --page: #fff; --card: #f6f7f9; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --soft: #98a2b0; --line: #39414c; --page: #16191d; --card: #1f242a; }
}
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 68rem; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
h2 { border-bottom: 1px solid var(--line); font-size: 1.1rem; margin: 2.2rem 0 .8rem; padding-bottom: .2rem; }
p, figcaption { color: var(--soft); margin: .2rem 0 1rem; }
figure { margin: 1rem 0; }
img { background: #fff; border: 1px solid var(--line); border-radius: 6px; display: block; height: auto;
  max-width: 100%; }
.scroll { max-height: 34rem; overflow: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; }
thead th { background: var(--page); border-bottom: 1px solid var(--line); position: sticky; top: 0; }
tbody tr:nth-child(even) { background: var(--card); }
td.number, th.number { text-align: right; }
"""
PAIRS = 200
"""Pairs that are listed, those that met most often; all are in report.json."""


def write_pages(report: Report, folder: Path) -> list[Path]:
    """Writes report.html and a PNG for every picture; returns the files."""
    made, written = [], []
    for name, title, figure in figures(report):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=130, metadata={"Software": None})
        made.append((title, path.read_bytes()))
        written.append(path)
    page = folder / "report.html"
    page.write_text(document(report, made), encoding="utf-8")
    return [page, *written]


def figures(report: Report) -> Iterator[tuple[str, str, Figure]]:
    """(name of the file, caption, picture) of all that there is to draw."""
    seats = [seat["name"] for seat in report.seats]
    names = {role: [entry["name"] for entry in entries] for role, entries in report.policies.items()}
    if len(seats) == 2 and all(names.values()):
        mean = np.array(report.payoffs["mean"], np.float64)
        half = np.array(report.payoffs["half_width"], np.float64)
        first, second = (names[seat["role"]] for seat in report.seats)
        how = "exact" if report.payoffs["exact"] else "means of episodes, ± half of the 95 % interval"
        opposed = np.allclose(mean[0], -mean[1], equal_nan=True)
        told = f"What the policies of {seats[0]} earn against those of {seats[1]}: {how}."
        if opposed:
            told += f" {seats[1]} earns the negative."
        yield "payoffs", told, pictures.payoffs(mean[0], half[0], first, second, seats)
        if not opposed:
            told = f"What the policies of {seats[1]} earn against those of {seats[0]}: {how}."
            yield f"payoffs_{seats[1]}", told, pictures.payoffs(mean[1].T, half[1].T, second, first, seats[::-1])
    rows = report.iterations
    lines = {
        title: ([row["iteration"] for row in rows], [_nan(row[key]) for row in rows])
        for key, title in (
            ("nash_conv", "NashConv"),
            ("best_so_far", "best so far"),
            ("population_gain", "gain by own policies"),
        )
        if any(row[key] is not None for row in rows)
    }
    if lines:
        told = "What the seats could gain against the meta-strategy of each iteration: by best responses (NashConv,"
        told += " exact where it is drawn) and by the run's own policies, which is no more than that"
        told += "." if report.payoffs["exact"] else ", up to the noise of the payoffs."
        if report.exploit is not None and report.strategy is not None:
            at, value = report.strategy["iteration"], report.exploit["nash_conv"]
            lines["learned responses (lower bound)"] = ([at], [value])
        yield "exploitability", told, pictures.curves(lines, "Exploitability", "gain of all seats", log=True)
    rated = {
        role: ([entry["iteration"] for entry in entries], [_nan(entry.get("elo")) for entry in entries])
        for role, entries in report.policies.items()
        if any(entry.get("elo") is not None for entry in entries)
    }
    if rated:
        told = "Elo of every policy, by the iteration in which it came; 400 points are odds of 10 to 1."
        yield "ratings", told, pictures.ratings(rated)
    shown = [row for row in rows if row["strategy"] is not None]
    if shown:
        places: dict[str, int] = {}  # of seats, one of each role
        for place, seat in enumerate(report.seats):
            places.setdefault(seat["role"], place)
        by_role = {role: [row["strategy"][place] for row in shown] for role, place in places.items()}
        told = "How often each policy is met in the meta-strategy of each iteration."
        yield "meta_strategy", told, pictures.meta_strategies(by_role, [row["iteration"] for row in shown])
    for role, entries in report.policies.items():
        if entries:
            by_index = {entry["index"]: entry["name"] for entry in entries}
            relatives = [
                pictures.Relative(
                    entry["name"], by_index.get(entry["parent"]), entry["iteration"], entry.get("weight") or 0.0
                )
                for entry in entries
            ]
            told = f"Who of {role} began from whom; the larger the dot, the more often it is met in the end."
            yield f"lineage_{role}", told, pictures.lineage(relatives, f"Lineage of {role}")


def document(report: Report, made: list[tuple[str, bytes]]) -> str:
    """The page, with its pictures (caption, PNG) inside."""
    (title, _, summary), *others = tables(report)
    parts = [f"<h1>{_text(f'{report.env_id}, {report.algorithm}')}</h1>", f"<p>{_text(report.run)}</p>"]
    parts.append(_table([], summary))
    for told, data in made:
        source = base64.b64encode(data).decode()
        parts.append(
            f'<figure><img alt="{_text(told)}" src="data:image/png;base64,{source}">'
            f"<figcaption>{_text(told)}</figcaption></figure>"
        )
    for name, head, rows in others:
        parts += [f"<h2>{_text(name)}</h2>", _table(head, rows)]
    if pairs := sorted(report.matches["by_pair"], key=lambda pair: -pair[2]):
        parts.append("<h2>Episodes of training by pair</h2>")
        if len(pairs) > PAIRS:
            parts.append(f"<p>The {PAIRS} of {len(pairs)} that met most often; all are in report.json.</p>")
        parts.append(_table(["who learned", "against", "episodes"], [[*p[:2], f"{p[2]:,}"] for p in pairs[:PAIRS]]))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    top = f"<thead><tr>{''.join(f'<th>{_text(each)}</th>' for each in head)}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{''.join(_cell(each) for each in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    number = text.replace(",", "").replace(".", "").replace("-", "").replace("e", "").isdigit()
    return f'<td class="number">{_text(text)}</td>' if number else f"<td>{_text(text)}</td>"


def _text(text: str) -> str:
    return html.escape(text)


def _nan(value: Any) -> float:
    return math.nan if value is None else float(value)
