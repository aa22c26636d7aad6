"""LeducPoker: one card per player and a public card, two betting rounds. OpenSpiel 2.0.2's leduc_poker, two players.

Six cards, two of each rank: card // 2 is the rank. A raise is 2 chips in the first round and 4 in the second, and
there are at most two per round. A pair with the public card wins, otherwise the higher rank; equal ranks share the pot.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games import cards
from warp_kernels.rules import Rules, world_phase

# Actions, as OpenSpiel numbers them.
FOLD: int = wp.constant(0)
CALL: int = wp.constant(1)
RAISE: int = wp.constant(2)

CARDS: int = wp.constant(6)  # size of the deck: three ranks in two suits
PUBLIC: float = wp.constant(2)  # index of the public card in State.card, after the players' cards
MAX_RAISES: int = wp.constant(2)  # per round
STORY: int = wp.constant(8)  # bits of the actions of a round: two for each of call, raise, raise, call
PAIR: int = wp.constant(3)  # beats every rank

OBSERVATION_WIDTH = 2 + 6 + 6 + 2 * 8
"""Width of an observation: own row, own card, public card, all actions."""


@wp.struct
class Params:
    """Environment parameters."""

    ante: int  # initial payment of both players [chips]
    first_raise: int  # payment of a raise in the first round [chips]
    second_raise: int  # in the second round [chips]


@wp.struct
class State:
    """State of E worlds, two players."""

    card: wp.array2d(dtype=int)  # (E, 3) 0 to 5: one per player, then the public card, face down in the first round
    chips: wp.array2d(dtype=int)  # (E, 2) payments of each player [chips]
    round: wp.array(dtype=int)  # (E,) 0 or 1
    taken: wp.array(dtype=int)  # (E,) actions taken in this round
    raised: wp.array(dtype=int)  # (E,) raises in this round
    story: wp.array2d(dtype=int)  # (E, 2) by round: bit 2 k if action k was a call, bit 2 k + 1 if a raise
    mover: wp.array(dtype=int)  # (E,) player to act


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func
    def strength(card: int, public: int) -> int:
        return wp.where(card // 2 == public // 2, PAIR, card // 2)

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Fold, call or raise, and end the round or the game; write all fields except the cards."""
        mover = state.mover[env]
        other = 1 - mover
        now = state.round[env]
        count = state.taken[env]
        choice = int(io.choice[env, mover, 0])
        folds = choice == FOLD
        raises = choice == RAISE
        closes = choice == CALL and count > 0  # a call after another action ends the round
        # Random rollouts take branches at random: fewer branches are faster.
        more = wp.where(raises, wp.where(now == 0, params.first_raise, params.second_raise), 0)
        state.chips[env, mover] = wp.where(folds, state.chips[env, mover], state.chips[env, other] + more)
        state.story[env, now] = state.story[env, now] | (choice << (2 * count))
        state.round[env] = wp.where(closes, 1, now)
        state.taken[env] = wp.where(closes, 0, count + 1)
        state.raised[env] = wp.where(closes, 0, state.raised[env] + int(raises))
        state.mover[env] = wp.where(closes, 0, other)
        if folds or (closes and now == 1):
            public = state.card[env, PUBLIC]
            lead = strength(state.card[env, mover], public) - strength(state.card[env, other], public)
            sign = wp.where(folds or lead < 0, -1, wp.where(lead > 0, 1, 0))
            # The winner gains the payment of the loser; at a showdown both payments are equal.
            gain = float(sign * state.chips[env, mover])
            io.reward[env, mover] = gain
            io.reward[env, other] = -gain
            for agent in range(2):
                io.terminated[env, agent] = True

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark legal actions: fold after a raise, call always, raise twice per round."""
        io.to_move[env, agent] = state.mover[env] == agent
        io.action_mask[env, agent, FOLD] = state.raised[env] > 0  # the last raise is the opponent's
        io.action_mask[env, agent, CALL] = True
        io.action_mask[env, agent, RAISE] = state.raised[env] < MAX_RAISES

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own row, own card, the revealed public card and all actions so far, one-hot."""
        own_card = state.card[env, agent]
        public = wp.where(state.round[env] == 1, state.card[env, PUBLIC], -1)
        for player in range(2):
            io.obs[env, agent, player] = float(player == agent)
        for card in range(CARDS):
            io.obs[env, agent, 2 + card] = float(card == own_card)
            io.obs[env, agent, 8 + card] = float(card == public)
        for number in range(2):
            story = state.story[env, number]
            for index in range(STORY):
                io.obs[env, agent, 14 + STORY * number + index] = float((story >> index) & 1)

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        """Return the loss by an illegal action: the loss by a fold."""
        return state.chips[env, agent]

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Deal three different cards and collect the antes; player 0 starts."""
        word = philox.bits(rng, 0, philox.RESET, 0)
        deck = wp.uint64(cards.FULL_DECK)
        for index in range(3):
            at = philox.below(word[index], CARDS - index)
            state.card[env, index] = cards.card_at(deck, at)
            deck = cards.without(deck, at, CARDS - index)
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
        phases=(
            world_phase(
                act,
                reads="card chips round taken raised story mover io.choice",
                writes="chips round taken raised story mover io.reward io.terminated",
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        stake=stake,
        num_choices=3,
        max_unroll=8,
    )
