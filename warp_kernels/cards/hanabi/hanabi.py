"""Hanabi: players see the cards of the others, not their own, and build fireworks together. Rules of Bauza's game.

Behavior, numbers of actions and observations follow the Hanabi Learning Environment 0.0.4 (Bard et al., "The
Hanabi challenge: a new frontier for AI research", 2020) and of OpenSpiel 2.0.2's hanabi.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.cards.hanabi.binary_rows import num_words
from warp_kernels.cards.hanabi.observation import observation
from warp_kernels.cards.hanabi.sizes import Sizes
from warp_kernels.episode import IO
from warp_kernels.framework.dense_arrays import dense_state
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    """Environment parameters."""

    random_start_player: int  # 1: a random player starts, 0: player 0
    keep_score: int  # 1: the score is kept when the last life token is lost, 0: it becomes 0


@wp.struct
class State:
    """State of E worlds: P players with hands of H cards, D cards in the deck, C colors of R ranks."""

    deck: wp.array2d(dtype=int)  # (E, D) cards in the order in which they are dealt: color * R + rank
    dealt: wp.array(dtype=int)  # (E,) number of cards dealt
    hand: wp.array3d(dtype=int)  # (E, P, H) cards, oldest first; -1: none
    plausible: wp.array3d(dtype=int)  # (E, P, H) bit n: the hints allow card n in this place
    revealed: wp.array3d(dtype=int)  # (E, P, H) bit c: the color c was hinted, bit C + r: the rank r was hinted
    fireworks: wp.array2d(dtype=int)  # (E, C) number of cards played
    discards: wp.array2d(dtype=int)  # (E, C) a bit per card of a color, lowest rank first: it is discarded
    information: wp.array(dtype=int)  # (E,) information tokens
    lives: wp.array(dtype=int)  # (E,) life tokens
    turns: wp.array(dtype=int)  # (E,) turns left, counted once the deck is empty
    mover: wp.array(dtype=int)  # (E,) player to act
    last_player: wp.array(dtype=int)  # (E,) player of the last action; -1: none yet
    last_action: wp.array(dtype=int)  # (E,) the last action
    last_card: wp.array(dtype=int)  # (E,) card that the last action played or discarded; -1: none
    last_hinted: wp.array(dtype=int)  # (E,) bit h: the last action, a hint, matches the card in place h
    last_result: wp.array(dtype=int)  # (E,) of the last play or discard: 1 if it scored, plus 2 if it returned a token
    seen: wp.array3d(dtype=wp.uint64)  # (E, P, ceil(D / 64)) last observation as a string of bits
    is_blank: wp.array2d(dtype=int)  # (E, P) 1: the player's next observation is written in full


@cache
def rules(sizes: Sizes, observe_knowledge: bool, seer: bool) -> Rules:
    """Build the rules.

    Args:
        sizes: Sizes of the game.
        observe_knowledge: Observe the knowledge of cards.
        seer: Knowledge has the identity of every card from the start, as if all its hints were given.
    """
    players, colors, ranks, hand_size, cards = (
        sizes.players, sizes.colors, sizes.ranks, sizes.hand_size, sizes.cards,
    )  # fmt: skip
    whole_deck, most_tokens, most_lives = sizes.deck, sizes.information_tokens, sizes.life_tokens
    color_hints = (players - 1) * colors
    num_actions = sizes.actions
    every_card = (1 << cards) - 1
    one_color = (1 << ranks) - 1  # cards of color 0
    one_rank = sum(1 << (color * ranks) for color in range(colors))  # cards of rank 0
    observe, forget, global_state = observation(Params, State, sizes, observe_knowledge)

    @wp.func(inline=True)
    def deal(state: State, env: int, player: int, slot: int):
        """Put the next card of the deck into a place; an empty deck leaves it empty."""
        at = state.dealt[env]
        card = int(-1)
        if at < whole_deck:
            card = state.deck[env, at]
            state.dealt[env] = at + 1
        plausible = int(every_card)
        revealed = int(0)
        if wp.static(seer):
            if card >= 0:
                plausible = 1 << card
                revealed = (1 << (card // ranks)) | (1 << (colors + card % ranks))
        state.hand[env, player, slot] = card
        state.plausible[env, player, slot] = plausible
        state.revealed[env, player, slot] = revealed

    @wp.func(inline=True)
    def discard(state: State, env: int, color: int, rank: int):
        """Set the first free bit of a card's copies; copies are 3, 2, ..., 2, 1."""
        first = wp.where(rank == 0, 0, 2 * rank + 1)
        copies = wp.where(rank == 0, 3, wp.where(rank == ranks - 1, 1, 2))
        gone = state.discards[env, color]
        free = int(1) << first
        for _copy in range(2):
            free = wp.where((gone & free) != 0, free << 1, free)
        if free < (1 << (first + copies)):
            state.discards[env, color] = gone | free

    @wp.func(inline=True)
    def hint(state: State, env: int, mover: int, number: int):
        """Reveal a color or rank of another player's cards; return which places match."""
        by_rank = number >= color_hints
        values = wp.where(by_rank, ranks, colors)
        number = wp.where(by_rank, number - color_hints, number)
        offset = number // values
        value = number - offset * values
        target = (mover + 1 + offset) % players
        match = wp.where(by_rank, one_rank << value, one_color << (value * ranks))
        bit = wp.where(by_rank, colors + value, value)
        places = int(0)
        slot = int(0)
        while slot < hand_size:
            card = state.hand[env, target, slot]
            if card >= 0:
                hit = (match >> card) & 1
                allowed = wp.where(hit == 1, match, every_card & ~match)
                state.plausible[env, target, slot] = state.plausible[env, target, slot] & allowed
                state.revealed[env, target, slot] = state.revealed[env, target, slot] | (hit << bit)
                places = places | (hit << slot)
            slot += 1
        return places

    @wp.func(inline=True)
    def total(state: State, env: int):
        """Return the number of cards in the fireworks."""
        score = int(0)
        for color in range(colors):
            score += state.fireworks[env, color]
        return score

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Discard, play or hint, draw a card, reward the change of the score; write all fields except the deck."""
        mover = state.mover[env]
        choice = int(io.choice[env, mover, 0])
        previous = total(state, env)
        score = int(previous)
        lives = int(state.lives[env])
        turns = state.turns[env] - int(state.dealt[env] >= whole_deck)
        last_card = int(-1)
        places = int(0)
        result = int(0)
        tokens = state.information[env]
        gives = choice >= 2 * hand_size
        if gives:
            places = hint(state, env, mover, choice - 2 * hand_size)
            tokens -= 1
        else:
            plays = choice >= hand_size
            position = wp.where(plays, choice - hand_size, choice)
            last_card = wp.max(state.hand[env, mover, position], 0)
            color = last_card // ranks
            rank = last_card - color * ranks
            scores = plays and rank == state.fireworks[env, color]
            returns = (not plays) or (scores and rank == ranks - 1)
            returned = int(returns and tokens < most_tokens)
            tokens += returned
            if scores:
                state.fireworks[env, color] = rank + 1
                score += 1
            else:
                discard(state, env, color, rank)
                lives -= int(plays)
            result = int(scores) + 2 * returned
            slot = int(position)
            while slot < hand_size - 1:
                state.hand[env, mover, slot] = state.hand[env, mover, slot + 1]
                state.plausible[env, mover, slot] = state.plausible[env, mover, slot + 1]
                state.revealed[env, mover, slot] = state.revealed[env, mover, slot + 1]
                slot += 1
        over = lives <= 0 or score >= cards or turns <= 0
        if not gives:
            if over:  # the original deals no card after the end
                state.hand[env, mover, hand_size - 1] = -1
            else:
                deal(state, env, mover, hand_size - 1)
        state.information[env] = wp.max(tokens, 0)
        state.lives[env] = wp.max(lives, 0)
        state.turns[env] = wp.max(turns, 0)
        state.mover[env] = (mover + 1) % players
        state.last_player[env] = mover
        state.last_action[env] = choice
        state.last_card[env] = last_card
        state.last_hinted[env] = places
        state.last_result[env] = result
        gain = float(score - previous)
        if lives <= 0 and params.keep_score == 0:
            gain = -float(previous)
        for agent in range(players):
            io.reward[env, agent] = gain
            io.terminated[env, agent] = over

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark legal actions: discards below the most tokens, plays, and with a token hints that match a card."""
        moves = state.mover[env] == agent
        io.to_move[env, agent] = moves
        if moves:
            tokens = state.information[env]
            slot = int(0)
            while slot < hand_size:
                has_card = state.hand[env, agent, slot] >= 0
                io.action_mask[env, agent, slot] = has_card and tokens < most_tokens
                io.action_mask[env, agent, hand_size + slot] = has_card
                slot += 1
            offset = int(0)
            while offset < players - 1:
                target = (agent + 1 + offset) % players
                cards = int(0)
                slot = int(0)
                while slot < hand_size:
                    card = state.hand[env, target, slot]
                    if card >= 0 and tokens > 0:
                        cards = cards | (1 << card)
                    slot += 1
                start = 2 * hand_size + offset * colors
                value = int(0)
                while value < colors:
                    io.action_mask[env, agent, start + value] = ((cards >> (value * ranks)) & one_color) != 0
                    value += 1
                start = 2 * hand_size + color_hints + offset * ranks
                value = int(0)
                while value < ranks:
                    io.action_mask[env, agent, start + value] = ((cards >> value) & one_rank) != 0
                    value += 1
                offset += 1

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        """Return the loss of all players by an illegal action: the score, as with the last life token."""
        return wp.where(params.keep_score == 0, total(state, env), 0)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Shuffle the deck and deal the hands, player 0 first."""
        card = int(0)
        at = int(0)
        while card < cards:
            rank = card % ranks
            copies = wp.where(rank == 0, 3, wp.where(rank == ranks - 1, 1, 2))
            while copies > 0:
                state.deck[env, at] = card
                at += 1
                copies -= 1
            card += 1
        left = int(whole_deck)
        draw = int(0)
        while left > 1:
            word = philox.bits(rng, 0, philox.RESET, draw)
            for index in range(4):
                if left > 1:
                    other = philox.below(word[index], left)
                    left -= 1
                    drawn_card = state.deck[env, left]
                    state.deck[env, left] = state.deck[env, other]
                    state.deck[env, other] = drawn_card
            draw += 1
        state.dealt[env] = 0
        player = int(0)
        while player < players:
            slot = int(0)
            while slot < hand_size:
                deal(state, env, player, slot)
                slot += 1
            player += 1
        for color in range(colors):
            state.fireworks[env, color] = 0
            state.discards[env, color] = 0
        state.information[env] = most_tokens
        state.lives[env] = most_lives
        state.turns[env] = players
        starts = philox.below(philox.bits(rng, 1, philox.RESET, 0)[0], players)
        state.mover[env] = wp.where(params.random_start_player == 1, starts, 0)
        state.last_player[env] = -1
        state.last_action[env] = 0
        state.last_card[env] = -1
        state.last_hinted[env] = 0
        state.last_result[env] = 0

    hands = dict.fromkeys(("hand", "plausible", "revealed"), (players, hand_size))
    per_color = dict.fromkeys(("fireworks", "discards"), (colors,))
    words = num_words(sizes.observation(observe_knowledge))
    tails = hands | per_color | {"deck": (whole_deck,), "seen": (players, words), "is_blank": (players,)}
    return Rules(
        key=f"hanabi {sizes} {observe_knowledge} {seer}",
        params=Params,
        state=State,
        num_agents=players,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                act,
                reads="deck dealt hand plausible revealed fireworks discards information lives turns mover io.choice",
                writes=(
                    "dealt hand plausible revealed fireworks discards information lives turns mover last_player "
                    "last_action last_card last_hinted last_result io.reward io.terminated"
                ),
            ),
        ),
        observe=observe,
        forget=forget,
        legal=legal,
        reset=reset,
        global_state=global_state,
        relayout=dense_state(State, tails),
        masked=True,
        turn_based=True,
        stake=stake,
        shared_stake=True,
        num_choices=num_actions,
        max_unroll=1,  # longer code compiles slowly and runs no faster
    )
