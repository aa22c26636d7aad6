"""KuhnPoker: one card per player, one bet, and the highest remaining card wins. OpenSpiel 2.0.2's kuhn_poker.

P players act in row order. Without a bet, the player to act passes or bets. After a bet, each other player passes (a
fold) or bets the same (a call) once. The showdown follows when all players have passed or responded to the bet.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games import cards
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    """Environment parameters."""

    ante: float  # initial payment of every player [chips]
    bet: float  # payment of a bet [chips]


@wp.struct
class State:
    """State of E worlds, P players."""

    card: wp.array2d(dtype=int)  # (E, P) 0 (lowest) to P
    turn: wp.array(dtype=int)  # (E,) actions taken so far; player turn % P is to act
    bets: wp.array(dtype=int)  # (E,) bit t: action t of the game was a bet
    first_bet: wp.array(dtype=int)  # (E,) number of the action that was the first bet; -1: none yet


def observation_width(num_players: int) -> int:
    """Return the width of an observation: own row, own card, all actions."""
    return num_players + (num_players + 1) + 2 * (2 * num_players - 1)


@cache
def rules(num_players: int) -> Rules:
    """Build the rules for 2 to 10 players."""
    longest = 2 * num_players - 1  # all pass except the last player, who bets; the other players respond

    @wp.func(inline=True)
    def is_in(bets: int, player: int):
        """Return whether a player has bet in its first or second action."""
        return (((bets >> player) | (bets >> (player + num_players))) & 1) == 1

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Pass or bet, and settle at the showdown; write turn, bets, rewards and terminated."""
        turn = state.turn[env]
        bets = state.bets[env]
        first_bet = state.first_bet[env]
        if io.choice[env, turn % num_players, 0] == wp.int64(1):
            bets = bets | (1 << turn)
            if first_bet < 0:
                first_bet = turn
        turn += 1
        state.turn[env] = turn
        state.bets[env] = bets
        state.first_bet[env] = first_bet
        if turn == wp.where(first_bet < 0, 0, first_bet) + num_players:
            pot = float(0.0)
            winner = int(-1)
            highest = int(-1)
            for player in range(num_players):
                bold = is_in(bets, player)
                paid = params.ante + wp.where(bold, params.bet, 0.0)
                pot += paid
                io.reward[env, player] = -paid
                io.terminated[env, player] = True
                card = state.card[env, player]
                if (bold or first_bet < 0) and card > highest:
                    highest = card
                    winner = player
            io.reward[env, winner] = io.reward[env, winner] + pot

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark both actions as legal."""
        io.to_move[env, agent] = state.turn[env] % num_players == agent
        io.action_mask[env, agent, 0] = True
        io.action_mask[env, agent, 1] = True

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own row, own card and all actions so far, one-hot."""
        for player in range(num_players):
            io.obs[env, agent, player] = float(player == agent)
        card = state.card[env, agent]
        for other in range(num_players + 1):
            io.obs[env, agent, num_players + other] = float(other == card)
        turn = state.turn[env]
        bets = state.bets[env]
        column = int(2 * num_players + 1)
        for action in range(longest):
            is_past = action < turn
            bold = ((bets >> action) & 1) == 1
            io.obs[env, agent, column] = float(is_past and not bold)
            io.obs[env, agent, column + 1] = float(is_past and bold)
            column += 2

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        """Return the loss by an illegal action: the chips already paid."""
        return params.ante + wp.where(is_in(state.bets[env], agent), params.bet, 0.0)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Deal a card of P + 1 to every player; player 0 starts."""
        deck = wp.uint64(cards.FULL_DECK)
        for player in range(num_players):
            left = num_players + 1 - player
            index = philox.below(philox.bits(rng, player, philox.RESET, 0)[0], left)
            state.card[env, player] = cards.card_at(deck, index)
            deck = cards.without(deck, index, left)
        state.turn[env] = 0
        state.bets[env] = 0
        state.first_bet[env] = -1

    return Rules(
        key=f"kuhn_poker {num_players}",
        params=Params,
        state=State,
        num_agents=num_players,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                act,
                reads="card turn bets first_bet io.choice io.reward",
                writes="turn bets first_bet io.reward io.terminated",
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        stake=stake,
        num_choices=2,
        max_unroll=3,
    )
