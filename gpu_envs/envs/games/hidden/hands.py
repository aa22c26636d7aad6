"""Shapes of hands of numbered cards."""

import math

import torch

from gpu_envs.envs.games.scene import BACK, EDGE, GOLD, PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.rendering.scene import DARK, ORANGE, boxes, circles, join

__all__ = ["ACROSS", "ROW", "hand", "points", "rows_of", "single"]

ACROSS = 7
"""Most cards side by side; longer hands have several rows."""

ROW = 1.35
"""Distance of two rows [world units]."""
_HALF = (0.41, 0.6)  # half the width and height of a card
_PALE = 0.22  # opacity of a played card


def rows_of(count: int) -> int:
    """Return the number of rows of a hand."""
    return math.ceil(count / ACROSS)


def hand(
    first: tuple[float, float],
    values: torch.Tensor,
    in_hand: torch.Tensor,
    face_up: torch.Tensor,
    framed: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return cards in rows of up to `ACROSS`, one world unit apart.

    Args:
        first: Center of the first card, the left one of the upper row [world units].
        values: Number on each card, (W, N).
        in_hand: Whether a card is still to be played; played ones are pale, (W, N) bool.
        face_up: Whether a card is face up, (W, N) bool.
        framed: Whether a card has a golden frame, (W, N) bool; None for no frames.
    """
    count, device = values.shape[1], values.device
    slot = torch.arange(count, device=device)
    centers = torch.stack([first[0] + slot % ACROSS, first[1] - ROW * (slot // ACROSS)], -1)
    centers = centers.expand(len(values), -1, -1)
    solid = torch.where(in_hand, 1.0, _PALE)
    half = torch.tensor(_HALF)
    parts = [
        boxes(centers, half + 0.03, EDGE, solid),
        boxes(centers, half, PAPER, solid),
        numbers(centers, values.float(), 0.62, 0.55, DARK, solid * face_up),
        boxes(centers, half - 0.07, BACK, solid * ~face_up),
    ]
    if framed is not None:
        parts.append(boxes(centers, half + 0.12, GOLD, framed, 0.12))
    return join(*parts)


def single(
    position: tuple[float, float], value: torch.Tensor, largest: int, present: torch.Tensor, framed: torch.Tensor
) -> torch.Tensor:
    """Return one card with a number, all (W, 1).

    Args:
        position: Center of the card [world units].
        value: Number on the card.
        largest: Largest number of a card.
        present: Whether there is a card, bool.
        framed: Whether it has a golden frame, bool.
    """
    center = torch.tensor(position, device=value.device).expand(len(value), 1, 2)
    half, visible = torch.tensor(_HALF), present.float()
    return join(
        boxes(center, half + 0.03, EDGE, visible),
        boxes(center, half, PAPER, visible),
        numbers(center, value.float(), 0.62, 0.55, DARK, visible, largest=largest),
        boxes(center, half + 0.12, GOLD, framed, 0.12),
    )


def points(position: tuple[float, float], value: torch.Tensor, largest: int) -> torch.Tensor:
    """Return a chip with the points of a player, (W,), of which there are at most `largest`."""
    center = torch.tensor(position, device=value.device).expand(len(value), 1, 2)
    return join(
        circles(center, 0.58, ORANGE), numbers(center, value[:, None].float(), 0.85, 0.5, PAPER, largest=largest)
    )
