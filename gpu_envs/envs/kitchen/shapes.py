"""Shapes for scenes of kitchens: ingredients, plates, terrain, pots and chefs."""

import torch

from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, ORANGE, RED, Color, Pen, join, lines

BROTH = (0.91, 0.66, 0.27)
"""Color of soups."""
CREAM = (0.98, 0.90, 0.68)
"""Color of cut onions."""
PIECE_EDGE = (0.66, 0.46, 0.14)
"""Color of outlines of ingredients."""
SLOTS = ((-0.13, 0.0), (0.13, 0.0), (0.0, 0.17), (0.0, -0.17))
"""Positions of the ingredients in a soup."""
EDGE = (0.45, 0.31, 0.19)
"""Color of edges of wood."""
_TILE, _WOOD, _TOP = (0.93, 0.90, 0.84), (0.62, 0.44, 0.28), (0.74, 0.56, 0.38)
_IRON = (0.26, 0.28, 0.32)
_SKIN, _SKIN_EDGE = (0.95, 0.78, 0.60), (0.55, 0.38, 0.25)
_ONION, _ONION_EDGE, _ONION_SKIN = (0.95, 0.70, 0.33), (0.42, 0.23, 0.07), (0.72, 0.42, 0.13)
_WINDOW = (0.62, 0.80, 0.66)
_COATS = (BLUE, (0.18, 0.58, 0.34), ORANGE, (0.55, 0.36, 0.66))
HEAP = ((-0.16, 0.13), (0.16, 0.13), (0.0, -0.13))
"""Positions of the ingredients in a crate."""


def onion(pen: Pen) -> list[torch.Tensor]:
    """Return brown bulbs with roots, a pointed neck, and two curved lines of their skin, (W, N, 10) each."""
    sides = (-1.0, 1.0)
    return [
        *[pen.line((0.0, -0.15), (0.06 * side, -0.27), 0.03, _ONION_EDGE) for side in sides],
        *[pen.disc(0.05 * side, -0.02, 0.2, _ONION_EDGE) for side in sides],
        *[pen.line((0.1 * side, 0.13), (0.0, 0.27), 0.07, _ONION_EDGE) for side in sides],
        *[pen.disc(0.05 * side, -0.02, 0.175, _ONION) for side in sides],
        *[pen.line((0.06 * side, 0.11), (0.0, 0.22), 0.07, _ONION) for side in sides],
        *[pen.line((0.02 * side, 0.16), (0.1 * side, 0.0), 0.03, _ONION_SKIN) for side in sides],
        *[pen.line((0.1 * side, 0.0), (0.05 * side, -0.15), 0.03, _ONION_SKIN) for side in sides],
    ]


def tomato(pen: Pen) -> list[torch.Tensor]:
    """Return red fruits with leaves, (W, N, 10) each."""
    return [
        pen.disc(0.0, 0.0, 0.21, RED),
        pen.line((-0.09, 0.19), (0.0, 0.14), 0.05, GREEN),
        pen.line((0.09, 0.19), (0.0, 0.14), 0.05, GREEN),
        pen.line((0.0, 0.26), (0.0, 0.14), 0.04, GREEN),
        pen.disc(-0.07, 0.05, 0.05, (0.97, 0.55, 0.47)),
    ]


def plate(pen: Pen) -> list[torch.Tensor]:
    """Return empty plates, (W, N, 10) each."""
    return [
        pen.disc(0.0, 0.0, 0.27, PAPER),
        pen.ring(0.0, 0.0, 0.27, GRAY, 0.03),
        pen.ring(0.0, 0.0, 0.17, GRAY, 0.02),
    ]


def solid(pen: Pen) -> list[torch.Tensor]:
    """Return wooden blocks, the ground of everything but the floor, (W, N, 10) each."""
    return [pen.box(0.0, 0.0, (0.5, 0.5), EDGE), pen.box(0.0, 0.0, (0.47, 0.47), _TOP)]


def floor(pen: Pen) -> torch.Tensor:
    """Return floor tiles, (W, N, 10)."""
    return pen.box(0.0, 0.0, (0.49, 0.49), _TILE)


def crate(pen: Pen) -> list[torch.Tensor]:
    """Return empty crates, (W, N, 10) each."""
    return [pen.box(0.0, 0.0, half, color) for half, color in (((0.4, 0.4), EDGE), ((0.34, 0.34), _WOOD))]


def plates(pen: Pen) -> list[torch.Tensor]:
    """Return piles of plates, (W, N, 10) each."""
    return [shape for up in (-0.1, -0.03, 0.04) for shape in plate(Pen(pen.at(0.0, up), pen.visible, 1.3))]


def window(pen: Pen) -> list[torch.Tensor]:
    """Return green serving windows with a bell, (W, N, 10) each."""
    return [
        pen.box(0.0, 0.0, (0.46, 0.46), _WINDOW),
        *[pen.line((right, -0.4), (right, 0.4), 0.05, PAPER) for right in (-0.3, 0.0, 0.3)],
        pen.line((-0.22, -0.14), (0.22, -0.14), 0.09, DARK),
        pen.disc(0.0, -0.06, 0.19, (0.98, 0.78, 0.25)),
        pen.ring(0.0, -0.06, 0.19, EDGE),
        pen.box(0.0, -0.2, (0.24, 0.05), DARK),
        pen.disc(0.0, 0.17, 0.05, DARK),
    ]


def pots(
    centers: torch.Tensor,
    soup: list[torch.Tensor],
    full: torch.Tensor,
    left: torch.Tensor,
    ready: torch.Tensor,
    longest: int,
) -> torch.Tensor:
    """Return pots on stoves; a soup that cooks shows the steps left, a ready one steams.

    Args:
        centers: Positions (W, N, 2).
        soup: Shapes of the ingredients in the pots.
        full: The pot has ingredients, (W, N) bool.
        left: Steps until the soup is ready, (W, N); 0 where none cooks.
        ready: The soup is ready, (W, N) bool.
        longest: Largest number of steps.
    """
    every, broth, cooks = Pen(centers), Pen(centers, full), left > 0
    hot, badge, steam = Pen(centers, cooks | ready), Pen(centers, cooks), Pen(centers, ready)
    clouds = [(-0.14, 0.02), (0.0, 0.06), (0.14, 0.02)]
    return join(
        every.box(0.0, 0.0, (0.46, 0.46), (0.50, 0.52, 0.55)),
        hot.disc(0.0, 0.0, 0.45, (0.93, 0.45, 0.20)),
        every.line((-0.44, 0.0), (0.44, 0.0), 0.12, _IRON),
        every.disc(0.0, 0.0, 0.38, _IRON),
        every.disc(0.0, 0.0, 0.31, (0.42, 0.44, 0.48)),
        broth.disc(0.0, 0.0, 0.31, BROTH),
        *soup,
        badge.disc(0.24, -0.26, 0.19, PAPER),
        badge.ring(0.24, -0.26, 0.19, RED),
        numbers(badge.at(0.24, -0.26), left, 0.26, 0.2, DARK, cooks.float(), largest=longest),
        *[
            steam.line((right, up + 0.16 * part), (right + bend, up + 0.16 * part + 0.16), 0.05, PAPER)
            for right, up in clouds
            for part, bend in ((0, 0.06), (1, -0.06))
        ],
    )


def coats(count: int, device: torch.device) -> torch.Tensor:
    """Return the colors of chefs, (count, 3)."""
    return torch.tensor([_COATS[index % len(_COATS)] for index in range(count)], device=device)


def hands(centers: torch.Tensor) -> torch.Tensor:
    """Return the positions of what chefs hold, (W, N, 2)."""
    return centers + torch.tensor([0.0, -0.24], device=centers.device)


def chefs(
    centers: torch.Tensor, facing: torch.Tensor, holds: torch.Tensor, carried: torch.Tensor
) -> list[torch.Tensor]:
    """Return upright chefs with their hats, and what they hold before them; eyes and a mark show where they look.

    Args:
        centers: Positions (W, N, 2).
        facing: Orientations (W, N): 0 up, 1 down, 2 right, 3 left.
        holds: Chefs that hold something, (W, N) bool.
        carried: Shapes of what they hold.
    """
    device = centers.device
    ahead = torch.tensor([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]], device=device)[facing]
    side = torch.stack([-ahead[..., 1], ahead[..., 0]], -1)
    colors = coats(centers.shape[1], device)
    chef, holder = Pen(centers), Pen(centers, holds)
    eyes = Pen(centers + torch.tensor([0.06, 0.0], device=device) * ahead, ahead[..., 1] < 0.5)
    tip = centers + 0.56 * ahead

    def puffs(more: float, color: Color) -> list[torch.Tensor]:
        """Return the top of a hat."""
        return [chef.disc(right, up, 0.09 + more, color) for right, up in ((-0.11, 0.34), (0.11, 0.34), (0.0, 0.38))]

    return [
        chef.line((-0.13, -0.25), (0.13, -0.25), 0.35, DARK),
        chef.line((-0.13, -0.25), (0.13, -0.25), 0.3, colors),
        chef.disc(0.0, 0.1, 0.165, _SKIN_EDGE),
        chef.disc(0.0, 0.1, 0.145, _SKIN),
        *[eyes.disc(right, 0.1, 0.028, DARK) for right in (-0.06, 0.06)],
        *puffs(0.025, GRAY),
        chef.box(0.0, 0.25, (0.155, 0.085), GRAY),
        *puffs(0.0, PAPER),
        chef.box(0.0, 0.26, (0.13, 0.08), PAPER),
        chef.box(0.0, 0.19, (0.13, 0.025), colors),
        *[holder.line((sign * 0.24, -0.2), (sign * 0.16, -0.25), 0.11, colors) for sign in (-1.0, 1.0)],
        carried,
        *[holder.disc(sign * 0.17, -0.26, 0.055, _SKIN) for sign in (-1.0, 1.0)],
        *[lines(tip, tip - 0.09 * ahead + sign * 0.09 * side, 0.05, DARK) for sign in (-1.0, 1.0)],
    ]
