"""Canonical encoding of Hanabi: observations and the global state, all of whose columns are 0 or 1.

The sections and their order follow the Hanabi Learning Environment. A step writes only the parts of a row that
have changed, see :mod:`warp_kernels.cards.hanabi.binary_rows`.
"""

from typing import Any

import warp as wp

from warp_kernels.cards.hanabi.binary_rows import WRITE_ALL, Writer, append, finisher, num_words
from warp_kernels.cards.hanabi.sizes import Sizes
from warp_kernels.episode import IO


@wp.struct
class HanabiTable:
    """Table of a world: addresses of arrays, and numbers."""

    hand: wp.uint64  # address of the world's (P, H) of State.hand
    plausible: wp.uint64  # address of the world's (P, H)
    revealed: wp.uint64  # address of the world's (P, H)
    fireworks: wp.uint64  # address of the world's (C,)
    discards: wp.uint64  # address of the world's (C,)
    left: int  # number of cards in the deck
    information: int  # information tokens
    lives: int  # life tokens
    last_player: int  # as in State
    last_action: int  # as in State
    last_card: int  # as in State
    last_hinted: int  # as in State
    last_result: int  # as in State


def observation(params: type, state: type, sizes: Sizes, observe_knowledge: bool) -> tuple[Any, Any, Any]:
    """Build the observation of an agent, the function that makes it write everything, and the global state.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct, see :class:`warp_kernels.cards.hanabi.hanabi.State`.
        sizes: Sizes of the game.
        observe_knowledge: Observe the knowledge of cards.
    """
    Params, State = params, state
    players, colors, ranks, hand_size, cards = (
        sizes.players, sizes.colors, sizes.ranks, sizes.hand_size, sizes.cards,
    )  # fmt: skip
    whole_deck, drawn, per_color = sizes.deck, sizes.drawn, sizes.per_color
    tokens, lives = sizes.information_tokens, sizes.life_tokens
    hinted, color_hints = colors + ranks, (players - 1) * colors
    width, state_width = sizes.observation(observe_knowledge), sizes.global_state
    words, knows = num_words(width), int(observe_knowledge)
    finish, finish_state = finisher(width), finisher(state_width)
    every_card, card_bits = wp.constant(wp.uint64(cards)), wp.constant(wp.uint64(sizes.card_knowledge))
    color_bits, deck_bits = wp.constant(wp.uint64(per_color)), wp.constant(wp.uint64(whole_deck))
    hands_bytes, colors_bytes = wp.constant(wp.uint64(4 * players * hand_size)), wp.constant(wp.uint64(4 * colors))
    row_bytes, memory_bytes = wp.constant(wp.uint64(4 * width)), wp.constant(wp.uint64(8 * words))
    state_bytes = wp.constant(wp.uint64(4 * state_width))

    @wp.func(inline=True)
    def table_of(state: State, env: int):
        """Return the table of a world. Passing State to a function that is not inlined would copy all of it."""
        table = HanabiTable()
        hands = wp.uint64(env) * hands_bytes
        table.hand = state.hand.ptr + hands
        table.plausible = state.plausible.ptr + hands
        table.revealed = state.revealed.ptr + hands
        piles = wp.uint64(env) * colors_bytes
        table.fireworks = state.fireworks.ptr + piles
        table.discards = state.discards.ptr + piles
        table.left = whole_deck - state.dealt[env]
        table.information = state.information[env]
        table.lives = state.lives[env]
        table.last_player = state.last_player[env]
        table.last_action = state.last_action[env]
        table.last_card = state.last_card[env]
        table.last_hinted = state.last_hinted[env]
        table.last_result = state.last_result[env]
        return table

    # ---------------------------------------------------------------- sections

    @wp.func(inline=True)
    def add(writer: Writer, bits: int, count: int):
        """Append 1 to 31 bits."""
        return append(writer, wp.uint64(bits), wp.uint64(count))

    @wp.func(inline=True)
    def thermometer(writer: Writer, value: int, count: int):
        """Append ones, then zeros."""
        left = int(count)
        ones = int(value)
        while left > 0:
            part = wp.min(left, 30)
            writer = add(writer, (1 << wp.clamp(ones, 0, part)) - 1, part)
            left -= part
            ones -= part
        return writer

    @wp.func(inline=True)
    def hand(writer: Writer, table: HanabiTable, player: int):
        """Append the cards of a player."""
        hands = wp.array(ptr=table.hand, shape=(players, hand_size), dtype=int)
        slot = int(0)
        while slot < hand_size:
            card = hands[player, slot]
            writer = add(writer, wp.where(card >= 0, 1 << wp.max(card, 0), 0), cards)
            slot += 1
        return writer

    @wp.func(inline=True)
    def missing(writer: Writer, table: HanabiTable, viewer: int):
        """Append which players have no full hand, the viewer first."""
        hands = wp.array(ptr=table.hand, shape=(players, hand_size), dtype=int)
        bits = int(0)
        offset = int(0)
        while offset < players:
            empty = hands[(viewer + offset) % players, hand_size - 1] < 0
            bits = bits | (int(empty) << offset)
            offset += 1
        return add(writer, bits, players)

    @wp.func(inline=True)
    def board(writer: Writer, table: HanabiTable):
        """Append cards left in the deck, fireworks, tokens and discards."""
        fireworks = wp.array(ptr=table.fireworks, shape=(colors,), dtype=int)
        discards = wp.array(ptr=table.discards, shape=(colors,), dtype=int)
        writer = thermometer(writer, table.left, drawn)
        bits = int(0)
        color = int(0)
        while color < colors:
            bits = bits | ((1 << fireworks[color]) >> 1) << (color * ranks)
            color += 1
        writer = add(writer, bits, cards)
        writer = thermometer(writer, table.information, tokens)
        writer = thermometer(writer, table.lives, lives)
        gone = wp.uint64(0)
        color = int(colors - 1)
        while color >= 0:
            gone = (gone << color_bits) | wp.uint64(discards[color])
            color -= 1
        return append(writer, gone, deck_bits)

    @wp.func(inline=True)
    def last(writer: Writer, table: HanabiTable, viewer: int):
        """Append the last action, with seats from the viewer."""
        actor = table.last_player
        choice = table.last_action
        seat = (actor - viewer + players) % players
        hint = wp.max(choice - 2 * hand_size, 0)
        by_rank = hint >= color_hints
        hint = wp.where(by_rank, hint - color_hints, hint)
        offset = wp.where(by_rank, hint // ranks, hint // colors)
        value = hint - offset * wp.where(by_rank, ranks, colors)
        gives = choice >= 2 * hand_size
        plays = choice >= hand_size
        kind = wp.where(gives, wp.where(by_rank, 8, 4), wp.where(plays, 1, 2))
        target = 1 << ((seat + 1 + offset) % players)
        hint_bit = 1 << (value + wp.where(by_rank, colors, 0))
        slot = 1 << wp.where(plays, choice - hand_size, choice)
        hint_bit = wp.where(gives, hint_bit, 0)
        first = (1 << seat) | (kind << players) | (wp.where(gives, target, 0) << (players + 4))
        matches = wp.where(gives, table.last_hinted, slot << hand_size)
        card = wp.where(gives, 0, 1 << wp.max(table.last_card, 0))
        result = wp.where(plays and not gives, table.last_result, 0)
        if actor < 0:
            first = int(0)
            hint_bit = int(0)
            matches = int(0)
            card = int(0)
            result = int(0)
        writer = add(writer, first | (hint_bit << (2 * players + 4)), 2 * players + 4 + hinted)
        writer = add(writer, matches, 2 * hand_size)
        return add(writer, card | (result << cards), cards + 2)

    @wp.func(inline=True)
    def knowledge(writer: Writer, table: HanabiTable, player: int):
        """Append the possible cards of every place of a hand, and its hinted color and rank."""
        hands = wp.array(ptr=table.hand, shape=(players, hand_size), dtype=int)
        plausible = wp.array(ptr=table.plausible, shape=(players, hand_size), dtype=int)
        revealed = wp.array(ptr=table.revealed, shape=(players, hand_size), dtype=int)
        slot = int(0)
        while slot < hand_size:
            bits = wp.uint64(plausible[player, slot])
            bits = bits | (wp.uint64(revealed[player, slot]) << every_card)
            has_card = hands[player, slot] >= 0
            writer = append(writer, wp.where(has_card, bits, wp.uint64(0)), card_bits)
            slot += 1
        return writer

    # ---------------------------------------------------------------- rows

    @wp.func(inline=False)
    def write_row(writer: Writer, table: HanabiTable, viewer: int, first: int, knows: int):
        """Append the hands from seat ``first`` on, full hands, board, last action and knowledge; return the writer."""
        offset = int(first)
        while offset < players:
            writer = hand(writer, table, (viewer + offset) % players)
            offset += 1
        writer = missing(writer, table, viewer)
        writer = board(writer, table)
        writer = last(writer, table, viewer)
        if knows == 1:
            offset = int(0)
            while offset < players:
                writer = knowledge(writer, table, (viewer + offset) % players)
                offset += 1
        return writer

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the hands of the others, full hands, board, discards, last action and knowledge; own seat first."""
        row = wp.uint64(env * players + agent)
        writer = Writer()
        writer.row = io.obs.ptr + row * row_bytes
        writer.address = state.seen.ptr + row * memory_bytes
        writer.mode = state.is_blank[env, agent]
        state.is_blank[env, agent] = 0
        finish(write_row(writer, table_of(state, env), agent, 1, knows))

    @wp.func(inline=True)
    def forget(params: Params, state: State, env: int, agent: int):
        """Let the next observation write everything."""
        state.is_blank[env, agent] = 1

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write all hands, and what all players see from seat 0, then the player to act."""
        if agent == 0:
            writer = Writer()
            writer.row = io.global_state.ptr + wp.uint64(env) * state_bytes
            writer.mode = WRITE_ALL
            writer = write_row(writer, table_of(state, env), 0, 0, 1)
            finish_state(add(writer, 1 << state.mover[env], players))

    return observe, forget, global_state
