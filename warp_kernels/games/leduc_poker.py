"""LeducPoker: one card each and one on the table, two rounds of betting. OpenSpiel 2.0.2's leduc_poker, two players.

Six cards, two of each rank: card // 2 is the rank. A raise is 2 chips in the first round and 4 in the second, and
there are two a round. A pair with the table wins, else the higher rank; equal ranks share.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games import cards
from warp_kernels.rules import Rules, world_phase

# Actions, as OpenSpiel numbers them.
FOLD = wp.constant(0)
CALL = wp.constant(1)
RAISE = wp.constant(2)

CARDS = wp.constant(6)  # of the deck: three ranks in two suits
PUBLIC = wp.constant(2)  # place of the public card in State.card, behind the players'
MAX_RAISES = wp.constant(2)  # of a round
STORY = wp.constant(8)  # bits of a round's story: two for each of call, raise, raise, call
PAIR = wp.constant(3)  # beats every rank

OBSERVATION_WIDTH = 2 + 6 + 6 + 2 * 8
"""Oneself, own card, public card, what every action was."""


@wp.struct
class Params:
    """Constants of a world."""

    ante: int  # what both pay into the pot at the start [chips]
    first_raise: int  # what a raise adds in the first round [chips]
    second_raise: int  # and in the second [chips]


@wp.struct
class State:
    """E worlds, two players."""

    card: wp.array2d(dtype=int)  # (E, 3) 0 to 5: one a player, then the public one, face down in the first round
    chips: wp.array2d(dtype=int)  # (E, 2) what a player has paid into the pot [chips]
    round: wp.array(dtype=int)  # (E,) 0 or 1
    taken: wp.array(dtype=int)  # (E,) actions taken in this round
    raised: wp.array(dtype=int)  # (E,) raises in this round
    story: wp.array2d(dtype=int)  # (E, 2) by round: bit 2 k where its action k was a call, bit 2 k + 1 where a raise
    mover: wp.array(dtype=int)  # (E,) who is on the move


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func
    def strength(card: int, public: int) -> int:
        return wp.where(card // 2 == public // 2, PAIR, card // 2)

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """The mover folds, calls or raises; perhaps the round or the game is over. Writes everything but cards."""
        mover = state.mover[env]
        other = 1 - mover
        now = state.round[env]
        taken = state.taken[env]
        choice = int(io.choice[env, mover, 0])
        folds = choice == FOLD
        raises = choice == RAISE
        closes = choice == CALL and taken > 0  # an answer ends the round
        # random play takes every branch at random: the fewer the quicker
        more = wp.where(raises, wp.where(now == 0, params.first_raise, params.second_raise), 0)
        state.chips[env, mover] = wp.where(folds, state.chips[env, mover], state.chips[env, other] + more)
        state.story[env, now] = state.story[env, now] | (choice << (2 * taken))
        state.round[env] = wp.where(closes, 1, now)
        state.taken[env] = wp.where(closes, 0, taken + 1)
        state.raised[env] = wp.where(closes, 0, state.raised[env] + int(raises))
        state.mover[env] = wp.where(closes, 0, other)
        if folds or (closes and now == 1):
            public = state.card[env, PUBLIC]
            lead = strength(state.card[env, mover], public) - strength(state.card[env, other], public)
            sign = wp.where(folds or lead < 0, -1, wp.where(lead > 0, 1, 0))
            # the winner gains what the loser has paid; all have paid alike when the cards are shown
            gain = float(sign * state.chips[env, mover])
            io.reward[env, mover] = gain
            io.reward[env, other] = -gain
            for agent in range(2):
                io.terminated[env, agent] = True

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Folding where there is something to pay, calling always, raising twice a round."""
        io.to_move[env, agent] = state.mover[env] == agent
        io.action_mask[env, agent, FOLD] = state.raised[env] > 0  # the mover never has the last raise
        io.action_mask[env, agent, CALL] = True
        io.action_mask[env, agent, RAISE] = state.raised[env] < MAX_RAISES

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Oneself, own card, the public card once it is shown, every action so far, all one-hot."""
        own = state.card[env, agent]
        public = wp.where(state.round[env] == 1, state.card[env, PUBLIC], -1)
        for player in range(2):
            io.obs[env, agent, player] = float(player == agent)
        for card in range(CARDS):
            io.obs[env, agent, 2 + card] = float(card == own)
            io.obs[env, agent, 8 + card] = float(card == public)
        for number in range(2):
            story = state.story[env, number]
            for index in range(STORY):
                io.obs[env, agent, 14 + STORY * number + index] = float((story >> index) & 1)

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        """A foul costs what folding would."""
        return state.chips[env, agent]

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Three different cards; both pay the ante; player 0 begins."""
        word = philox.bits(rng, 0, philox.RESET, 0)
        deck = wp.uint64(cards.FULL_DECK)
        for place in range(3):
            at = philox.below(word[place], CARDS - place)
            state.card[env, place] = cards.card_at(deck, at)
            deck = cards.without(deck, at, CARDS - place)
        for player in range(2):
            state.chips[env, player] = params.ante
            state.story[env, player] = 0
        state.round[env] = 0
        state.taken[env] = 0
        state.raised[env] = 0
        state.mover[env] = 0

    return Rules(
        key="leduc_poker",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(world_phase(act),),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        stake=stake,
        num_choices=3,
        max_unroll=8,
    )
