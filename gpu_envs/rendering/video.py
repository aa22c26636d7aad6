"""What becomes of frames: a tile of worlds, a file, or a window."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from gpu_envs.errors import ConfigError, GpuEnvsError, MissingExtraError

SUFFIXES = (".mp4", ".gif", ".png")  # of files that can be written


@overload
def tile(frames: torch.Tensor, gap: int = 3) -> torch.Tensor: ...
@overload
def tile(frames: np.ndarray, gap: int = 3) -> np.ndarray: ...
def tile(frames: torch.Tensor | np.ndarray, gap: int = 3) -> torch.Tensor | np.ndarray:
    """Lays frames out row by row in a near-square grid.

    Args:
        frames: (W, height, width, 3) uint8, a tensor or an array.
        gap: width of the light lines between frames [pixels].

    Returns:
        One picture, (rows (height + gap) - gap, columns (width + gap) - gap, 3) uint8 of the same kind.
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
    """Checks one frame and returns it as a (height, width, 3) uint8 array."""
    array = frame.cpu().numpy() if isinstance(frame, torch.Tensor) else np.asarray(frame)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
        raise ValueError(f"frame: expected (height, width, 3) uint8, got {array.shape} {array.dtype}")
    return array


def _checked(frames: Iterable[np.ndarray | torch.Tensor]) -> Iterator[np.ndarray]:
    """The frames as arrays, all of the size of the first."""
    shape = None
    for frame in frames:
        array = _to_numpy(frame)
        shape = shape or array.shape
        if array.shape != shape:
            raise ValueError(f"frames: expected all of shape {shape}, got {array.shape}")
        yield array


@contextlib.contextmanager
def _atomically(path: Path) -> Iterator[Path]:
    """A temporary file beside `path`, of the same suffix, that takes its place if the block succeeds."""
    temporary = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()  # tells here, and not in many lines of an encoder, that there is no way to write
        yield temporary
        if temporary.stat().st_size == 0:
            raise GpuEnvsError(f"cannot write {path}: the encoder gave no data; another suffix may do")
        temporary.replace(path)
    except OSError as error:
        why = error.strerror or str(error).partition("\n")[0]
        raise GpuEnvsError(f"cannot write {path}: {why}; choose another place") from error
    finally:
        with contextlib.suppress(OSError):  # there may be no such folder
            temporary.unlink()


def write_video(path: str | Path, frames: Iterable[np.ndarray | torch.Tensor], fps: float) -> Path:
    """Writes frames as `.mp4` (H.264), `.gif` or `.png` (animated if there are several frames).

    The file appears under its name only when it is complete. Frames of an mp4 are streamed, so a generator need not fit
    in memory; an odd side is padded by one pixel, because the pixel format stores colours for pairs of pixels.

    Args:
        path: file to write; missing folders are made.
        frames: (height, width, 3) uint8 each, all of one size.
        fps: frames per second.

    Returns:
        path

    Raises:
        ConfigError: if the suffix is not one of these, or fps is not positive.
        MissingExtraError: if imageio is not installed.
        GpuEnvsError: if the file cannot be written there.
        ValueError: if there is no frame, or frames differ in size or dtype.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"path: cannot write {path.name!r}, its suffix must be one of {', '.join(SUFFIXES)}")
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
            iio.imwrite(temporary, stack, plugin="pillow", extension=suffix, duration=1000.0 / fps, loop=0)
    return path


def _require_imageio(suffix: str) -> None:
    for name in ("imageio", "imageio_ffmpeg") if suffix == ".mp4" else ("imageio",):
        try:
            importlib.import_module(name)
        except ImportError:
            raise MissingExtraError(f"writing {suffix} needs {name}: pip install 'gpu-envs[train]'") from None


def _write_mp4(path: Path, first: np.ndarray, rest: Iterable[np.ndarray], fps: float) -> None:
    import imageio_ffmpeg

    height, width, _ = first.shape
    odd = ((0, height % 2), (0, width % 2), (0, 0))
    stream = imageio_ffmpeg.write_frames(
        str(path),
        (width + width % 2, height + height % 2),
        fps=fps,  # pyright: ignore[reportArgumentType]  # it takes a float too
        quality=8,
        macro_block_size=2,
        ffmpeg_log_level="error",
        output_params=["-movflags", "+faststart"],  # lets a browser play while it loads
    )
    with contextlib.closing(stream):
        stream.send(None)
        for array in itertools.chain([first], rest):
            stream.send(np.pad(array, odd, mode="edge").tobytes())


def _write_gif(path: Path, frames: np.ndarray, fps: float) -> None:
    """One palette for all frames, of their most frequent colours, no dithering: crisp, and what stays is the same."""
    from PIL import Image  # imageio brings it

    codes = frames.astype(np.int32) @ np.array([65536, 256, 1], np.int32)
    colours, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], 1)
    palette = channels[np.argsort(-counts, kind="stable")[:256]]
    nearest = np.empty(len(colours), np.uint8)
    for part in np.array_split(np.arange(len(colours)), 1 + len(colours) // 4096):
        nearest[part] = ((channels[part, None] - palette) ** 2).sum(2).argmin(1)
    images = [Image.fromarray(frame) for frame in nearest[which].reshape(codes.shape)]
    for image in images:
        image.putpalette(palette.astype(np.uint8).tobytes())
    images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=1000.0 / fps, loop=0, optimize=False)


class Window:
    """A window for `render_mode="human"`, opened by the first frame; pygame has one such window per process.

    Once the user has closed it, `closed` is True and further frames are ignored.

    Raises:
        MissingExtraError: by `show`, if pygame is not installed.
        GpuEnvsError: by `show`, if there is no display.
    """

    def __init__(self, title: str = "gpu-envs", fps: float = 30.0) -> None:
        self.title = title
        self.fps = fps
        self.closed = False
        self._pygame: Any = None
        self._clock: Any = None

    def show(self, frame: np.ndarray | torch.Tensor) -> None:
        """Shows a (height, width, 3) uint8 frame, handles window events and waits to keep to `fps`.

        Raises:
            GpuEnvsError: There is no display.
            MissingExtraError: pygame is not installed.
        """
        if self.closed:
            return
        array = _to_numpy(frame)
        pygame = self._pygame = self._pygame or _import_pygame()
        size = (array.shape[1], array.shape[0])
        screen = pygame.display.get_surface() if pygame.display.get_init() else None
        if screen is None or screen.get_size() != size:
            try:
                pygame.display.init()
                screen = pygame.display.set_mode(size)
            except pygame.error as error:
                raise GpuEnvsError(f"render_mode 'human' found no display ({error}): use 'rgb_array'") from None
            pygame.display.set_caption(self.title)
        self._clock = self._clock or pygame.time.Clock()
        pygame.surfarray.blit_array(screen, array.swapaxes(0, 1))
        pygame.display.flip()
        self._clock.tick(self.fps)
        if any(event.type == pygame.QUIT for event in pygame.event.get()):
            self.close()

    def close(self) -> None:
        """Closes the window if it is open; may be called twice."""
        self.closed = True
        if self._pygame is not None and self._pygame.display.get_init():
            self._pygame.display.quit()


def _import_pygame() -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError:
        raise MissingExtraError("render_mode 'human' needs pygame: pip install 'gpu-envs[human]'") from None
    return pygame
