"""Files of pages: tables and parts that are made from results, and figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

PART = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
"""A part of a page that is made from results; the rest of a page is written by hand."""
COLORS = 128
"""Number of colors of a figure; lines with antialiasing need no more, and the file has a third of the size."""


def filled(page: Path, parts: Mapping[str, str]) -> str:
    """Return the text of a page with these parts of results replaced.

    Args:
        page: Path of the page.
        parts: Text of parts by name; others stay.
    """

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}{parts[match[2]]}\n{match[3]}" if match[2] in parts else match[0]

    return PART.sub(fill, page.read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure as a picture with a palette, see `save_picture`."""
    from PIL.Image import open as open_image

    drawn = BytesIO()
    figure.savefig(drawn, dpi=dpi, format="png")
    with open_image(drawn) as picture:
        save_picture(picture, path)


def save_picture(picture: Image, path: Path) -> None:
    """Write a picture with few colors as a `.png` or a `.webp`, which is lossless and a quarter smaller."""
    from PIL.Image import Dither

    # "optimize" is for .png; "quality" is the effort of a lossless .webp
    few = picture.convert("RGB").quantize(COLORS, dither=Dither.NONE)
    few.save(path, optimize=True, lossless=True, quality=100)
