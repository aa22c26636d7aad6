"""Chance of a game: its random outcomes and their probabilities, with which `league.exact` builds the whole tree."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from numbers import Integral
from typing import Any

from gpu_envs.errors import ConfigError, shown


def _is_int(value: Any, low: int) -> bool:
    return isinstance(value, Integral) and int(value) >= low


def _require(is_valid: bool, name: str, expected: str, value: Any) -> None:
    if not is_valid:
        raise ConfigError(f"chance: {name}: expected {expected}, got {shown(value)}")


def _single_outcome() -> dict[tuple[int, ...], int]:
    return {(): 1}


@dataclass(frozen=True)
class Chance:
    """Random outcomes of a game, all drawn at the reset; a later one is drawn there and hidden until its time."""

    field: str = ""
    """Field of State with the outcome, of any shape (E, ...); "" if nothing is random."""
    count: int = 1
    """Number of outcomes."""
    weights: Callable[[], Mapping[tuple[int, ...], int]] = _single_outcome
    """Function that returns the outcomes, the flat values of the field, with their relative probabilities."""
    histories: int = 0
    """Estimate of the largest number of histories of one length, outcomes included; a tree that is too large is then
    refused before its enumeration, which would find it only after a while. 0: none."""

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            ConfigError: A value has a wrong type, or a number is too low.
        """
        _require(isinstance(self.field, str), "field", "a str", self.field)
        _require(_is_int(self.count, 1), "count", "an int >= 1", self.count)
        _require(callable(self.weights), "weights", "a function that returns a dict", self.weights)
        _require(_is_int(self.histories, 0), "histories", "an int >= 0", self.histories)


NO_CHANCE = Chance()
"""Chance of a game in which nothing is random."""


def deal(field: str, cards: int, dealt: int, histories: int = 0) -> Chance:
    """Return the chance of a deal: every ordered selection of ``dealt`` out of ``cards`` is equally likely.

    Args:
        field: Field of State with the dealt cards in order, (E, dealt), counted from 0.
        cards: Number of cards.
        dealt: Number of dealt cards.
        histories: See :class:`Chance`.

    Raises:
        ConfigError: A value has a wrong type, or more cards are dealt than there are.
    """
    _require(_is_int(cards, 0), "cards", "an int >= 0", cards)
    _require(_is_int(dealt, 0) and dealt <= cards, "dealt", f"an int in [0, {cards}]", dealt)
    return Chance(field, math.perm(cards, dealt), partial(_equal_weights, cards, dealt), histories)


def _equal_weights(cards: int, dealt: int) -> dict[tuple[int, ...], int]:
    return dict.fromkeys(permutations(range(cards), dealt), 1)
