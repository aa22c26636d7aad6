"""A report as a single HTML file and as PNG files."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from league.analysis import figures as draw
from league.analysis.report_data import Report
from league.analysis.report_tables import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MAX_PAIRS", "STYLE", "report_document", "report_figures", "write_pages"]

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
MAX_PAIRS = 200
"""Maximum number of listed pairs, those with most episodes; report.json has all."""


def write_pages(report: Report, folder: Path) -> list[Path]:
    """Write report.html and a PNG for each figure, and return the files."""
    images, written = [], []
    for name, title, figure in report_figures(report):
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=130, metadata={"Software": None})
        images.append((title, path.read_bytes()))
        written.append(path)
    page = folder / "report.html"
    page.write_text(report_document(report, images), encoding="utf-8")
    return [page, *written]


def report_figures(report: Report) -> Iterator[tuple[str, str, Figure]]:
    """Yield the file name, the caption and the figure of each drawing that the data allow."""
    seats = [seat["name"] for seat in report.seats]
    names = {role: [entry["name"] for entry in entries] for role, entries in report.policies.items()}
    if len(seats) == 2 and all(names.values()):
        mean = np.array(report.payoffs["mean"], np.float64)
        half = np.array(report.payoffs["half_width"], np.float64)
        first, second = (names[seat["role"]] for seat in report.seats)
        how = "exact" if report.payoffs["exact"] else "means of episodes, ± half of the 95 % interval"
        opposed = np.allclose(mean[0], -mean[1], equal_nan=True)
        caption = f"Payoffs of the policies of {seats[0]} against those of {seats[1]}: {how}."
        if opposed:
            caption += f" The payoffs of {seats[1]} are the negative."
        yield "payoffs", caption, draw.payoff_figure(mean[0], half[0], first, second, seats)
        if not opposed:
            caption = f"Payoffs of the policies of {seats[1]} against those of {seats[0]}: {how}."
            yield f"payoffs_{seats[1]}", caption, draw.payoff_figure(mean[1].T, half[1].T, second, first, seats[::-1])
    rows = report.iterations
    lines = {
        title: ([row["iteration"] for row in rows], [_nan(row[key]) for row in rows])
        for key, title in (
            ("nash_conv", "NashConv"),
            ("best_nash_conv", "best so far"),
            ("population_gain", "gain by own policies"),
        )
        if any(row[key] is not None for row in rows)
    }
    if lines:
        caption = "Gain of all seats against the meta-strategy of each iteration: by best responses (NashConv, exact if"
        caption += " shown), and by the run's own policies, which is a lower bound"
        caption += "." if report.payoffs["exact"] else ", apart from the noise of the payoffs."
        if report.exploit is not None and report.strategy is not None:
            at, value = report.strategy["iteration"], report.exploit["nash_conv"]
            lines["learned responses (lower bound)"] = ([at], [value])
        yield "exploitability", caption, draw.curve_figure(lines, "Exploitability", "gain of all seats", log=True)
    rated = {
        role: ([entry["iteration"] for entry in entries], [_nan(entry.get("elo")) for entry in entries])
        for role, entries in report.policies.items()
        if any(entry.get("elo") is not None for entry in entries)
    }
    if rated:
        caption = "Elo of every policy over the iteration in which it was added; 400 points are odds of 10 to 1."
        yield "ratings", caption, draw.rating_figure(rated)
    shown = [row for row in rows if row["strategy"] is not None]
    if shown:
        places: dict[str, int] = {}  # one seat of each role
        for place, seat in enumerate(report.seats):
            places.setdefault(seat["role"], place)
        by_role = {role: [row["strategy"][place] for row in shown] for role, place in places.items()}
        caption = "Weight of each policy in the meta-strategy of each iteration."
        yield "meta_strategy", caption, draw.meta_strategy_figure(by_role, [row["iteration"] for row in shown])
    for role, entries in report.policies.items():
        if entries:
            by_index = {entry["index"]: entry["name"] for entry in entries}
            relatives = [
                draw.LineageNode(
                    entry["name"], by_index.get(entry["parent"]), entry["iteration"], entry.get("weight") or 0.0
                )
                for entry in entries
            ]
            caption = f"Lineage of the policies of {role}; larger dots have more weight in the final meta-strategy."
            yield f"lineage_{role}", caption, draw.lineage_figure(relatives, f"Lineage of {role}")


def report_document(report: Report, images: list[tuple[str, bytes]]) -> str:
    """Return the HTML document, which includes its figures (caption, PNG)."""
    (title, _, summary), *others = tables(report)
    parts = [f"<h1>{_text(f'{report.env_id}, {report.algorithm}')}</h1>", f"<p>{_text(report.run)}</p>"]
    parts.append(_table([], summary))
    for caption, data in images:
        source = base64.b64encode(data).decode()
        parts.append(
            f'<figure><img alt="{_text(caption)}" src="data:image/png;base64,{source}">'
            f"<figcaption>{_text(caption)}</figcaption></figure>"
        )
    for name, head, rows in others:
        parts += [f"<h2>{_text(name)}</h2>", _table(head, rows)]
    if pairs := sorted(report.matches["by_pair"], key=lambda pair: -pair[2]):
        parts.append("<h2>Training episodes by pair</h2>")
        if len(pairs) > MAX_PAIRS:
            parts.append(f"<p>The {MAX_PAIRS} of {len(pairs)} pairs with most episodes; report.json has all.</p>")
        parts.append(_table(["learner", "opponent", "episodes"], [[*p[:2], f"{p[2]:,}"] for p in pairs[:MAX_PAIRS]]))
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
