"""Scenes of bodies: discs, lines and boxes in the colors of their names."""

from collections.abc import Mapping

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.rendering.palette import PALETTE
from gpu_envs.rendering.scene import DARK, Color, Scene, boxes, circles, join, lines, rings
from warp_kernels.physics2d.bodies import BodyRows, Box, Disc, Line, Number, Physics

VIEW = 1.2
"""Half the side of a frame [m], as in VMAS; more where an agent is farther away."""
EDGE = 0.008
"""Width of the dark edges of bodies [m]."""


def scene(
    core: WorldView,
    envs: torch.Tensor,
    physics: Physics,
    colors: Mapping[str, Color],
    targets: tuple[str, ...] = (),
    visible: Mapping[str, torch.Tensor] | None = None,
    over: tuple[torch.Tensor, ...] = (),
    under: tuple[torch.Tensor, ...] = (),
    view: float = VIEW,
) -> Scene:
    """Return the scene of these worlds: targets, then fixed bodies, moving ones and agents.

    Args:
        core: Core of the worlds.
        envs: Indices of the worlds, (W,) int64.
        physics: Bodies.
        colors: Color by name of bodies, broadcasts to (W, rows, 3).
        targets: Names of discs that are painted as light areas.
        visible: Bodies that are painted by name, (W, rows) bool; all others are.
        over: Rows of shapes that are painted last, (W, M, 10).
        under: Rows of shapes that are painted first, (W, M, 10).
        view: Half the side of the frame [m]; more where an agent is farther away.
    """
    pos = core.world_state["pos"][envs]
    half = pos[:, : physics.agents].abs().amax((1, 2)).clamp(min=view / 1.08) * 1.08
    order = sorted(physics.rows, key=lambda rows: (rows.body.name not in targets, -rows.first))
    shapes = [*under]
    for rows in order:
        is_visible = (visible or {}).get(rows.body.name)
        alpha = torch.ones_like(pos[:, rows.first : rows.end, 0]) if is_visible is None else is_visible.float()
        shapes.append(_bodies(core, envs, rows, colors[rows.body.name], alpha, rows.body.name in targets))
    bounds = torch.stack([-half, -half, half, half], dim=1)
    first = physics.rows[0]
    radius = _size(core, envs, first.body.shape.radius if isinstance(first.body.shape, Disc) else 0.05)
    agents = circles(pos[:, : physics.agents], radius, colors[first.body.name])
    return Scene(join(*shapes, *over), bounds, margin=0.0, agents=agents)


def _size(core: WorldView, envs: torch.Tensor, number: Number) -> torch.Tensor:
    """Return a size that may be a parameter, (W or 1, 1)."""
    value = core.get_params(envs)[number] if isinstance(number, str) else torch.tensor([number])
    return value.to(core.device)[:, None].float()


def _bodies(
    core: WorldView, envs: torch.Tensor, rows: BodyRows, color: Color, alpha: torch.Tensor, is_target: bool
) -> torch.Tensor:
    state, shape = core.world_state, rows.body.shape
    centers = state["pos"][envs][:, rows.first : rows.end]
    if isinstance(shape, Disc):
        radius = _size(core, envs, shape.radius)
        if is_target:
            return join(
                circles(centers, radius, color, 0.3 * alpha), rings(centers, radius - 0.01, color, 0.02, 0.8 * alpha)
            )
        return join(circles(centers, radius, color, alpha), rings(centers, radius, DARK, EDGE, 0.6 * alpha))
    if rows.body.has_angle:
        angle = state["rot"][envs][:, rows.first_angle : rows.first_angle + rows.body.count]
    else:
        angle = torch.full_like(centers[..., 0], rows.body.angle or 0.0)
    along = torch.stack([angle.cos(), angle.sin()], dim=-1)
    if isinstance(shape, Line):
        reach = 0.5 * _size(core, envs, shape.length)[..., None] * along
        return lines(centers - reach, centers + reach, 2.0 * EDGE, color, alpha)
    return _boxes(centers, along, _size(core, envs, shape.length), _size(core, envs, shape.width), color, alpha, shape)


def _boxes(
    centers: torch.Tensor,
    along: torch.Tensor,
    length: torch.Tensor,
    width: torch.Tensor,
    color: Color,
    alpha: torch.Tensor,
    shape: Box,
) -> torch.Tensor:
    """Return boxes with edges; turned ones are filled with stripes."""
    across = torch.stack([-along[..., 1], along[..., 0]], dim=-1)
    reach, side = 0.5 * length[..., None] * along, 0.5 * width[..., None] * across
    corners = [centers + reach + side, centers - reach + side, centers - reach - side, centers + reach - side]
    edges = [lines(corners[i], corners[i - 1], EDGE, DARK, 0.6 * alpha) for i in range(4)]
    if shape.is_hollow:
        return join(*edges)
    if bool((along[..., 1].abs() < 1e-6).all()):
        half = 0.5 * torch.cat([length, width], dim=-1)[:, None]
        return join(boxes(centers, half, color, alpha), *edges)
    count = 8
    stripe = width / count
    shares = [(2.0 * index + 1.0) / count - 1.0 for index in range(count)]
    inset = reach * (1.0 - stripe / length.clamp(min=1e-6))[..., None]
    fill = [lines(centers - inset + s * side, centers + inset + s * side, stripe, color, alpha) for s in shares]
    return join(*fill, *edges)


def distinct_colors(count: int) -> torch.Tensor:
    """Return colors, (count, 3), which repeat after those of the palette."""
    values = [[int(color[i : i + 2], 16) / 255.0 for i in (1, 3, 5)] for color in PALETTE.values()]
    return torch.tensor([values[index % len(values)] for index in range(count)])
