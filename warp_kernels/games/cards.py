"""Deck of up to 16 cards in one integer, a hexadecimal digit per card, for dealing without an array."""

import warp as wp

FULL_DECK: wp.uint64 = wp.constant(wp.uint64(0xFEDCBA9876543210))
"""Deck with card n at position n."""


@wp.func
def card_at(deck: wp.uint64, index: int) -> int:
    """Return the card at a position of the deck."""
    return int((deck >> wp.uint64(4 * index)) & wp.uint64(15))


@wp.func
def without(deck: wp.uint64, index: int, size: int) -> wp.uint64:
    """Return the deck after dealing the card at a position: the last of ``size`` cards moves there."""
    swap = wp.uint64(card_at(deck, index) ^ card_at(deck, size - 1))
    return deck ^ (swap << wp.uint64(4 * index))
