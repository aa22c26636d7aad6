"""Shapes of dice and of bids on dice."""

import torch

from gpu_envs.envs.games.scene import EDGE, GOLD, PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.rendering.scene import DARK, RED, boxes, circles, join, lines

__all__ = ["MOST_PIPS", "bid_of", "die"]

MOST_PIPS = 6
"""Most pips on a face; dice with more faces show numbers."""
_GRID = 0.27  # distance of pips from the center of a die of width 1
_PIPS = {1: "c", 2: "ab", 3: "acb", 4: "abde", 5: "abcde", 6: "abdefg"}  # places of the pips of a face
_PLACES = {
    **{"a": (-1.0, 1.0), "b": (1.0, -1.0), "c": (0.0, 0.0), "d": (1.0, 1.0), "e": (-1.0, -1.0)},
    **{"f": (-1.0, 0.0), "g": (1.0, 0.0)},
}


def die(
    position: tuple[float, float], face: torch.Tensor, sides: int, is_visible: torch.Tensor, size: float = 1.0
) -> torch.Tensor:
    """Return a die; the highest face is wild and golden.

    Args:
        position: Center of the die [world units].
        face: Face from 1, (W,).
        sides: Number of faces of the die.
        is_visible: Whether the die is visible, (W,) bool.
        size: Width of the die [world units].
    """
    center = torch.tensor(position, device=face.device).expand(len(face), 1, 2)
    wild, plain = (torch.tensor(color, device=face.device) for color in (GOLD, PAPER))
    color = torch.where((face == sides)[:, None], wild, plain)[:, None]
    visible = is_visible[:, None].float()
    parts = [boxes(center, 0.5 * size, EDGE, alpha=visible), boxes(center, 0.46 * size, color, alpha=visible)]
    if sides > MOST_PIPS:
        return join(*parts, numbers(center, face[:, None], 0.7 * size, 0.5 * size, DARK, visible, largest=sides))
    for name, (x, y) in _PLACES.items():
        faces = [number for number, pips in _PIPS.items() if name in pips]
        has_pip = torch.isin(face, torch.tensor(faces, device=face.device))[:, None]
        at = center + _GRID * size * torch.tensor([x, y], device=face.device)
        parts.append(circles(at, 0.095 * size, DARK, alpha=visible * has_pip))
    return join(*parts)


def bid_of(
    quantity: torch.Tensor, count: int, face: torch.Tensor, sides: int, has_bid: torch.Tensor, called: torch.Tensor
) -> torch.Tensor:
    """Return a bid in the middle of the table: quantity, times sign and face, with a red frame after the call.

    Args:
        quantity: Quantity of dice, (W,).
        count: Number of all dice.
        face: Face from 1, (W,).
        sides: Number of faces of a die.
        has_bid: Whether there is a bid, (W,) bool.
        called: Whether the bid was called a lie, (W,) bool.
    """
    device, visible = face.device, has_bid[:, None].float()
    center = torch.zeros((len(face), 1, 2), device=device)
    left, middle = torch.tensor([-0.6, 0.0], device=device), torch.tensor([-0.08, 0.0], device=device)
    arm, other = torch.tensor([0.1, 0.1], device=device), torch.tensor([0.1, -0.1], device=device)
    return join(
        numbers(center + left, quantity[:, None], 0.6, 0.62, PAPER, visible, largest=count),
        lines(center + middle - arm, center + middle + arm, 0.06, PAPER, visible),
        lines(center + middle - other, center + middle + other, 0.06, PAPER, visible),
        die((0.55, 0.0), face, sides, has_bid, 0.78),
        boxes(center, torch.tensor([1.1, 0.54]), RED, alpha=called[:, None], line_width=0.1),
    )
