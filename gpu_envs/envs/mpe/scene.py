"""Pictures of MPE: discs, places to go to and words, by a camera that backs away until all are seen, as mpe2's does."""

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Colour, Scene

VIEW = 1.2
"""Half the side of a picture [m]: the arena's half, 1 m, and a margin."""
GAP = 0.075
"""Between two letters in a picture [m]."""


class Discs(NamedTuple):
    """Some entities of a picture."""

    rows: slice
    """Of ``pos``."""
    size: str | float
    """Radius [m], or name of the constant that holds it."""
    colour: "Colour"
    """It broadcasts to (W, rows, 3)."""
    alpha: float = 1.0
    """Opacity in 0..1."""
    target: bool = False
    """A ring around a dot, for places to go to, instead of a disc."""
    ringed: torch.Tensor | None = None
    """(W, rows) bool: which have a wide orange ring around them."""


class Word(NamedTuple):
    """What an agent says: a bubble above it, with a place per letter that is the darker the louder it is."""

    row: int
    """Of ``pos``; its disc is in the picture too."""
    said: torch.Tensor
    """(W, L) loudness in [0, 1]."""


def scene(core: "Core", envs: torch.Tensor, *parts: Discs | Word) -> "Scene":
    """Scene of some worlds.

    With ``config.dynamic_rescaling`` discs shrink as the camera backs away; without, they keep their size.

    Args:
        core: The core.
        envs: (W,) int64, the worlds.
        *parts: In the order of painting. The first rows of ``pos`` are the agents'.
    """
    from gpu_envs.rendering import DARK, Scene, boxes, circles, join

    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    radii, colours = pos.new_zeros(pos.shape[:2]), pos.new_zeros((*pos.shape[:2], 3))
    for part in parts:
        if isinstance(part, Discs):
            radii[:, part.rows] = params[part.size][:, None] if isinstance(part.size, str) else part.size
            colours[:, part.rows] = torch.as_tensor(part.colour, dtype=torch.float32, device=pos.device)
    far, keep = pos.abs().amax(2), not core.config.dynamic_rescaling
    wide = far / (1.0 - 1.04 * radii / VIEW).clamp(min=0.1) if keep else far + radii  # with discs that keep their size
    half = (1.04 * wide.amax(1)).clamp(min=VIEW)  # (W,) half the side of what is seen [m]
    zoom = (half / VIEW)[:, None]  # of lengths that stay as they are in the picture
    if keep:
        radii = radii * zoom
    middle = pos.new_zeros((len(pos), 1, 2))
    shapes = [  # an outline as wide as the picture, around the arena, and the arena's border
        boxes(middle, 1.0 + half[:, None, None], Scene.surround, line_width=2.0 * half[:, None]),
        boxes(middle, 1.0, Scene.border or DARK, line_width=0.012 * zoom),
    ]
    for part in parts:
        if isinstance(part, Word):
            row = slice(part.row, part.row + 1)
            shapes.append(_word(pos[:, row], radii[:, row], part.said, zoom, half))
        else:
            shapes.append(_discs(pos[:, part.rows], radii[:, part.rows], part, zoom))
    bounds = torch.stack([-half, -half, half, half], dim=1)
    agents = circles(pos, radii, colours)[:, : core.num_agents]
    return Scene(join(*shapes), bounds, margin=0.0, border=None, agents=agents, ground=2)


def _discs(pos: torch.Tensor, radii: torch.Tensor, part: Discs, zoom: torch.Tensor) -> torch.Tensor:
    """Discs with a thin dark edge, or targets."""
    from gpu_envs.rendering import DARK, ORANGE, Scene, circles, join, rings

    if not part.target:
        edge = rings(pos, radii, DARK, torch.minimum(0.01 * zoom, 0.12 * radii), 0.6 * part.alpha)
        if part.ringed is not None:
            edge = join(edge, rings(pos, radii + 0.035 * zoom, ORANGE, 0.035 * zoom, part.ringed))
        return join(circles(pos, radii, part.colour, part.alpha), edge)
    line = 0.35 * radii
    return join(
        circles(pos, radii, Scene.background, part.alpha),
        rings(pos, radii - 0.5 * line, part.colour, line, part.alpha),
        circles(pos, 0.3 * radii, part.colour, part.alpha),
    )


def touched(core: "Core", envs: torch.Tensor, prey: slice, hunters: slice, sizes: tuple[str, str]) -> torch.Tensor:
    """Which prey is in touch with a hunter: (W, rows) bool; ``sizes`` name the constants that are their radii."""
    pos, params = core.world_state["pos"][envs], core.get_params(envs)
    reach = (params[sizes[0]] + params[sizes[1]])[:, None, None]
    return ((pos[:, prey, None] - pos[:, None, hunters]).norm(dim=-1) < reach).any(-1)


def _word(
    pos: torch.Tensor, radius: torch.Tensor, said: torch.Tensor, zoom: torch.Tensor, half: torch.Tensor
) -> torch.Tensor:
    """A bubble above a disc, inside the picture."""
    from gpu_envs.rendering import boxes, join

    limit = half[:, None, None]
    size = torch.tensor([0.5 * GAP * (said.shape[1] + 0.4), 0.055], device=said.device) * zoom[:, None]  # (W, 1, 2)
    above = torch.stack([torch.zeros_like(radius), radius], dim=-1)
    centre = pos + above + size * torch.tensor([0.0, 1.6], device=said.device)
    centre = torch.minimum(torch.maximum(centre, size - limit), limit - size)
    bubble = boxes(centre, size, (1.0, 1.0, 1.0))
    edge = boxes(centre, size, (0.55, 0.57, 0.6), line_width=0.01 * zoom)
    return join(bubble, edge, letters(centre, said, zoom))


def letters(
    centre: torch.Tensor, said: torch.Tensor, zoom: torch.Tensor, colours: "Colour | None" = None
) -> torch.Tensor:
    """A row of dots, one per letter, as opaque as it is loud.

    Args:
        centre: (W, 1, 2) [m].
        said: (W, L) loudness in [0, 1].
        zoom: (W, 1), of the dots' size.
        colours: (L, 3); None: dark.
    """
    from gpu_envs.rendering import DARK, circles, join, rings

    count = said.shape[1]
    along = (torch.arange(count, device=said.device) - 0.5 * (count - 1)) * GAP * zoom  # (W, L)
    places = centre + torch.stack([along, torch.zeros_like(along)], dim=-1)
    colour = DARK if colours is None else colours
    marks = rings(places, 0.025 * zoom, (0.6, 0.62, 0.65), 0.007 * zoom)
    return join(marks, circles(places, 0.03 * zoom, colour, said))
