"""Pictures of worlds: a scene is data, and a Warp kernel paints it.

An environment turns the state of the worlds to be shown into shapes with torch operations, and joins them:

    agents = circles(positions, 0.4, BLUE, alpha=alive)
    scene = Scene(join(boxes(obstacles, 0.5, GREY), agents), bounds=(0.0, 0.0, 20.0, 20.0), agents=agents)
    frames = rasterise(scene, size=256)  # (W, 256, 256, 3) uint8

`W` counts the worlds shown and `N` the shapes of one helper call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import warp as wp

from gpu_envs.errors import ConfigError
from warp_kernels import building, raster, start

# Colours that stay apart for colour-blind readers too (after Okabe and Ito, 2008), as r, g, b in 0..1.
RED = (0.84, 0.24, 0.16)
BLUE = (0.13, 0.47, 0.77)
GREEN = (0.10, 0.62, 0.46)
ORANGE = (0.93, 0.62, 0.10)
PURPLE = (0.60, 0.38, 0.70)
GREY = (0.66, 0.68, 0.71)
DARK = (0.20, 0.22, 0.26)

Colour = Sequence[float] | torch.Tensor  # r, g, b in 0..1, or (..., 3)
Values = float | Sequence[float] | torch.Tensor  # one number, or what broadcasts to rows


@dataclasses.dataclass(frozen=True)
class Scene:
    """What to draw in each of `W` worlds.

    Raises:
        ValueError: if `shapes`, `bounds` or `agents` have another shape or dtype than documented.
    """

    shapes: torch.Tensor
    """(W, M, 10) float32, the rows of `warp_kernels.raster`, painted in order; made by the helpers below."""
    bounds: Sequence[float] | torch.Tensor
    """x_min, y_min, x_max, y_max of the arena [world units], for all worlds or as a (W, 4) tensor."""
    margin: float = 0.04
    """What is shown around the arena, as a fraction of its longer side."""
    background: Sequence[float] = (0.985, 0.985, 0.98)
    """Colour of the arena."""
    surround: Sequence[float] = (0.925, 0.93, 0.935)
    """Colour outside the arena."""
    border: Sequence[float] | None = (0.74, 0.76, 0.79)
    """Colour of the thin line around the arena; None draws none."""
    agents: torch.Tensor | None = None
    """(W, A, 10) float32, the shape that stands for each agent, by row: its body, its card; alpha 0 where it is not to
    be seen. They are not painted, so what is to be seen is among `shapes` too. None: no agent has a place."""
    ground: int = 0
    """How many of the first `shapes` are the ground, upon which trails are painted; the others hide them."""

    def __post_init__(self) -> None:
        shapes = self.shapes
        if shapes.ndim != 3 or shapes.shape[2] != raster.SHAPE_SIZE or shapes.dtype != torch.float32:
            raise ValueError(
                f"shapes: expected (W, M, {raster.SHAPE_SIZE}) float32, got {tuple(shapes.shape)} {shapes.dtype}"
            )
        agents = self.agents
        if agents is not None and (
            agents.ndim != 3 or agents.shape[::2] != shapes.shape[::2] or agents.dtype != shapes.dtype
        ):
            expected = f"({shapes.shape[0]}, A, {raster.SHAPE_SIZE}) float32"
            raise ValueError(f"agents: expected {expected}, got {tuple(agents.shape)} {agents.dtype}")
        size = torch.as_tensor(self.bounds).shape
        if tuple(size) not in ((4,), (shapes.shape[0], 4)):
            raise ValueError(f"bounds: expected 4 numbers or a ({shapes.shape[0]}, 4) tensor, got {tuple(size)}")

    def __len__(self) -> int:
        return self.shapes.shape[0]

    @property
    def places(self) -> torch.Tensor | None:
        """Where every agent is, by row: (W, A, 3) float32 x, y and radius [world units].

        All three are NaN where an agent is not to be seen: it has left the game, or has no place in the picture, as the
        players of a board game. None where the scene tells nothing of agents.
        """
        if self.agents is None:
            return None
        around = self.agents[..., 3:5].abs().amax(-1, keepdim=True)
        seen = self.agents[..., 9:] > 0.0
        return torch.cat([self.agents[..., 1:3], around], -1).masked_fill(~seen, torch.nan)


def _rows(
    kind: int, centres: torch.Tensor, half: Values, line_width: Values, colour: Colour, alpha: Values
) -> torch.Tensor:
    """Shape rows (W, N, 10); `half` broadcasts to (W, N, 2), `colour` to (W, N, 3), the others to (W, N)."""

    def column(value: Values | int, width: int | None = None) -> torch.Tensor:
        value = torch.as_tensor(value, dtype=torch.float32, device=centres.device)
        return value.expand(*centres.shape[:2], width) if width else value.expand(centres.shape[:2]).unsqueeze(-1)

    parts = (
        column(kind),
        centres.float(),
        column(half, 2),
        column(line_width),
        column(colour, 3),
        column(alpha),
    )
    return torch.cat(parts, dim=-1)


def circles(
    centres: torch.Tensor, radius: Values, colour: Colour, alpha: Values = 1.0, line_width: Values = 0.0
) -> torch.Tensor:
    """Filled circles, or with a line width their outlines.

    Args:
        centres: (W, N, 2) [world units].
        radius: a number or a tensor that broadcasts to (W, N) [world units].
        colour: r, g, b in 0..1, or a tensor that broadcasts to (W, N, 3).
        alpha: opacity in 0..1, broadcasts to (W, N); a bool tensor such as `alive` hides where it is False.
        line_width: of the outline, centred on the edge [world units]; 0 fills the shape.

    Returns:
        Shape rows, (W, N, 10) float32 on the device of `centres`.
    """
    half = torch.as_tensor(radius, dtype=torch.float32, device=centres.device).unsqueeze(-1)
    return _rows(raster.CIRCLE, centres, half, line_width, colour, alpha)


def rings(
    centres: torch.Tensor, radius: Values, colour: Colour, line_width: Values, alpha: Values = 1.0
) -> torch.Tensor:
    """Outlines of circles; arguments and result as for `circles`."""
    return circles(centres, radius, colour, alpha, line_width)


def boxes(
    centres: torch.Tensor, half_size: Values, colour: Colour, alpha: Values = 1.0, line_width: Values = 0.0
) -> torch.Tensor:
    """Axis-aligned boxes, or with a line width their outlines; the rest as for `circles`.

    `half_size` is half the width and height, a number or what broadcasts to (W, N, 2) [world units].
    """
    return _rows(raster.BOX, centres, half_size, line_width, colour, alpha)


def lines(
    starts: torch.Tensor, ends: torch.Tensor, line_width: Values, colour: Colour, alpha: Values = 1.0
) -> torch.Tensor:
    """Lines with round ends, from `starts` to `ends`, each (W, N, 2) [world units]; the rest as for `circles`."""
    return _rows(raster.LINE, 0.5 * (starts + ends), 0.5 * (ends - starts), line_width, colour, alpha)


def join(*shapes: torch.Tensor) -> torch.Tensor:
    """Shape rows (W or 1, M, 10) one after another, painted in this order; rows of one world are repeated for all."""
    worlds = max(block.shape[0] for block in shapes)
    return torch.cat([block.expand(worlds, -1, -1) for block in shapes], dim=1)


def rasterise(scene: Scene, size: int | tuple[int, int] = 256) -> torch.Tensor:
    """Paints a scene with one kernel launch, on the device of its shapes.

    The y axis points up. Pixels are square: an arena of other proportions is centred in the frame.

    Args:
        scene: the worlds to paint.
        size: side of a square frame, or (height, width) [pixels].

    Returns:
        frames: (W, height, width, 3) uint8.

    Raises:
        ConfigError: A size below 1 pixel.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ConfigError(f"size: expected at least 1 pixel, got {size!r}")
    worlds, device = len(scene), scene.shapes.device
    frames = torch.empty((worlds, height, width, 3), dtype=torch.uint8, device=device)
    if worlds == 0:
        return frames

    bounds = torch.as_tensor(scene.bounds, dtype=torch.float32, device=device).expand(worlds, 4)
    centre = 0.5 * (bounds[:, :2] + bounds[:, 2:])
    sides = (bounds[:, 2:] - bounds[:, :2]).clamp(min=1e-6)
    shown = sides + 2.0 * scene.margin * sides.amax(dim=1, keepdim=True)
    scale = (torch.tensor([width, height], device=device) / shown).amin(dim=1, keepdim=True)
    view = torch.cat([centre, scale], dim=1)

    arena = boxes(centre[:, None], 0.5 * sides[:, None], scene.background)
    border = arena[:, :0]
    if scene.border is not None:
        line = max(1.0, min(height, width) / 200.0) / scale
        border = boxes(centre[:, None], 0.5 * sides[:, None], scene.border, line_width=line)
    shapes = join(arena, border, scene.shapes.detach())

    start()
    # On a GPU a thread paints a pixel; a CPU takes a whole frame at once and skips what lies far from each shape.
    block = (1, 1) if device.type == "cuda" else (height, width)
    with building:  # the first launch compiles
        command: Any = wp.launch(
            raster.paint,
            dim=(worlds, height // block[0], width // block[1]),
            inputs=[
                wp.from_torch(shapes),
                wp.from_torch(view, dtype=wp.vec3),
                wp.vec3(*scene.surround),
                wp.vec2i(*block),
            ],
            outputs=[wp.from_torch(frames, dtype=wp.vec3ub)],
            device=wp.device_from_torch(device),
            record_cmd=True,
        )
    command.launch(wp.stream_from_torch(torch.cuda.current_stream(device)) if device.type == "cuda" else None)
    return frames
