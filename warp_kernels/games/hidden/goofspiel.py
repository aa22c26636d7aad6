"""Goofspiel: all players bid a card for each point card, and the single highest bid takes it. OpenSpiel 2.0.2's.

Cards are numbered from 0; card c is worth c + 1 points. A tie for the highest bid discards the point card. The last
card of every player is no choice, so it is played together with the one before it.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games.hidden import observations
from warp_kernels.rules import Rules, world_phase

MOST_CARDS = 31
"""Largest number of cards: a hand is the bits of an int32."""


@dataclass(frozen=True)
class Sizes:
    """Settings that the rules use as constants."""

    players: int  # number of players P
    num_cards: int  # cards of each player
    num_turns: int  # turns T
    points_order: str  # "random", "ascending" or "descending"
    returns_type: str  # "win_loss", "point_difference" or "total_points"
    hidden: bool  # bids are hidden
    egocentric: bool  # winners are counted from the observing player


@wp.struct
class Params:
    """Environment parameters."""

    win_reward: float  # total of the winners with win_loss, and value of a point otherwise


@wp.struct
class State:
    """State of E worlds, P players, T turns."""

    order: wp.array2d(dtype=int)  # (E, T) point cards in the order of turns; later ones are face down
    hand: wp.array2d(dtype=int)  # (E, P) bit c: the player still has card c
    points: wp.array2d(dtype=int)  # (E, P) points won
    bid: wp.array3d(dtype=int)  # (E, P, T) cards played; -1: not yet
    winner: wp.array2d(dtype=int)  # (E, T) player that won the turn; -1: a tie, or not yet
    turn: wp.array(dtype=int)  # (E,) turns played


def observation_width(s: Sizes) -> int:
    """Return the width of an observation."""
    points = s.players * (s.num_cards * (s.num_cards + 1) // 2 + 1)
    if s.hidden:
        return points + s.num_cards + s.num_turns * s.players + 2 * s.num_turns * s.num_cards
    return points + s.num_turns * s.num_cards + s.players * s.num_cards


@cache
def rules(s: Sizes) -> Rules:
    """Build the rules."""
    players, num_cards, num_turns, hidden, egocentric = s.players, s.num_cards, s.num_turns, s.hidden, s.egocentric
    slots = num_cards * (num_cards + 1) // 2 + 1  # numbers of points
    width = observation_width(s)
    all_cards = 2**num_cards - 1
    forced = num_cards - 1 if num_turns == num_cards else -1  # turn without a choice; -1: none
    random, descending = s.points_order == "random", s.points_order == "descending"
    win_loss, difference = s.returns_type == "win_loss", s.returns_type == "point_difference"
    # first columns of the parts of an observation
    own_hand = players * slots
    winners = own_hand + num_cards
    sequence = winners + num_turns * players if hidden else own_hand
    own_bids = sequence + num_turns * num_cards  # of hidden bids; without them the hands of all players

    @wp.func
    def settle(state: State, env: int, turn: int):
        """Give the point card of a turn to the single highest bid, and take the bids from the hands."""
        highest = int(-1)
        winner = int(-1)
        for player in range(players):
            bid = state.bid[env, player, turn]
            state.hand[env, player] = state.hand[env, player] & ~(1 << bid)
            if bid > highest:
                highest = bid
                winner = player
            elif bid == highest:
                winner = -1
        state.winner[env, turn] = winner
        if winner >= 0:
            # bounded, as observations index by it
            state.points[env, winner] = wp.min(state.points[env, winner] + state.order[env, turn] + 1, slots - 1)

    @wp.func
    def lowest(hand: int):
        """Return the lowest card of a hand; 0 if it is empty."""
        card = int(0)
        while card < num_cards - 1 and ((hand >> card) & 1) == 0:
            card += 1
        return card

    @wp.func
    def finish(params: Params, state: State, io: IO, env: int):
        """Write the rewards at the end."""
        total = int(0)
        highest = int(-1)
        best = int(0)  # players with the most points
        for player in range(players):
            points = state.points[env, player]
            total += points
            best = wp.where(points > highest, 1, best + int(points == highest))
            highest = wp.max(highest, points)
        for player in range(players):
            points = state.points[env, player]
            share = float(points)
            if wp.static(win_loss):
                share = wp.where(points == highest, 1.0 / float(best), -1.0 / float(wp.max(players - best, 1)))
                if best == players:
                    share = 0.0
            elif wp.static(difference):
                share = float(points) - float(total) / float(players)
            io.reward[env, player] = params.win_reward * share
            io.terminated[env, player] = True

    @wp.func(inline=True)
    def bid(params: Params, state: State, io: IO, env: int):
        """Play a card of every player, and the last ones after the last choice; write all fields but the order."""
        turn = wp.min(state.turn[env], num_turns - 1)  # bounded, as it indexes
        for player in range(players):
            hand = state.hand[env, player]
            card = int(io.choice[env, player, 0])
            # a card outside the hand is an error; the guard keeps the hands valid
            state.bid[env, player, turn] = wp.where(((hand >> card) & 1) == 1, card, lowest(hand))
        settle(state, env, turn)
        turn += 1
        if turn == forced:
            for player in range(players):
                state.bid[env, player, turn] = lowest(state.hand[env, player])
            settle(state, env, turn)
            turn += 1
        state.turn[env] = turn
        if turn == num_turns:
            finish(params, state, io, env)

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark the cards of the hand."""
        hand = state.hand[env, agent]
        for card in range(num_cards):
            io.action_mask[env, agent, card] = ((hand >> card) & 1) == 1

    @wp.func
    def write_hand(io: IO, env: int, agent: int, hand: int, first: int):
        for card in range(num_cards):
            io.obs[env, agent, first + card] = float((hand >> card) & 1)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write points from the agent on, then hands, winners, point cards and own bids, one-hot."""
        observations.clear(io, env, agent, width)
        for seat in range(players):
            player = (agent + seat) % players
            observations.mark(io, env, agent, seat * slots + state.points[env, player])
        turns = state.turn[env]
        num_shown = wp.min(turns + 1, num_turns)
        turn = int(0)
        while turn < num_shown:
            observations.mark(io, env, agent, sequence + turn * num_cards + state.order[env, turn])
            turn += 1
        if wp.static(hidden):
            write_hand(io, env, agent, state.hand[env, agent], own_hand)
            turn = int(0)
            while turn < turns:
                winner = state.winner[env, turn]
                if winner >= 0:
                    if wp.static(egocentric):
                        winner = (winner - agent + players) % players
                    observations.mark(io, env, agent, winners + turn * players + winner)
                observations.mark(io, env, agent, own_bids + turn * num_cards + wp.max(state.bid[env, agent, turn], 0))
                turn += 1
        else:
            for seat in range(players):
                player = (agent + seat) % players
                write_hand(io, env, agent, state.hand[env, player], own_bids + seat * num_cards)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Order the point cards and deal the hands."""
        used = int(0)
        for turn in range(num_turns):
            card = int(turn)
            if wp.static(descending):
                card = num_cards - 1 - turn
            elif wp.static(random):
                skip = philox.below(philox.bits(rng, 0, philox.RESET, turn)[0], num_cards - turn)
                card = int(0)
                while skip > 0 or ((used >> card) & 1) == 1:
                    skip -= 1 - ((used >> card) & 1)
                    card += 1
                used = used | (1 << card)
            state.order[env, turn] = card
            state.winner[env, turn] = -1
            for player in range(players):
                state.bid[env, player, turn] = -1
        for player in range(players):
            state.hand[env, player] = all_cards
            state.points[env, player] = 0
        state.turn[env] = 0

    return Rules(
        key=f"goofspiel {s}",
        params=Params,
        state=State,
        num_agents=players,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                bid,
                reads="order hand points bid turn io.choice",
                writes="hand points bid winner turn io.reward io.terminated",
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        num_choices=num_cards,
        max_unroll=6,
    )
