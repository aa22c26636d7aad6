"""Window that shows frames."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from gpu_envs.errors import GpuEnvsError, MissingExtraError, packages
from gpu_envs.rendering.video import _to_numpy


class Window:
    """Window for `render_mode="human"`, opened by the first frame; pygame supports one window per process.

    After the user has closed it, `closed` is True and further frames are ignored.

    Raises:
        MissingExtraError: The package pygame is not installed (raised by `show`).
        GpuEnvsError: There is no display (raised by `show`).
    """

    def __init__(self, title: str = "gpu-envs", fps: float = 30.0) -> None:
        self.title = title
        self.fps = fps
        self.closed = False
        self._pygame: Any = None
        self._clock: Any = None

    def show(self, frame: np.ndarray | torch.Tensor) -> None:
        """Show a (height, width, 3) uint8 frame, handle window events and wait to keep the frame rate `fps`.

        Raises:
            GpuEnvsError: There is no display.
            MissingExtraError: The package pygame is not installed.
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
        """Close the window if it is open; may be called twice."""
        self.closed: bool = True
        if self._pygame is not None and self._pygame.display.get_init():
            self._pygame.display.quit()


def _import_pygame() -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError:
        raise MissingExtraError(f"render_mode 'human' needs pygame: pip install {packages('human')}") from None
    return pygame
