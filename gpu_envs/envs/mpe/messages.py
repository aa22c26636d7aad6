"""Messages in scenes of MPE: a bubble with a dot per letter, placed so that it covers no agent."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gpu_envs.rendering.scene import Color

__all__ = ["GAP", "bubble_center", "bubble_size", "letters", "message"]

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
    from gpu_envs.rendering.scene import boxes, join, lines

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
    center: torch.Tensor, loudness: torch.Tensor, zoom: torch.Tensor, colors: "Color | None" = None
) -> torch.Tensor:
    """Return a row of dots, one per letter, whose opacity is the loudness.

    Args:
        center: Center of the row (W, 1, 2) [m].
        loudness: Loudness (W, L) in [0, 1].
        zoom: Factor of the size of the dots, (W, 1).
        colors: Colors (L, 3); None is dark.
    """
    from gpu_envs.rendering.scene import DARK, circles, join, rings

    count = loudness.shape[1]
    along = (torch.arange(count, device=loudness.device) - 0.5 * (count - 1)) * GAP * zoom  # (W, L)
    places = center + torch.stack([along, torch.zeros_like(along)], dim=-1)
    color = DARK if colors is None else colors
    marks = rings(places, 0.025 * zoom, (0.6, 0.62, 0.65), 0.007 * zoom)
    return join(marks, circles(places, 0.03 * zoom, color, loudness))
