"""A deck of up to 16 cards in one number, a hexadecimal digit a card, for dealing without an array."""

import warp as wp

FULL_DECK = wp.constant(wp.uint64(0xFEDCBA9876543210))
"""Card n in place n."""


@wp.func
def card_at(deck: wp.uint64, place: int) -> int:
    """The card in a place of the deck."""
    return int((deck >> wp.uint64(4 * place)) & wp.uint64(15))


@wp.func
def without(deck: wp.uint64, place: int, size: int) -> wp.uint64:
    """The deck after the card in a place has been dealt: the last of ``size`` cards takes its place."""
    swap = wp.uint64(card_at(deck, place) ^ card_at(deck, size - 1))
    return deck ^ (swap << wp.uint64(4 * place))
