"""What the host files of MPE's talking scenarios share: pictures that show what is said."""

from typing import TYPE_CHECKING

import torch

from gpu_envs.mpe.common import VIEW

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from gpu_envs.rendering import Colour, Scene

GAP = 0.075
"""Between two letters in a picture [m]."""


class Camera:
    """Pictures of discs and words, by a camera that backs away until all discs are seen, as mpe2's does.

    With ``config.dynamic_rescaling`` discs shrink as it backs away; without, they keep their size in the picture.

    Args:
        core: The core; its State has ``pos`` (E, N) [m].
        envs: (W,) int64, the worlds.
        radii: (N,) or (W, N) [m].
    """

    def __init__(self, core: "Core", envs: torch.Tensor, radii: torch.Tensor) -> None:
        self.pos = core.world_state["pos"][envs]
        radii = radii.to(self.pos.device).expand(self.pos.shape[:2])
        reach = (self.pos.abs().amax(2) + radii).amax(1)
        self.half = (1.04 * reach).clamp(min=VIEW)  # (W,) half the side of what is seen [m]
        self.zoom = (self.half / VIEW)[:, None]  # of lengths that stay as they are in the picture
        self.radii = radii if core.config.dynamic_rescaling else radii * self.zoom

    def discs(self, rows: slice, colour: "Colour", alpha: float = 1.0) -> torch.Tensor:
        """Discs with a thin dark edge; the colour broadcasts to (W, rows, 3)."""
        from gpu_envs.rendering import DARK, circles, join, rings

        pos, radii = self.pos[:, rows], self.radii[:, rows]
        return join(circles(pos, radii, colour, alpha), rings(pos, radii, DARK, 0.01 * self.zoom, 0.6 * alpha))

    def words(self, row: int, said: torch.Tensor) -> torch.Tensor:
        """A bubble above a disc, with a place per letter that is the darker the louder it is: said (W, L)."""
        from gpu_envs.rendering import boxes, join

        letters, zoom, limit = said.shape[1], self.zoom, self.half[:, None, None]
        size = torch.tensor([0.5 * GAP * (letters + 0.4), 0.055], device=said.device) * zoom[:, None]  # (W, 1, 2)
        above = torch.stack([torch.zeros_like(self.radii[:, row]), self.radii[:, row]], dim=-1)[:, None]
        centre = self.pos[:, row : row + 1] + above + size * torch.tensor([0.0, 1.6], device=said.device)
        centre = torch.minimum(torch.maximum(centre, size - limit), limit - size)  # inside the picture
        bubble = boxes(centre, size, (1.0, 1.0, 1.0))
        edge = boxes(centre, size, (0.55, 0.57, 0.6), line_width=0.01 * zoom)
        return join(bubble, edge, letters_at(centre, said, zoom))

    def scene(self, *shapes: torch.Tensor) -> "Scene":
        """The picture of shapes in the arena, painted in order."""
        from gpu_envs.rendering import Scene, boxes, join

        middle = self.pos.new_zeros((len(self.pos), 1, 2))
        border = boxes(middle, 1.0, Scene.border or (), line_width=0.012 * self.zoom)
        arena = join(boxes(middle, 1.0, Scene.background), border)
        bounds = torch.stack([-self.half, -self.half, self.half, self.half], dim=1)
        return Scene(join(arena, *shapes), bounds, margin=0.0, background=Scene.surround, border=None)


def letters_at(centre: torch.Tensor, said: torch.Tensor, zoom: torch.Tensor, colours: "Colour | None" = None):
    """A row of dots, one per letter, as opaque as it is loud.

    Args:
        centre: (W, 1, 2) [m].
        said: (W, L) loudness in [0, 1].
        zoom: (W, 1), of the dots' size.
        colours: (L, 3); None: dark.
    """
    from gpu_envs.rendering import DARK, circles, join, rings

    letters = said.shape[1]
    along = (torch.arange(letters, device=said.device) - 0.5 * (letters - 1)) * GAP * zoom  # (W, L)
    places = centre + torch.stack([along, torch.zeros_like(along)], dim=-1)
    colour = DARK if colours is None else colours
    marks = rings(places, 0.025 * zoom, (0.6, 0.62, 0.65), 0.007 * zoom)
    return join(marks, circles(places, 0.03 * zoom, colour, said))
