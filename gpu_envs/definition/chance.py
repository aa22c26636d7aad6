"""Chance of a game: its random outcomes and their probabilities, with which `league.exact` builds the whole tree."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations

__all__ = ["NO_CHANCE", "Chance", "deal"]


@dataclass(frozen=True)
class Chance:
    """Random outcomes of a game, all drawn at the reset; a later one is drawn there and hidden until its time."""

    field: str = ""
    """Field of State with the outcome, of any shape (E, ...); "" if nothing is random."""
    count: int = 1
    """Number of outcomes."""
    weights: Callable[[], Mapping[tuple[int, ...], int]] = lambda: {(): 1}
    """Function that returns the outcomes, the flat values of the field, with their relative probabilities."""
    histories: int = 0
    """Estimate of the largest number of histories of one length, outcomes included; a tree that is too large is then
    refused before its enumeration, which would find it only after a while. 0: none."""


NO_CHANCE = Chance()
"""Chance of a game in which nothing is random."""


def deal(field: str, cards: int, dealt: int, histories: int = 0) -> Chance:
    """Return the chance of a deal: every ordered selection of ``dealt`` out of ``cards`` is equally likely.

    Args:
        field: Field of State with the dealt cards in order, (E, dealt), counted from 0.
        cards: Number of cards.
        dealt: Number of dealt cards.
        histories: See :class:`Chance`.
    """

    def weights() -> dict[tuple[int, ...], int]:
        return dict.fromkeys(permutations(range(cards), dealt), 1)

    return Chance(field, math.perm(cards, dealt), weights, histories)
