"""Scenes of MPE: discs, targets, figures and messages, with a camera that zooms out to show all discs, as in mpe2."""

from typing import TYPE_CHECKING, NamedTuple

import torch

from gpu_envs.envs.mpe.messages import bubble_center, bubble_size, message

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_envs.definition.environment import WorldView
    from gpu_envs.rendering.pen import Pen
    from gpu_envs.rendering.scene import Color, Scene

__all__ = ["VIEW", "Discs", "Word", "scene", "touched"]

VIEW = 1.2
"""Half the side of a frame [m]: half the arena (1 m) and a margin."""


class Discs(NamedTuple):
    """Entities of a scene."""

    rows: slice
    """Rows of ``pos``."""
    size: str | float
    """Radius [m], or name of its environment parameter."""
    color: "Color"
    """Color, broadcasts to (W, rows, 3)."""
    alpha: float = 1.0
    """Opacity in 0..1."""
    target: bool = False
    """Draw a ring around a dot, for a goal, instead of a disc."""
    ringed: torch.Tensor | None = None
    """Discs with a wide orange ring around them, (W, rows) bool."""
    visible: torch.Tensor | None = None
    """Visible discs, (W, rows) bool; the camera ignores the others. None: all of them."""
    figure: "Callable[[Pen, Color], list[torch.Tensor]] | None" = None
    """Draw these shapes instead of a disc, without a ring; a unit of the pen is the drawn radius."""
    enlarged: float = 1.0
    """Drawn radius, in radii."""


class Word(NamedTuple):
    """Message of an agent: a bubble beside it with a dot per letter, darker for louder letters; it covers no agent."""

    row: int
    """Row of ``pos``; the scene has its disc too."""
    loudness: torch.Tensor
    """Loudness of the letters, (W, L) in [0, 1]."""


def scene(core: "WorldView", envs: torch.Tensor, *parts: Discs | Word | torch.Tensor) -> "Scene":
    """Return the scene of these worlds.

    With ``config.dynamic_rescaling`` discs shrink when the camera zooms out; otherwise they keep their size.

    Args:
        core: Core of the worlds.
        envs: Indices of the worlds, (W,) int64.
        *parts: Parts in the order of painting; a tensor has rows of shapes (W, M, 10). The first rows of ``pos`` are
            the agents.
    """
    from gpu_envs.rendering.scene import DARK, Scene, boxes, circles, join

    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    radii, colors = pos.new_zeros(pos.shape[:2]), pos.new_zeros((*pos.shape[:2], 3))
    for part in parts:
        if isinstance(part, Discs):
            size = params[part.size][:, None] if isinstance(part.size, str) else part.size
            radii[:, part.rows] = part.enlarged * size
            colors[:, part.rows] = torch.as_tensor(part.color, dtype=torch.float32, device=pos.device)
            if part.visible is not None:
                pos = pos.clone()
                pos[:, part.rows] *= part.visible[..., None]
    far, keep = pos.abs().amax(2), not core.config.dynamic_rescaling
    wide = far / (1.0 - 1.04 * radii / VIEW).clamp(min=0.1) if keep else far + radii  # for discs of constant size
    half = (1.04 * wide.amax(1)).clamp(min=VIEW)  # (W,) half the side of the visible area [m]
    zoom = (half / VIEW)[:, None]  # factor of lengths that are constant in the frame
    if keep:
        radii = radii * zoom
    middle = pos.new_zeros((len(pos), 1, 2))
    shapes = [  # a wide outline that covers the outside of the arena, and the border of the arena
        boxes(middle, 1.0 + half[:, None, None], Scene.surround, line_width=2.0 * half[:, None]),
        boxes(middle, 1.0, Scene.border or DARK, line_width=0.012 * zoom),
    ]
    bubbles: list[tuple[torch.Tensor, torch.Tensor]] = []
    for part in parts:
        if isinstance(part, Word):
            row, size = slice(part.row, part.row + 1), bubble_size(part.loudness.shape[1], zoom)
            center = bubble_center(part.row, pos, radii, core.num_agents, size, half, bubbles)
            bubbles.append((center, size))
            shapes.append(message(center, size, pos[:, row], radii[:, row], part.loudness, zoom))
        elif isinstance(part, torch.Tensor):
            shapes.append(part)
        else:
            shapes.append(_discs(pos[:, part.rows], radii[:, part.rows], part, zoom))
    bounds = torch.stack([-half, -half, half, half], dim=1)
    agents = circles(pos, radii, colors)[:, : core.num_agents]
    return Scene(join(*shapes), bounds, margin=0.0, border=None, agents=agents, ground=2)


def _discs(pos: torch.Tensor, radii: torch.Tensor, part: Discs, zoom: torch.Tensor) -> torch.Tensor:
    """Return discs with a thin dark edge, targets, or figures."""
    from gpu_envs.rendering.pen import Pen
    from gpu_envs.rendering.scene import DARK, ORANGE, Scene, circles, join, rings

    if part.figure is not None:
        return join(*part.figure(Pen(pos, part.visible, radii), part.color))
    if not part.target:
        alpha = part.alpha if part.visible is None else part.alpha * part.visible
        edge = rings(pos, radii, DARK, torch.minimum(0.01 * zoom, 0.12 * radii), 0.6 * alpha)
        if part.ringed is not None:
            edge = join(edge, rings(pos, radii + 0.035 * zoom, ORANGE, 0.035 * zoom, part.ringed))
        return join(circles(pos, radii, part.color, alpha), edge)
    line = 0.35 * radii
    return join(
        circles(pos, radii, Scene.background, part.alpha),
        rings(pos, radii - 0.5 * line, part.color, line, part.alpha),
        circles(pos, 0.3 * radii, part.color, part.alpha),
    )


def touched(core: "WorldView", envs: torch.Tensor, prey: slice, hunters: slice, sizes: tuple[str, str]) -> torch.Tensor:
    """Return the prey that touches a hunter, (W, rows) bool; ``sizes`` are the parameter names of both radii."""
    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    reach = (params[sizes[0]] + params[sizes[1]])[:, None, None]
    return ((pos[:, prey, None] - pos[:, None, hunters]).norm(dim=-1) < reach).any(-1)
