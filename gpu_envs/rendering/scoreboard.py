"""Names and returns of the sides of a match, and its winner, above the frames of worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.errors import missing_extra, packages
from gpu_envs.utils.terminal import shorten

GROUND, TEXT, STRONG = (255, 255, 255), (70, 78, 90), (12, 127, 93)
"""Colors of the ground, of a side, and of the side that has won."""
LEAST_HEIGHT = 12
"""Least height of a line [pixels]."""


class Scoreboard:
    """Returns of sides in the running episode of every world, and the winner at its end.

    Only a zero-sum game has a winner: the side with the highest return.
    """

    def __init__(self, core: WorldView, sides: Mapping[str, Sequence[int]], size: int) -> None:
        """Start with returns of 0.

        Args:
            core: The worlds, all of which are rendered.
            sides: Rows of the agents of every side by its name.
            size: Width of the frame of a world [pixels].

        Raises:
            MissingExtraError: Pillow is not installed.
        """
        try:
            from PIL import Image, ImageDraw, ImageFont
        except ModuleNotFoundError as error:
            raise missing_extra(error, "names in a video", ("PIL",), packages("train")) from None
        self.core: WorldView = core
        self.sides: Mapping[str, Sequence[int]] = sides
        self.returns: torch.Tensor = torch.zeros(core.num_envs, len(sides), device=core.device)
        self._image, self._draw = Image, ImageDraw
        self.line_height: int = max(LEAST_HEIGHT, size // 20)
        self._font: Any = ImageFont.load_default(0.8 * self.line_height)
        self._length: int = max(8, int(size / (0.45 * self.line_height)))  # characters of a line

    def observe(self, reward: torch.Tensor) -> None:
        """Add the rewards (E, A) of a step; a new episode starts with 0."""
        self.returns += torch.stack([reward[:, list(rows)].sum(1) for rows in self.sides.values()], 1)
        self.returns.masked_fill_((self.core.elapsed_steps == 0).unsqueeze(1), 0.0)

    def lines(self) -> list[list[tuple[str, bool]]]:
        """Return for every world a text per side, and whether the side has won."""
        is_over = (~self.core.alive.any(1)).tolist()
        boards = []
        for returns, over in zip(self.returns.tolist(), is_over, strict=True):
            is_decided = over and self.core.definition.zero_sum
            best = max(returns)
            is_draw = returns.count(best) > 1
            board = []
            for name, value in zip(self.sides, returns, strict=True):
                has_won = is_decided and value == best and not is_draw
                end = "  won" if has_won else "  draw" if is_decided and is_draw else ""
                ending = f"  return {value:.1f}{end}"
                board.append((shorten(name, self._length - len(ending)) + ending, has_won))
            boards.append(board)
        return boards

    def add_lines(self, frames: np.ndarray) -> np.ndarray:
        """Return frames (W, height, width, 3) uint8 with the lines of every world above them."""
        height = self.line_height * len(self.sides)
        bars = np.empty((len(frames), height, frames.shape[2], 3), np.uint8)
        for bar, board in zip(bars, self.lines(), strict=True):
            image = self._image.new("RGB", (frames.shape[2], height), GROUND)
            pen = self._draw.Draw(image)
            for line, (text, has_won) in enumerate(board):
                position = (0.3 * self.line_height, line * self.line_height)
                pen.text(position, text, fill=STRONG if has_won else TEXT, font=self._font)
            bar[:] = np.asarray(image)
        return np.concatenate([bars, frames], 1)
