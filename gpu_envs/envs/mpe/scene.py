"""Scenes of MPE: discs, targets, figures and messages, with a camera that zooms out to show all discs, as in mpe2."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from gpu_envs.definition.environment import WorldView
from gpu_envs.rendering.scene import DARK, ORANGE, Color, Pen, Scene, boxes, circles, join, lines, rings

VIEW = 1.2
"""Half the side of a frame [m]: half the arena (1 m) and a margin."""


class Discs(NamedTuple):
    """Entities of a scene."""

    rows: slice
    """Rows of ``pos``."""
    size: str | float
    """Radius [m], or name of its environment parameter."""
    color: Color
    """Color, broadcasts to (W, rows, 3)."""
    alpha: float = 1.0
    """Opacity in 0..1."""
    target: bool = False
    """Draw a ring around a dot, for a goal, instead of a disc."""
    ringed: torch.Tensor | None = None
    """Discs with a wide orange ring around them, (W, rows) bool."""
    visible: torch.Tensor | None = None
    """Visible discs, (W, rows) bool; the camera ignores the others. None: all of them."""
    figure: Callable[[Pen, Color], list[torch.Tensor]] | None = None
    """Draw these shapes instead of a disc, without a ring; a unit of the pen is the drawn radius."""
    enlarged: float = 1.0
    """Drawn radius, in radii."""


class Word(NamedTuple):
    """Message of an agent: a bubble beside it with a dot per letter, darker for louder letters; it covers no agent."""

    row: int
    """Row of ``pos``; the scene has its disc too."""
    loudness: torch.Tensor
    """Loudness of the letters, (W, L) in [0, 1]."""


def scene(core: WorldView, envs: torch.Tensor, *parts: Discs | Word | torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    With ``config.dynamic_rescaling`` discs shrink when the camera zooms out; otherwise they keep their size.

    Args:
        core: Core of the worlds.
        envs: Indices of the worlds, (W,) int64.
        *parts: Parts in the order of painting; a tensor has rows of shapes (W, M, 10). The first rows of ``pos`` are
            the agents.
    """
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


def touched(core: WorldView, envs: torch.Tensor, prey: slice, hunters: slice, sizes: tuple[str, str]) -> torch.Tensor:
    """Return the prey that touches a hunter, (W, rows) bool; ``sizes`` are the parameter names of both radii."""
    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    reach = (params[sizes[0]] + params[sizes[1]])[:, None, None]
    return ((pos[:, prey, None] - pos[:, None, hunters]).norm(dim=-1) < reach).any(-1)


GAP = 0.075
"""Distance between two letters [m]."""
HALF_HEIGHT = 0.055
"""Half the height of a bubble [m]."""
SPACE = 0.6
"""Distance between a disc and its bubble, in half heights of the bubble."""
# Places of a bubble, best first: x in half widths and y in half heights of the bubble. The first number of a pair is
# added to the distance at which disc and bubble touch; 0 is the middle of the disc.
PLACES = (
    (0.0, 1.0),
    (0.0, -1.0),
    (0.8, 1.0),
    (-0.8, 1.0),
    (0.8, -1.0),
    (-0.8, -1.0),
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, 4.0),
    (0.0, -4.0),
    (0.8, 4.0),
    (-0.8, 4.0),
    (0.8, -4.0),
    (-0.8, -4.0),
    (1.0, 2.5),
    (-1.0, 2.5),
    (1.0, -2.5),
    (-1.0, -2.5),
    (0.0, 8.0),
    (0.0, -8.0),
)
ORDER, COVERED_LANDMARK, COVERED = 0.05, 0.25, 100.0
"""Costs of a later place, a covered landmark, and a covered agent or bubble."""


def bubble_size(count: int, zoom: torch.Tensor) -> torch.Tensor:
    """Return half the width and height of a bubble with this number of letters, (W, 1, 2) [m]; zoom is (W, 1)."""
    return torch.tensor([0.5 * GAP * (count + 0.4), HALF_HEIGHT], device=zoom.device) * zoom[:, None]


def bubble_center(
    speaker: int,
    pos: torch.Tensor,
    radii: torch.Tensor,
    agents: int,
    size: torch.Tensor,
    half: torch.Tensor,
    bubbles: list[tuple[torch.Tensor, torch.Tensor]],
) -> torch.Tensor:
    """Return the center of a bubble in the frame, (W, 1, 2) [m]: above the speaker, or at the next best free place.

    Args:
        speaker: Row of the speaker.
        pos: Positions of all discs, (W, N, 2); the first rows are the agents.
        radii: Radii of the discs, (W, N).
        agents: Number of agents, which must stay visible.
        size: Half the size of the bubble, (W, 1, 2).
        half: Half the side of the frame, (W,).
        bubbles: Centers and sizes of other bubbles.
    """
    sides = torch.tensor(PLACES, device=pos.device)
    origin, radius = pos[:, speaker : speaker + 1], radii[:, speaker, None, None]
    away = radius + SPACE * size[..., 1:]  # from the middle of the disc to the edge of the bubble
    touching = (sides.abs() >= 1.0).float()
    offset = sides * size + torch.sign(sides) * touching * away
    limit = half[:, None, None] - 0.15 * size[..., 1:]  # the outline of a bubble is whole
    centers = torch.minimum(torch.maximum(origin + offset, size - limit), limit - size)  # (W, P, 2)
    distance = ((pos[:, None] - centers[:, :, None]).abs() - size[:, None]).clamp(min=0.0).norm(dim=-1)
    hidden = (1.0 - distance / radii[:, None].clamp(min=1e-9)).clamp(min=0.0)  # (W, P, N), 0 is visible
    covered = (hidden > 0.0) + hidden
    cost = COVERED * covered[..., :agents].sum(-1) + COVERED_LANDMARK * covered[..., agents:].sum(-1)
    for center, other in bubbles:
        overlap = ((centers - center).abs() < size + other).all(-1)
        cost = cost + COVERED * overlap
    cost = cost + ORDER * torch.arange(len(sides), device=pos.device)
    best = cost.argmin(1)
    return centers.gather(1, best[:, None, None].expand(-1, 1, 2))


def message(
    center: torch.Tensor,
    size: torch.Tensor,
    origin: torch.Tensor,
    radius: torch.Tensor,
    loudness: torch.Tensor,
    zoom: torch.Tensor,
) -> torch.Tensor:
    """Return a bubble with its letters and a line to the disc of its speaker.

    Args:
        center: Center of the bubble, (W, 1, 2) [m].
        size: Half its size, (W, 1, 2).
        origin: Position of the speaker, (W, 1, 2).
        radius: Radius of the speaker, (W, 1).
        loudness: Loudness (W, L) in [0, 1].
        zoom: Factor of the size of letters, (W, 1).
    """
    color, width = (0.45, 0.50, 0.62), 0.01 * zoom
    nearest = torch.minimum(torch.maximum(origin, center - size), center + size)
    toward = nearest - origin
    start = origin + toward * (radius[..., None] / toward.norm(dim=-1, keepdim=True).clamp(min=1e-9)).clamp(max=1.0)
    return join(
        boxes(center, size, (1.0, 1.0, 1.0)),
        boxes(center, size, color, line_width=width),
        letters(center, loudness, zoom),
        lines(start, nearest, width, color),
    )


def letters(
    center: torch.Tensor, loudness: torch.Tensor, zoom: torch.Tensor, colors: Color | None = None
) -> torch.Tensor:
    """Return a row of dots, one per letter, whose opacity is the loudness.

    Args:
        center: Center of the row (W, 1, 2) [m].
        loudness: Loudness (W, L) in [0, 1].
        zoom: Factor of the size of the dots, (W, 1).
        colors: Colors (L, 3); None is dark.
    """
    count = loudness.shape[1]
    along = (torch.arange(count, device=loudness.device) - 0.5 * (count - 1)) * GAP * zoom  # (W, L)
    places = center + torch.stack([along, torch.zeros_like(along)], dim=-1)
    color = DARK if colors is None else colors
    marks = rings(places, 0.025 * zoom, (0.6, 0.62, 0.65), 0.007 * zoom)
    return join(marks, circles(places, 0.03 * zoom, color, loudness))
