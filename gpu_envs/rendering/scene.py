"""Scenes of shapes, and their rasterization by a Warp kernel.

An environment converts the states of the selected worlds into shapes with torch operations, and joins them:

    agents = circles(positions, 0.4, BLUE, alpha=alive)
    scene = Scene(join(boxes(obstacles, 0.5, GRAY), agents), bounds=(0.0, 0.0, 20.0, 20.0), agents=agents)
    frames = rasterize(scene, size=256)  # (W, 256, 256, 3) uint8

`W` counts the worlds shown and `N` the shapes of one helper call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from gpu_envs.errors import ConfigError
from gpu_envs.utils.devices import current_device_kept, warp_array, warp_stream
from warp_kernels import building, start
from warp_kernels.drawing import rasterizer
from warp_kernels.framework.recorded_launch import loading

# Colors that color-blind readers can distinguish (after Okabe and Ito, 2008), as r, g, b in 0..1.
RED = (0.84, 0.24, 0.16)
BLUE = (0.13, 0.47, 0.77)
GREEN = (0.10, 0.62, 0.46)
ORANGE = (0.93, 0.62, 0.10)
PURPLE = (0.60, 0.38, 0.70)
GRAY = (0.66, 0.68, 0.71)
DARK = (0.20, 0.22, 0.26)

Color = Sequence[float] | torch.Tensor  # r, g, b in 0..1, or (..., 3)
Values = float | Sequence[float] | torch.Tensor  # a number, or values that broadcast to the rows


@dataclasses.dataclass(frozen=True)
class Scene:
    """Shapes to draw in each of `W` worlds.

    Raises:
        ValueError: `shapes`, `bounds` or `agents` have another shape or dtype than documented.
    """

    shapes: torch.Tensor
    """Rows (W, M, 10) float32 of `warp_kernels.drawing.rasterizer`, painted in order."""
    bounds: Sequence[float] | torch.Tensor
    """Bounds x_min, y_min, x_max, y_max of the arena [world units], for all worlds or as a (W, 4) tensor."""
    margin: float = 0.04
    """Margin around the arena, as a fraction of its longer side."""
    background: Sequence[float] = (0.985, 0.985, 0.98)
    """Color of the arena."""
    surround: Sequence[float] = (0.925, 0.93, 0.935)
    """Color outside the arena."""
    border: Sequence[float] | None = (0.74, 0.76, 0.79)
    """Color of the thin line around the arena; None draws none."""
    agents: torch.Tensor | None = None
    """Shape of each agent, (W, A, 10) float32, with alpha 0 for invisible agents; None if agents have no position.
    These shapes are not painted: visible ones: expected a value in `shapes` too."""
    ground: int = 0
    """Number of first `shapes` that are painted below the trails."""

    def __post_init__(self) -> None:
        shapes = self.shapes
        if shapes.ndim != 3 or shapes.shape[2] != rasterizer.SHAPE_SIZE or shapes.dtype != torch.float32:
            raise ValueError(
                f"shapes: expected (W, M, {rasterizer.SHAPE_SIZE}) float32, got {tuple(shapes.shape)} {shapes.dtype}"
            )
        agents = self.agents
        if agents is not None and (
            agents.ndim != 3 or agents.shape[::2] != shapes.shape[::2] or agents.dtype != shapes.dtype
        ):
            expected = f"({shapes.shape[0]}, A, {rasterizer.SHAPE_SIZE}) float32"
            raise ValueError(f"agents: expected {expected}, got {tuple(agents.shape)} {agents.dtype}")
        size = torch.as_tensor(self.bounds).shape
        if tuple(size) not in ((4,), (shapes.shape[0], 4)):
            raise ValueError(f"bounds: expected 4 numbers or a ({shapes.shape[0]}, 4) tensor, got {tuple(size)}")

    def __len__(self) -> int:
        return self.shapes.shape[0]

    @property
    def places(self) -> torch.Tensor | None:
        """Position and radius of every agent, (W, A, 3) float32 x, y and radius [world units].

        All three are NaN for invisible agents: they have left the game, or have no position, as the players of a board
        game. The result is None if the scene has no agents.
        """
        if self.agents is None:
            return None
        around = self.agents[..., 3:5].abs().amax(-1, keepdim=True)
        visible = self.agents[..., 9:] > 0.0
        return torch.cat([self.agents[..., 1:3], around], -1).masked_fill(~visible, torch.nan)


def _rows(
    kind: int, centers: torch.Tensor, half: Values, line_width: Values, color: Color, alpha: Values
) -> torch.Tensor:
    """Return shape rows (W, N, 10); `half` broadcasts to (W, N, 2), `color` to (W, N, 3), other values to (W, N)."""

    def column(value: Values | int, width: int | None = None) -> torch.Tensor:
        value = torch.as_tensor(value, dtype=torch.float32, device=centers.device)
        return value.expand(*centers.shape[:2], width) if width else value.expand(centers.shape[:2]).unsqueeze(-1)

    parts = (
        column(kind),
        centers.float(),
        column(half, 2),
        column(line_width),
        column(color, 3),
        column(alpha),
    )
    return torch.cat(parts, dim=-1)


def circles(
    centers: torch.Tensor, radius: Values, color: Color, alpha: Values = 1.0, line_width: Values = 0.0
) -> torch.Tensor:
    """Return filled circles, or their outlines if a line width is given.

    Args:
        centers: Positions (W, N, 2) [world units].
        radius: Number or tensor that broadcasts to (W, N) [world units].
        color: Color r, g, b in 0..1, or a tensor that broadcasts to (W, N, 3).
        alpha: Opacity in 0..1, broadcasts to (W, N); a bool tensor such as `alive` hides the shapes that are False.
        line_width: Width of the outline, centered on the edge [world units]; 0 fills the shape.

    Returns:
        Shape rows, (W, N, 10) float32 on the device of `centers`.
    """
    half = torch.as_tensor(radius, dtype=torch.float32, device=centers.device).unsqueeze(-1)
    return _rows(rasterizer.CIRCLE, centers, half, line_width, color, alpha)


def rings(centers: torch.Tensor, radius: Values, color: Color, line_width: Values, alpha: Values = 1.0) -> torch.Tensor:
    """Return outlines of circles; arguments and result as for `circles`."""
    return circles(centers, radius, color, alpha, line_width)


def boxes(
    centers: torch.Tensor, half_size: Values, color: Color, alpha: Values = 1.0, line_width: Values = 0.0
) -> torch.Tensor:
    """Return axis-aligned boxes, or their outlines if a line width is given; other arguments as for `circles`.

    `half_size` is half the width and height, a number or a tensor that broadcasts to (W, N, 2) [world units].
    """
    return _rows(rasterizer.BOX, centers, half_size, line_width, color, alpha)


def lines(
    starts: torch.Tensor, ends: torch.Tensor, line_width: Values, color: Color, alpha: Values = 1.0
) -> torch.Tensor:
    """Return lines with round ends between points (W, N, 2) [world units]; other arguments as for `circles`."""
    return _rows(rasterizer.LINE, 0.5 * (starts + ends), 0.5 * (ends - starts), line_width, color, alpha)


def join(*shapes: torch.Tensor) -> torch.Tensor:
    """Concatenate shape rows (W or 1, M, 10), painted in this order; rows of a single world are repeated."""
    worlds = max(block.shape[0] for block in shapes)
    return torch.cat([block.expand(worlds, -1, -1) for block in shapes], dim=1)


def rasterize(scene: Scene, size: int | tuple[int, int] = 256) -> torch.Tensor:
    """Rasterize a scene in one kernel launch on the device of its shapes.

    The y axis points up. Pixels are square: an arena of other proportions is centered in the frame.

    Args:
        scene: Worlds to paint.
        size: Side of a square frame, or (height, width) [pixels].

    Returns:
        Frames (W, height, width, 3) uint8.

    Raises:
        ConfigError: The size is below 1 pixel.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ConfigError(f"size: expected at least 1 pixel, got {size!r}")
    worlds, device = len(scene), scene.shapes.device
    frames = torch.empty((worlds, height, width, 3), dtype=torch.uint8, device=device)
    if worlds == 0:
        return frames

    bounds = torch.as_tensor(scene.bounds, dtype=torch.float32, device=device).expand(worlds, 4)
    center = 0.5 * (bounds[:, :2] + bounds[:, 2:])
    sides = (bounds[:, 2:] - bounds[:, :2]).clamp(min=1e-6)
    extent = sides + 2.0 * scene.margin * sides.amax(dim=1, keepdim=True)
    scale = (torch.tensor([width, height], device=device) / extent).amin(dim=1, keepdim=True)
    view = torch.cat([center, scale], dim=1)

    arena = boxes(center[:, None], 0.5 * sides[:, None], scene.background)
    border = arena[:, :0]
    if scene.border is not None:
        line = max(1.0, min(height, width) / 200.0) / scale
        border = boxes(center[:, None], 0.5 * sides[:, None], scene.border, line_width=line)
    shapes = join(arena, border, scene.shapes.detach())

    start()
    # On a GPU a thread paints one pixel. On a CPU it paints a whole frame and skips pixels far from each shape.
    block = (1, 1) if device.type == "cuda" else (height, width)
    with current_device_kept(device):
        with building, loading(rasterizer.paint, wp.device_from_torch(device)):  # the first launch compiles
            command: Any = wp.launch(
                rasterizer.paint,
                dim=(worlds, height // block[0], width // block[1]),
                inputs=[
                    warp_array(shapes, name="shapes"),
                    warp_array(view, dtype=wp.vec3),
                    wp.vec3(*scene.surround),
                    wp.vec2i(*block),
                ],
                outputs=[warp_array(frames, wp.vec3ub, "frames")],
                device=wp.device_from_torch(device),
                record_cmd=True,
            )
        command.launch(warp_stream(device))
    return frames


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
