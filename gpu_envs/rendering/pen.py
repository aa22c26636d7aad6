"""Pen for figures of several shapes that repeat at many places of a scene."""

import torch

from gpu_envs.rendering.scene import Color, Values, boxes, circles, lines, rings

__all__ = ["Pen"]


class Pen:
    """Paint shapes around centers, in units of a scale.

    ::

        pen = Pen(centers, visible, scale=0.5)
        coins = join(pen.disc(0.0, 0.0, 0.4, ORANGE), pen.ring(0.0, 0.0, 0.4, DARK, 0.05))

    Args:
        centers: Centers (W, N, 2) [world units].
        visible: Centers at which the pen paints, (W, N) bool; None: all.
        scale: Length of a unit of the pen [world units], broadcasts to (W, N).
    """

    def __init__(self, centers: torch.Tensor, visible: torch.Tensor | None = None, scale: Values = 1.0) -> None:
        self.centers = centers
        self.scale: torch.Tensor = torch.as_tensor(scale, dtype=torch.float32, device=centers.device)
        self.visible: torch.Tensor = torch.ones_like(centers[..., 0]) if visible is None else visible.float()

    def at(self, right: float, up: float) -> torch.Tensor:
        """Return a point beside every center, (W, N, 2) [world units]."""
        return self.centers + self.scale[..., None] * torch.tensor([right, up], device=self.centers.device)

    def disc(self, right: float, up: float, radius: float, color: Color) -> torch.Tensor:
        """Return discs, (W, N, 10)."""
        return circles(self.at(right, up), self.scale * radius, color, self.visible)

    def ring(self, right: float, up: float, radius: float, color: Color, width: float = 0.03) -> torch.Tensor:
        """Return outlines of discs, (W, N, 10)."""
        return rings(self.at(right, up), self.scale * radius, color, self.scale * width, self.visible)

    def box(self, right: float, up: float, half: tuple[float, float], color: Color) -> torch.Tensor:
        """Return boxes of half a width and height, (W, N, 10)."""
        size = self.scale[..., None] * torch.tensor(half, device=self.centers.device)
        return boxes(self.at(right, up), size, color, self.visible)

    def line(self, start: tuple[float, float], end: tuple[float, float], width: float, color: Color) -> torch.Tensor:
        """Return lines with round ends, (W, N, 10)."""
        return lines(self.at(*start), self.at(*end), self.scale * width, color, self.visible)
