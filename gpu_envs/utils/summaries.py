"""Short descriptions of objects: one line for the terminal, a table for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_TEXT_ROWS, MAX_HTML_ROWS = 6, 30
"""Rows of a table in one line of text and in a notebook; the rest is counted."""
MAX_TEXT, MAX_HTML = 80, 400
"""Longest value in one line of text and in a notebook."""
_CELL = "text-align:left;padding:2px 10px 2px 0;border:none;vertical-align:top"


@dataclass(frozen=True)
class Summary:
    """Description of an object: its name, facts, and a table of its parts."""

    name: str
    """Name of the object, such as the id of an environment."""
    facts: Mapping[str, Any]
    """Values by label; None is left out."""
    columns: Sequence[str] = ()
    """Headings of the table."""
    rows: Sequence[Sequence[Any]] = field(default_factory=list)
    """Cells of the table; the first cell of a row names it."""

    def text(self, kind: str) -> str:
        """Return the summary in one line, which begins with the class name ``kind``."""
        facts = [f"{label}={_short(value)}" for label, value in self.facts.items() if value is not None]
        parts = [", ".join(facts)] if facts else []
        for row in self.rows[:MAX_TEXT_ROWS]:
            cells = (f"{label} {_short(cell)}" for label, cell in zip(self.columns[1:], row[1:], strict=True))
            parts.append(f"{_short(row[0])}: {', '.join(cells)}")
        if len(self.rows) > MAX_TEXT_ROWS:
            parts.append(f"and {len(self.rows) - MAX_TEXT_ROWS} more")
        title = f"{kind} {self.name}" if self.name else kind
        return f"<{title}: {'; '.join(parts)}>" if parts else f"<{title}>"

    def html(self, kind: str) -> str:
        """Return the summary as HTML, with all text escaped."""
        name = f"<b>{_escaped(self.name)}</b> " if self.name else ""
        lines = [f'<div style="line-height:1.5">{name}<code>{_escaped(kind)}</code><table>']
        lines += [
            f"<tr>{_cell('th', label)}{_cell('td', value)}</tr>"
            for label, value in self.facts.items()
            if value is not None
        ]
        lines.append("</table>")
        if self.rows:
            lines.append('<table style="margin-top:8px">')
            lines.append(f"<tr>{''.join(_cell('th', label) for label in self.columns)}</tr>")
            for row in self.rows[:MAX_HTML_ROWS]:
                lines.append(f"<tr>{''.join(_cell('td', cell) for cell in row)}</tr>")
            lines.append("</table>")
        if len(self.rows) > MAX_HTML_ROWS:
            lines.append(f"<p>and {len(self.rows) - MAX_HTML_ROWS} more</p>")
        return "\n".join([*lines, "</div>"])


class Summarized:
    """Base of objects that show what they are, in a terminal and in a notebook."""

    def _summary(self) -> Summary:
        """Return the summary of this object."""
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            return self._summary().text(type(self).__name__)
        except AttributeError:  # the constructor failed, and a debugger shows the object
            return object.__repr__(self)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        return self._summary().html(type(self).__name__)


def format_range(names: Sequence[str]) -> str:
    """Return the number of names with the first and the last one."""
    if len(names) <= 2:
        return f"{len(names)} ({', '.join(names)})"
    return f"{len(names)} ({names[0]} to {names[-1]})"


def _cell(tag: str, value: Any) -> str:
    return f'<{tag} style="{_CELL}">{_escaped(value)}</{tag}>'


def _short(value: Any, longest: int = MAX_TEXT) -> str:
    """Return a value on one line, shortened."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    text = " ".join((f"{value:,}" if is_integer else str(value)).split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _escaped(value: Any) -> str:
    return html.escape(_short(value, MAX_HTML))
