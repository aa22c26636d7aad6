"""Canonical encoding of Hanabi: the sections of an observation and of the global state.

The sections and their order are those of the Hanabi Learning Environment. Every section writes all of its columns:
zeros first, then the ones, where ones are few.
"""

from typing import Any, NamedTuple

import warp as wp

from warp_kernels.cards.hanabi_sizes import Sizes

__all__ = ["Encoding", "encoding"]


class Encoding(NamedTuple):
    """Functions ``f(state, rows, env, row, ...)`` that write sections into a row; rows are (E, ..., width)."""

    hand: Any
    """f(state, rows, env, row, player, column): the cards of a player, one-hot; H * C * R columns."""
    missing: Any
    """f(state, rows, env, row, player, column): 1 if the player has no full hand; one column."""
    public: Any
    """f(state, rows, env, row, viewer, column): board, discards and last action, with seats from the viewer."""
    knowledge: Any
    """f(state, rows, env, row, player, column): knowledge of the cards of a player."""


def encoding(sizes: Sizes, state_type: type) -> Encoding:
    """Build the functions that write sections.

    Args:
        sizes: Sizes of the game.
        state_type: Warp struct of the state of ``warp_kernels/cards/hanabi.py``.
    """
    players, colors, ranks, hand_size, cards = (
        sizes.players, sizes.colors, sizes.ranks, sizes.hand_size, sizes.cards,
    )  # fmt: skip
    whole_deck, drawn, per_color = sizes.deck, sizes.drawn, sizes.per_color
    tokens, lives = sizes.information_tokens, sizes.life_tokens
    last_width, hinted = sizes.last_action, colors + ranks
    color_hints = (players - 1) * colors

    @wp.func(inline=True)
    def clear(rows: wp.array3d(dtype=float), env: int, row: int, column: int, count: int):
        index = int(0)
        while index < count:
            rows[env, row, column + index] = 0.0
            index += 1

    @wp.func(inline=True)
    def thermometer(rows: wp.array3d(dtype=float), env: int, row: int, column: int, value: int, count: int):
        index = int(0)
        while index < count:
            rows[env, row, column + index] = wp.where(index < value, 1.0, 0.0)
            index += 1

    @wp.func(inline=True)
    def bits(rows: wp.array3d(dtype=float), env: int, row: int, column: int, value: int, count: int):
        index = int(0)
        while index < count:
            rows[env, row, column + index] = float((value >> index) & 1)
            index += 1

    @wp.func(inline=True)
    def hand(state: state_type, rows: wp.array3d(dtype=float), env: int, row: int, player: int, column: int):
        clear(rows, env, row, column, hand_size * cards)
        slot = int(0)
        while slot < hand_size:
            card = state.hand[env, player, slot]
            if card >= 0:
                rows[env, row, column + slot * cards + card] = 1.0
            slot += 1

    @wp.func(inline=True)
    def missing(state: state_type, rows: wp.array3d(dtype=float), env: int, row: int, player: int, column: int):
        rows[env, row, column] = wp.where(state.hand[env, player, hand_size - 1] < 0, 1.0, 0.0)

    @wp.func(inline=True)
    def last(state: state_type, rows: wp.array3d(dtype=float), env: int, row: int, viewer: int, column: int):
        """Write the last action, with seats from the viewer."""
        clear(rows, env, row, column, last_width)
        actor = state.last_player[env]
        if actor >= 0:
            seat = (actor - viewer + players) % players
            choice = state.last_action[env]
            rows[env, row, column + seat] = 1.0
            kind = column + players
            target = kind + 4
            place = target + players + hinted + hand_size
            if choice < 2 * hand_size:
                plays = choice >= hand_size
                rows[env, row, kind + wp.where(plays, 0, 1)] = 1.0
                rows[env, row, place + wp.where(plays, choice - hand_size, choice)] = 1.0
                rows[env, row, place + hand_size + wp.max(state.last_card[env], 0)] = 1.0
                if plays:
                    bits(rows, env, row, place + hand_size + cards, state.last_result[env], 2)
            else:
                hint = choice - 2 * hand_size
                by_rank = hint >= color_hints
                values = wp.where(by_rank, ranks, colors)
                hint = wp.where(by_rank, hint - color_hints, hint)
                offset = hint // values
                value = hint - offset * values
                rows[env, row, kind + wp.where(by_rank, 3, 2)] = 1.0
                rows[env, row, target + (seat + 1 + offset) % players] = 1.0
                rows[env, row, target + players + wp.where(by_rank, colors, 0) + value] = 1.0
                bits(rows, env, row, target + players + hinted, state.last_hinted[env], hand_size)

    @wp.func(inline=True)
    def public(state: state_type, rows: wp.array3d(dtype=float), env: int, row: int, viewer: int, column: int):
        thermometer(rows, env, row, column, whole_deck - state.dealt[env], drawn)
        fireworks = column + drawn
        clear(rows, env, row, fireworks, cards)
        color = int(0)
        while color < colors:
            height = state.fireworks[env, color]
            if height > 0:
                rows[env, row, fireworks + color * ranks + height - 1] = 1.0
            color += 1
        thermometer(rows, env, row, fireworks + cards, state.information[env], tokens)
        thermometer(rows, env, row, fireworks + cards + tokens, state.lives[env], lives)
        discards = fireworks + cards + tokens + lives
        color = int(0)
        while color < colors:
            bits(rows, env, row, discards + color * per_color, state.discards[env, color], per_color)
            color += 1
        last(state, rows, env, row, viewer, discards + whole_deck)

    @wp.func(inline=True)
    def knowledge(state: state_type, rows: wp.array3d(dtype=float), env: int, row: int, player: int, column: int):
        start = int(column)
        slot = int(0)
        while slot < hand_size:
            held = state.hand[env, player, slot] >= 0
            bits(rows, env, row, start, wp.where(held, state.plausible[env, player, slot], 0), cards)
            bits(rows, env, row, start + cards, wp.where(held, state.revealed[env, player, slot], 0), hinted)
            start += cards + hinted
            slot += 1

    return Encoding(hand, missing, public, knowledge)
