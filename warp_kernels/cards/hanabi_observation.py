"""Canonical encoding of Hanabi: observations and the global state, all of whose columns are 0 or 1.

The sections and their order are those of the Hanabi Learning Environment. A step writes only the parts of a row that
have changed, see :mod:`warp_kernels.cards.binary_rows`.
"""

from typing import Any

import warp as wp

from warp_kernels.cards.binary_rows import Writer, append, finisher, num_words
from warp_kernels.cards.hanabi_sizes import Sizes
from warp_kernels.episode import IO

__all__ = ["observation"]


def observation(params: type, state: type, sizes: Sizes, observe_knowledge: bool) -> tuple[Any, Any, Any]:
    """Build the observation of an agent, the function that makes it write everything, and the global state.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct, see :class:`warp_kernels.cards.hanabi.State`.
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
    words = num_words(width)
    finish, finish_state = finisher(width), finisher(state_width)
    every_card, card_bits = wp.constant(wp.uint64(cards)), wp.constant(wp.uint64(sizes.card_knowledge))
    color_bits, deck_bits = wp.constant(wp.uint64(per_color)), wp.constant(wp.uint64(whole_deck))
    row_bytes, memory_bytes = wp.constant(wp.uint64(4 * width)), wp.constant(wp.uint64(8 * words))
    state_bytes = wp.constant(wp.uint64(4 * state_width))

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
    def hand(writer: Writer, state: State, env: int, player: int):
        """Append the cards of a player."""
        slot = int(0)
        while slot < hand_size:
            card = state.hand[env, player, slot]
            writer = add(writer, wp.where(card >= 0, 1 << wp.max(card, 0), 0), cards)
            slot += 1
        return writer

    @wp.func(inline=True)
    def missing(writer: Writer, state: State, env: int, viewer: int):
        """Append which players have no full hand, the viewer first."""
        bits = int(0)
        offset = int(0)
        while offset < players:
            empty = state.hand[env, (viewer + offset) % players, hand_size - 1] < 0
            bits = bits | (int(empty) << offset)
            offset += 1
        return add(writer, bits, players)

    @wp.func(inline=True)
    def board(writer: Writer, state: State, env: int):
        """Append cards left in the deck, fireworks, tokens and discards."""
        writer = thermometer(writer, whole_deck - state.dealt[env], drawn)
        bits = int(0)
        color = int(0)
        while color < colors:
            bits = bits | ((1 << state.fireworks[env, color]) >> 1) << (color * ranks)
            color += 1
        writer = add(writer, bits, cards)
        writer = thermometer(writer, state.information[env], tokens)
        writer = thermometer(writer, state.lives[env], lives)
        gone = wp.uint64(0)
        color = int(colors - 1)
        while color >= 0:
            gone = (gone << color_bits) | wp.uint64(state.discards[env, color])
            color -= 1
        return append(writer, gone, deck_bits)

    @wp.func(inline=True)
    def last(writer: Writer, state: State, env: int, viewer: int):
        """Append the last action, with seats from the viewer."""
        actor = state.last_player[env]
        choice = state.last_action[env]
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
        shown = 1 << (value + wp.where(by_rank, colors, 0))
        place = 1 << wp.where(plays, choice - hand_size, choice)
        shown = wp.where(gives, shown, 0)
        first = (1 << seat) | (kind << players) | (wp.where(gives, target, 0) << (players + 4))
        matches = wp.where(gives, state.last_hinted[env], place << hand_size)
        card = wp.where(gives, 0, 1 << wp.max(state.last_card[env], 0))
        result = wp.where(plays and not gives, state.last_result[env], 0)
        if actor < 0:
            first = int(0)
            shown = int(0)
            matches = int(0)
            card = int(0)
            result = int(0)
        writer = add(writer, first | (shown << (2 * players + 4)), 2 * players + 4 + hinted)
        writer = add(writer, matches, 2 * hand_size)
        return add(writer, card | (result << cards), cards + 2)

    @wp.func(inline=True)
    def knowledge(writer: Writer, state: State, env: int, player: int):
        """Append the possible cards of every place of a hand, and its hinted color and rank."""
        slot = int(0)
        while slot < hand_size:
            known = wp.uint64(state.plausible[env, player, slot])
            known = known | (wp.uint64(state.revealed[env, player, slot]) << every_card)
            held = state.hand[env, player, slot] >= 0
            writer = append(writer, wp.where(held, known, wp.uint64(0)), card_bits)
            slot += 1
        return writer

    # ---------------------------------------------------------------- rows

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the hands of the others, full hands, board, discards, last action and knowledge; own seat first."""
        row = wp.uint64(env * players + agent)
        writer = Writer()
        writer.row = io.obs.ptr + row * row_bytes
        writer.seen = state.seen.ptr + row * memory_bytes
        writer.is_blank = state.is_blank[env, agent]
        state.is_blank[env, agent] = 0
        offset = int(1)
        while offset < players:
            writer = hand(writer, state, env, (agent + offset) % players)
            offset += 1
        writer = missing(writer, state, env, agent)
        writer = board(writer, state, env)
        writer = last(writer, state, env, agent)
        if wp.static(observe_knowledge):
            offset = int(0)
            while offset < players:
                writer = knowledge(writer, state, env, (agent + offset) % players)
                offset += 1
        finish(writer)

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
            player = int(0)
            while player < players:
                writer = hand(writer, state, env, player)
                player += 1
            writer = missing(writer, state, env, 0)
            writer = board(writer, state, env)
            writer = last(writer, state, env, 0)
            player = int(0)
            while player < players:
                writer = knowledge(writer, state, env, player)
                player += 1
            writer = add(writer, 1 << state.mover[env], players)
            finish_state(writer)

    return observe, forget, global_state
