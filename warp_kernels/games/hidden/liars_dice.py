"""LiarsDice: hidden dice, and bids on all of them that rise until a player doubts. OpenSpiel 2.0.2's liars_dice.

A bid claims that at least a quantity of all dice show a face; the highest face is wild and counts as every face. Bids
are numbered, and a bid is higher than another if its number is. The last number is the call "liar".
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games import boards
from warp_kernels.rules import Rules, world_phase

PLAYERS = 2
"""Number of players."""
MOST_BIDS = 62
"""Largest number of bids: the bids of a game and the call are bits of one number."""


@wp.struct
class Params:
    """Environment parameters."""

    win_reward: float  # reward of the winner; the loser gets the negative


@wp.struct
class State:
    """State of E worlds, two players with N dice each."""

    dice: wp.array2d(dtype=int)  # (E, 2 N) faces from 1, ascending, of player 0, then of player 1; 0 before a roll
    bids: wp.array(dtype=wp.uint64)  # (E,) bit b: bid b was made; the last bit: a player has called "liar"
    last: wp.array(dtype=int)  # (E,) last bid; -1: none yet
    mover: wp.array(dtype=int)  # (E,) player to act


def observation_width(numdice: int, dice_sides: int) -> int:
    """Return the width of an observation: own row, own dice, all bids and the call."""
    return PLAYERS + numdice * dice_sides + PLAYERS * numdice * dice_sides + 1


@cache
def rules(numdice: int, dice_sides: int, faces_rise_first: bool) -> Rules:
    """Build the rules.

    Args:
        numdice: Number of dice of each player.
        dice_sides: Number of faces of a die.
        faces_rise_first: True if the next bid after the highest face is the lowest face with a higher quantity; False
            if the next bid after the highest quantity is the lowest quantity of a higher face.
    """
    total = PLAYERS * numdice
    liar = total * dice_sides  # the highest action
    bid_column = PLAYERS + numdice * dice_sides  # columns of an observation before the bids
    num_choices = liar + 1

    @wp.func(inline=True)
    def holds(state: State, env: int, bid: int):
        """Return whether a bid is true."""
        quantity = bid // dice_sides + 1
        face = bid % dice_sides + 1
        if wp.static(not faces_rise_first):
            quantity = bid % total + 1
            face = bid // total + 1
        matches = int(0)
        for index in range(total):
            die = state.dice[env, index]
            wild = die == dice_sides
            matches += int(wild or die == face)
        return matches >= quantity

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Bid, or call the last bid a lie; write bids, last, mover, rewards and terminated."""
        mover = state.mover[env]
        choice = int(io.choice[env, mover, 0])
        state.bids[env] = state.bids[env] | boards.bit(choice)
        if choice < liar:
            state.last[env] = choice
            state.mover[env] = 1 - mover
        else:
            winner = wp.where(holds(state, env, state.last[env]), 1 - mover, mover)
            for agent in range(PLAYERS):
                io.terminated[env, agent] = True
                io.reward[env, agent] = wp.where(agent == winner, params.win_reward, -params.win_reward)

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark higher bids, and the call after a bid."""
        last = state.last[env]
        io.to_move[env, agent] = state.mover[env] == agent
        for choice in range(num_choices):
            io.action_mask[env, agent, choice] = choice > last and (choice < liar or last >= 0)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own row, own dice in ascending order, and the bids and the call so far."""
        for player in range(PLAYERS):
            io.obs[env, agent, player] = float(player == agent)
        for index in range(numdice):
            die = state.dice[env, agent * numdice + index]
            for face in range(dice_sides):
                io.obs[env, agent, PLAYERS + index * dice_sides + face] = float(die == face + 1)
        bids = state.bids[env]
        for bid in range(num_choices):
            io.obs[env, agent, bid_column + bid] = float(boards.at(bids, bid))

    @wp.func(inline=True)
    def stake(params: Params, state: State, env: int, agent: int):
        return params.win_reward

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Roll all dice and sort each player's; player 0 starts."""
        for player in range(PLAYERS):
            for index in range(numdice):
                word = philox.bits(rng, player, philox.RESET, index)[0]
                die = 1 + philox.below(word, dice_sides)
                at = player * numdice + index
                first = player * numdice
                while at > first and state.dice[env, at - 1] > die:
                    state.dice[env, at] = state.dice[env, at - 1]
                    at -= 1
                state.dice[env, at] = die
        state.bids[env] = wp.uint64(0)
        state.last[env] = -1
        state.mover[env] = 0

    return Rules(
        key=f"liars_dice {numdice} {dice_sides} {faces_rise_first}",
        params=Params,
        state=State,
        num_agents=PLAYERS,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(act, reads="dice bids last mover io.choice", writes="bids last mover io.reward io.terminated"),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        turn_based=True,
        stake=stake,
        num_choices=num_choices,
        max_unroll=6,
    )
