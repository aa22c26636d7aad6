"""OshiZumo: both players bid coins, and the higher bid pushes the wrestler. OpenSpiel 2.0.2's oshi_zumo.

The field has the positions 0 to 2 size + 2, of which the first and the last are outside. Player 0 pushes to the right.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.games.hidden import observations
from warp_kernels.rules import Rules, world_phase

PLAYERS = 2
"""Number of players."""


@wp.struct
class Params:
    """Environment parameters."""

    win_reward: float  # reward of the winner; the loser gets the negative
    min_bid: int  # lowest bid of a player that has this many coins [coins]
    horizon: int  # steps after which the position decides [steps]
    alesia: int  # 1: only a wrestler outside the field decides


@wp.struct
class State:
    """State of E worlds, two players."""

    coins: wp.array2d(dtype=int)  # (E, 2) coins left
    position: wp.array(dtype=int)  # (E,) position of the wrestler, 0 to 2 size + 2
    bid: wp.array2d(dtype=int)  # (E, 2) last bids; -1: none yet


def observation_width(coins: int, size: int) -> int:
    """Return the width of an observation: coins of both players, position."""
    return PLAYERS * (coins + 1) + 2 * size + 3


@cache
def rules(coins: int, size: int) -> Rules:
    """Build the rules for a number of coins at the start and a size of the field."""
    num_choices, width, last = coins + 1, observation_width(coins, size), 2 * size + 2

    @wp.func(inline=True)
    def push(params: Params, state: State, io: IO, env: int):
        """Pay the bids and move the wrestler; write all fields, rewards and terminated."""
        for player in range(PLAYERS):
            coins = state.coins[env, player]
            # another bid is an error; the guard bounds the coins, as observations index by them
            paid = wp.clamp(int(io.choice[env, player, 0]), wp.min(params.min_bid, coins), coins)
            state.bid[env, player] = paid
            state.coins[env, player] = state.coins[env, player] - paid
        lead = state.bid[env, 0] - state.bid[env, 1]
        position = state.position[env] + int(lead > 0) - int(lead < 0)
        position = wp.clamp(position, 0, last)  # bounded, as observations index by it
        state.position[env] = position
        outside = position <= 0 or position >= last
        broke = state.coins[env, 0] == 0 and state.coins[env, 1] == 0
        if outside or broke or io.step[env] >= params.horizon:
            side = int(position > size + 1) - int(position < size + 1)
            if params.alesia == 1 and not outside:
                side = 0
            gain = params.win_reward * float(side)
            io.reward[env, 0] = gain
            io.reward[env, 1] = -gain
            for player in range(PLAYERS):
                io.terminated[env, player] = True

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, agent: int):
        """Mark the bids that the agent can pay; below the lowest bid it bids all its coins."""
        coins = state.coins[env, agent]
        lowest = wp.min(params.min_bid, coins)
        bid = int(0)
        while bid < num_choices:
            io.action_mask[env, agent, bid] = bid >= lowest and bid <= coins
            bid += 1

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write coins of both players and the position, one-hot."""
        observations.clear(io, env, agent, width)
        for player in range(PLAYERS):
            observations.mark(io, env, agent, player * num_choices + state.coins[env, player])
        observations.mark(io, env, agent, PLAYERS * num_choices + state.position[env])

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Deal the coins and put the wrestler in the middle."""
        for player in range(PLAYERS):
            state.coins[env, player] = coins
            state.bid[env, player] = -1
        state.position[env] = size + 1

    return Rules(
        key=f"oshi_zumo {coins} {size}",
        params=Params,
        state=State,
        num_agents=PLAYERS,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                push, reads="coins position bid io.choice io.step", writes="coins position bid io.reward io.terminated"
            ),
        ),
        observe=observe,
        legal=legal,
        reset=reset,
        masked=True,
        num_choices=num_choices,
        max_unroll=6,
    )
