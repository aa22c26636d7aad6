"""Writer of figures as small PNG files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = 128
"""Number of colors of a file; lines with antialiasing need no more, and the file has a third of the size."""


def save_figure(figure: Figure, path: Path, dpi: int) -> None:
    """Write a figure as a PNG with a palette, and without the name of the program that drew it.

    Args:
        figure: Figure.
        path: Path of the file.
        dpi: Pixels per inch.
    """
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, dpi=dpi, format="png", metadata={"Software": None})
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(path, format="PNG", optimize=True)
