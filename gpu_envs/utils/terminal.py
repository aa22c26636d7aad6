"""Text for a terminal: its width, commands to copy, and numbers that are rounded for people."""

import math
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

MARGIN = 3
"""Columns at the right edge that progress displays leave free: a terminal writes "^C" there after Ctrl-C. In the last
column it would start a new line, and the display would be drawn twice."""
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))  # above the last it is written with an exponent


def is_terminal(file: TextIO | None) -> bool:
    """Return whether a file is a terminal; a standard stream of a process without one is None."""
    return file is not None and file.isatty()


def terminal_width(file: TextIO | None) -> int | None:
    """Return the number of columns of the terminal that a file is; None for other files, which have no width.

    The environment variable COLUMNS sets the width of all files, as in other commands.
    """
    return shutil.get_terminal_size().columns if is_terminal(file) or os.environ.get("COLUMNS") else None


def shell_command(*words: str | Path) -> str:
    """Return a command as a line for a shell; words with spaces or other special characters are quoted.

    Args:
        *words: Program and arguments. A path must be a `Path`: one such as "-run" becomes "./-run", which no program
            mistakes for an option.
    """
    names = (f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word) for word in words)
    return shlex.join(names)


def shorten(text: str, width: int) -> str:
    """Return a text of at most `width` characters; an ellipsis replaces the end of a longer one.

    It is cut between words, since the first digits of a number are another number.
    """
    if len(text) <= width:
        return text
    prefix = text[: max(0, width - 1)]
    if not text[len(prefix)].isspace():
        prefix = prefix[: prefix.rfind(" ") + 1] or prefix
    return f"{prefix}…"


def wrap_lines(text: str, width: int) -> str:
    """Return a text whose lines end between words, so that a terminal of a width does not break them inside one.

    A line keeps its indent, and the indent of its second column, if it has two: its parts are apart by two spaces.
    A command after "Example: " is continued by backslashes, so that it can be copied. Lines with escape sequences or
    the lines of boxes stay as they are.

    Args:
        text: Lines of text.
        width: Number of columns of the terminal.
    """
    lines = []
    example = r"^example: .*(\n *[^\s│╭╰].*)*"  # a command of several lines becomes one
    text = re.sub(example, lambda match: " ".join(match[0].split()), text, flags=re.IGNORECASE | re.MULTILINE)
    for line in text.split("\n"):
        if len(line) <= width or not line.isprintable() or line[:1] in "│╭╰":
            lines.append(line)
            continue
        if line.lower().startswith("example: "):
            lines += " \\\n".join(_wrap(line, width - 2, 2)).split("\n")
            continue
        columns = re.match(r"\s*(\S+( \S+)*\s{2,})?", line)
        indent = columns.end() if columns and columns.end() < width - 20 else 0
        lines += _wrap(line, width, indent)
    return "\n".join(lines)


def _wrap(line: str, width: int, indent: int) -> list[str]:
    """Return a line as several ones whose later ones are indented; words are never divided."""
    return textwrap.wrap(line, width, subsequent_indent=indent * " ", break_on_hyphens=False, break_long_words=False)


def short_number(value: float, digits: int = 3) -> str:
    """Return a number for people, rounded to significant digits, with a decimal prefix such as 166k.

    Whole numbers below 10,000 are exact, others are rounded: 1283.4 is 1,280. Numbers below 1 have no prefix:
    0.00012083 is 0.000121.
    """
    if not math.isfinite(value):
        return str(value)
    if abs(value) < 10_000:
        text = f"{value:.{digits}g}"
        if abs(value) >= 1_000:  # "g" writes 1.28e+03
            text = f"{float(text):,.0f}"
        return f"{int(value):,}" if value == int(value) else text
    for size, unit in _UNITS:
        text = f"{value / size:.{digits}g}"
        if abs(float(text)) >= 1:
            return f"{text}{unit}"
    raise AssertionError(value)


def align(lines: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Return a header and rows as text of aligned columns, with a rule below the header.

    Args:
        lines: Cells of the header and of every row.
        left: Number of columns that are aligned at their left side, the first ones; the others are at their right.
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return [text[0], "-" * max(map(len, text)), *text[1:]]


def fit_table(lines: Sequence[Sequence[str]], width: int | None) -> tuple[list[str], int]:
    """Return a table as text that fits a width: with one row for every column if it would be too wide.

    See `all_rows` for a table without omissions.

    Args:
        lines: Cells of the header and of every row.
        width: Number of columns of the terminal; None for any width.

    Returns:
        Lines of text, and the number of rows that are shown. A turned table has the last rows that fit, one at least.
    """
    head, *rows = lines
    text, count = align(lines), len(rows)
    if width is None or len(text[1]) <= width or not rows:
        return text, count
    for count in range(len(rows), 0, -1):
        text = align(list(zip(head, *rows[-count:], strict=True)), left=1)
        if len(text[1]) <= width:
            break
    return text, count


def all_rows(lines: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return a table of left-aligned columns, or several turned tables one below the other if it would be too wide.

    Args:
        lines: Cells of the header and of every row.
        width: Number of columns of the terminal; None for any width.
    """
    text = align(lines, len(lines[0]))
    if width is None or len(text[1]) <= width:
        return text
    head, *rows = lines
    text, remaining = [], list(rows)
    while remaining:
        count = len(remaining)
        while count > 1 and len(align(list(zip(head, *remaining[:count], strict=True)), len(lines))[1]) > width:
            count -= 1
        text += [*([""] if text else []), *align(list(zip(head, *remaining[:count], strict=True)), len(lines))]
        del remaining[:count]
    return text
