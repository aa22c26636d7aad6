"""Tiling of frames, video files, and films that notebooks show inline."""

from __future__ import annotations

import base64
import contextlib
import html
import importlib
import itertools
import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from gpu_envs.errors import ConfigError, GpuEnvsError, MissingExtraError, packages

SUFFIXES = (".mp4", ".gif", ".webp", ".png")  # supported file types
_EXACT = 64
"""Number of colors that a GIF of more than 256 keeps unchanged: colors of areas, not of the edges of shapes."""


@overload
def tile(frames: torch.Tensor, gap: int = 3) -> torch.Tensor: ...
@overload
def tile(frames: np.ndarray, gap: int = 3) -> np.ndarray: ...
def tile(frames: torch.Tensor | np.ndarray, gap: int = 3) -> torch.Tensor | np.ndarray:
    """Arrange frames row by row in a near-square grid.

    Args:
        frames: Frames (W, height, width, 3) uint8, a tensor or an array.
        gap: Width of the light lines between frames [pixels].

    Returns:
        One image (rows (height + gap) - gap, columns (width + gap) - gap, 3) uint8 of the same kind.
    """
    if isinstance(frames, np.ndarray):
        return tile(torch.from_numpy(frames), gap).numpy()
    if frames.ndim != 4 or frames.shape[0] == 0:
        raise ValueError(f"frames: expected at least one (height, width, 3), got {tuple(frames.shape)}")
    count, height, width, channels = frames.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    cells = frames.new_full((rows * columns, height + gap, width + gap, channels), 255)
    cells[:count, :height, :width] = frames
    grid = cells.view(rows, columns, height + gap, width + gap, channels).permute(0, 2, 1, 3, 4)
    grid = grid.reshape(rows * (height + gap), columns * (width + gap), channels)
    return grid[: grid.shape[0] - gap, : grid.shape[1] - gap].contiguous()


def _to_numpy(frame: np.ndarray | torch.Tensor) -> np.ndarray:
    """Return a frame as a (height, width, 3) uint8 array; raise a ValueError if it has another shape or dtype."""
    array = frame.cpu().numpy() if isinstance(frame, torch.Tensor) else np.asarray(frame)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        raise ValueError(f"frame: expected (height, width, 3) uint8, got {array.shape} {array.dtype}")
    return array


def _checked(frames: Iterable[np.ndarray | torch.Tensor]) -> Iterator[np.ndarray]:
    """Yield the frames as arrays; raise a ValueError if their sizes differ."""
    shape = None
    for frame in frames:
        array = _to_numpy(frame)
        shape = shape or array.shape
        if array.shape != shape:
            raise ValueError(f"frames: expected all of shape {shape}, got {array.shape}")
        yield array


@contextlib.contextmanager
def _atomically(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file with the same suffix, which replaces `path` if the block succeeds."""
    temporary = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()  # fails here if the folder is not writable, before the encoder starts
        yield temporary
        if temporary.stat().st_size == 0:
            raise GpuEnvsError(f"cannot write {path}: the encoder returned no data; use another suffix")
        temporary.replace(path)
    except OSError as error:
        why = error.strerror or str(error).partition("\n")[0]
        raise GpuEnvsError(f"cannot write {path}: {why}; choose another place") from error
    finally:
        with contextlib.suppress(OSError):  # the folder may not exist
            temporary.unlink()


def write_video(path: str | Path, frames: Iterable[np.ndarray | torch.Tensor], fps: float) -> Path:
    """Write frames as `.mp4` (H.264), `.gif`, `.webp` (lossless) or `.png` (animated if there are several frames).

    The file appears under its name only when it is complete. Frames of an mp4 are streamed, so a generator need not fit
    in memory. An odd side is padded by one pixel, because the pixel format stores colors for pairs of pixels.

    Args:
        path: File to write; missing folders are created.
        frames: Frames (height, width, 3) uint8 of equal size.
        fps: Frames per second.

    Returns:
        The path.

    Raises:
        ConfigError: The suffix is not supported, or fps is not positive.
        MissingExtraError: The package imageio is not installed.
        GpuEnvsError: The file cannot be written.
        ValueError: There is no frame, or frames differ in size or dtype.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"path: expected a file with the suffix {', '.join(SUFFIXES)}, got {path.name!r}")
    if not 0 < fps < math.inf:
        raise ConfigError(f"fps: expected a positive number, got {fps!r}")
    _require_imageio(suffix)
    arrays = _checked(frames)
    first = next(arrays, None)
    if first is None:
        raise ValueError("frames: expected at least one, got none")
    with _atomically(path) as temporary:
        if suffix == ".mp4":
            _write_mp4(temporary, first, arrays, fps)
        elif suffix == ".gif":
            _write_gif(temporary, np.stack([first, *arrays]), fps)
        else:
            import imageio.v3 as iio

            stack = np.stack([first, *arrays])
            # "quality" is the effort of lossless files, which are up to six times as large without it
            lossless = {"lossless": True, "quality": 100, "method": 4, "minimize_size": True}
            settings: dict[str, Any] = lossless if suffix == ".webp" else {}
            duration = round(1000.0 / fps)
            iio.imwrite(temporary, stack, plugin="pillow", extension=suffix, duration=duration, loop=0, **settings)
    return path


def _require_imageio(suffix: str) -> None:
    for name in ("imageio", "imageio_ffmpeg") if suffix == ".mp4" else ("imageio",):
        try:
            importlib.import_module(name)
        except ImportError:
            raise MissingExtraError(f"writing {suffix} needs {name}: pip install {packages('train')}") from None


def _write_mp4(path: Path, first: np.ndarray, frames: Iterable[np.ndarray], fps: float) -> None:
    import imageio_ffmpeg

    height, width, _ = first.shape
    odd = ((0, height % 2), (0, width % 2), (0, 0))
    stream = imageio_ffmpeg.write_frames(
        str(path),
        (width + width % 2, height + height % 2),
        fps=fps,  # pyright: ignore[reportArgumentType]  # a float is accepted too
        quality=8,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-movflags", "+faststart"],  # a browser can play it while loading
    )
    with contextlib.closing(stream):
        stream.send(None)
        for array in itertools.chain([first], frames):
            stream.send(np.pad(array, odd, mode="edge").tobytes())


def _write_gif(path: Path, frames: np.ndarray, fps: float) -> None:
    """Write a GIF with one palette for all frames, without dithering, so that still areas stay equal."""
    from PIL import Image  # a dependency of imageio

    codes = frames.astype(np.int32) @ np.array([65536, 256, 1], np.int32)
    colors, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    channels = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], 1)
    palette = _palette(channels, counts)
    nearest = np.empty(len(colors), np.uint8)
    for part in np.array_split(np.arange(len(colors)), 1 + len(colors) // 4096):
        nearest[part] = ((channels[part, None] - palette) ** 2).sum(2).argmin(1)
    images = [Image.fromarray(frame) for frame in nearest[inverse].reshape(codes.shape)]
    for image in images:
        image.putpalette(palette.astype(np.uint8).tobytes())
    images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=1000.0 / fps, loop=0, optimize=False)


def _palette(channels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return up to 256 colors (P, 3): the most frequent ones, and means of similar ones among the others.

    Args:
        channels: Colors of the frames (C, 3), in 0..255.
        counts: Number of pixels of each, (C,).
    """
    order = np.argsort(-counts, kind="stable")
    if len(order) <= 256:
        return channels[order]
    exact, remaining = order[:_EXACT], order[_EXACT:]
    colors, similar = channels[remaining], channels[remaining] >> 4  # cubes of 16 levels
    _, cube = np.unique(similar @ np.array([256, 16, 1]), return_inverse=True)
    weight = np.bincount(cube, counts[remaining])
    sums = np.stack([np.bincount(cube, counts[remaining] * colors[:, part]) for part in range(3)], 1)
    chosen = np.argsort(-weight, kind="stable")[: 256 - _EXACT]
    means = np.rint(sums[chosen] / weight[chosen, None]).astype(channels.dtype)
    return np.concatenate([channels[exact], means])


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
        """Write the film as `.mp4`, `.gif`, `.webp` or `.png`; see :func:`gpu_envs.rendering.video.write_video`."""
        return write_video(path, self.frames, self.fps)
