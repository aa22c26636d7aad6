"""Ranks of playing cards as strokes: J, Q, K, and the numbers below them."""

import functools
import itertools
import math

import torch

from gpu_envs.envs.games.seven_segment import digit_strokes
from gpu_envs.rendering.scene import Color, Values, lines

__all__ = ["RANKS", "rank_strokes"]

RANKS = ("2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
"""Ranks in ascending order; the highest card of a deck is a king."""

_Point = tuple[float, float]
_Stroke = tuple[_Point, _Point]


def rank_strokes(
    position: _Point, card: torch.Tensor, deck: int, height: float, color: Color, alpha: Values = 1.0
) -> torch.Tensor:
    """Return the rank of a card as shape rows (W, S, 10).

    Args:
        position: Center of the rank [world units].
        card: Index of the card in the deck, 0 is the lowest; (W,).
        deck: Number of ranks of the deck, at most 12.
        height: Height of a letter [world units].
        color: Color, broadcasts to (W, 1, 3).
        alpha: Opacity, broadcasts to (W, 1).
    """
    ends, lit = (table.to(card.device) for table in _table())
    rank = card.long() + len(RANKS) - deck
    points = torch.tensor(position, device=card.device) + height * ends[rank]  # (W, S, 2, 2)
    return lines(points[:, :, 0], points[:, :, 1], 0.13 * height, color, lit[rank] * torch.as_tensor(alpha))


@functools.cache
def _table() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the strokes of all ranks, (R, S, 2, 2), and which of them a rank has, (R, S)."""
    strokes = [_letter(rank) for rank in RANKS]
    longest = max(map(len, strokes))
    ends = torch.tensor([[*letter, *[((0.0, 0.0), (0.0, 0.0))] * (longest - len(letter))] for letter in strokes])
    return ends, torch.tensor([[float(index < len(letter)) for index in range(longest)] for letter in strokes])


def _letter(rank: str) -> list[_Stroke]:
    """Return the strokes of a rank of height 1 around (0, 0)."""
    if rank == "J":
        return [((-0.05, 0.5), (0.27, 0.5)), *_joined([(0.17, 0.5), *_arc((-0.07, -0.26), 0.24, 0.24, 0.0, -165.0, 6)])]
    if rank == "Q":
        return [*_joined(_arc((0.0, 0.0), 0.31, 0.5, 0.0, 360.0, 16)), ((0.07, -0.2), (0.33, -0.52))]
    if rank == "K":
        return [((-0.25, 0.5), (-0.25, -0.5)), ((0.27, 0.5), (-0.25, -0.08)), ((-0.08, 0.11), (0.29, -0.5))]
    places = (-0.65, 0.15) if rank == "10" else (0.0,)  # the strokes of a 1 are on its right side
    return [
        ((x0 + left, y0), (x1 + left, y1))
        for left, digit in zip(places, rank, strict=True)
        for (x0, y0), (x1, y1) in digit_strokes(digit)
    ]


def _arc(center: _Point, width: float, height: float, start: float, stop: float, parts: int) -> list[_Point]:
    """Return points of an ellipse with these half axes between two angles [degrees]."""
    angles = (math.radians(start + (stop - start) * part / parts) for part in range(parts + 1))
    return [(center[0] + width * math.cos(angle), center[1] + height * math.sin(angle)) for angle in angles]


def _joined(points: list[_Point]) -> list[_Stroke]:
    """Return the strokes that connect points."""
    return list(itertools.pairwise(points))
