"""Films that notebooks show inline."""

from __future__ import annotations

import base64
import html
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from gpu_envs.rendering.video import tile, write_video

__all__ = ["InlineVideo"]


class InlineVideo:
    """Film of an environment. A notebook shows it as the result of a cell; :meth:`save` writes it to a file.

    Args:
        frames: Frames (W, height, width, 3) uint8 of W worlds, which are tiled.
        fps: Frames per second.
        title: Name of the film.

    Raises:
        MissingExtraError: The package imageio is not installed.
        ValueError: There is no frame, or frames differ in size or dtype.
    """

    def __init__(self, frames: Iterable[np.ndarray], fps: float, title: str) -> None:
        self.frames: list[np.ndarray] = [np.asarray(tile(frame)) for frame in frames]
        self.fps = fps
        self.title = title
        with tempfile.TemporaryDirectory() as folder:
            self._gif = write_video(Path(folder) / "film.gif", self.frames, fps).read_bytes()

    def __repr__(self) -> str:
        height, width, _ = self.frames[0].shape
        length = f"{len(self.frames)} frames, {len(self.frames) / self.fps:.1f} s"
        return f"<InlineVideo {self.title}: {width} x {height} pixels, {length}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks, with the film as an animated GIF in it."""
        height, width, _ = self.frames[0].shape
        source = f"data:image/gif;base64,{base64.b64encode(self._gif).decode()}"
        return f'<img alt="{html.escape(self.title)}" width="{width}" height="{height}" src="{source}">'

    def save(self, path: str | Path) -> Path:
        """Write the film as `.mp4`, `.gif` or `.png`; see :func:`gpu_envs.rendering.video.write_video`."""
        return write_video(path, self.frames, self.fps)
