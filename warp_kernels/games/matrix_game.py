"""MatrixGame: all players choose at once, and a table says what everybody earns; played for a number of steps.

Normal-form games after von Neumann and Morgenstern (1944); compared with OpenSpiel 2.0.2's matrix games.
"""

from functools import cache
from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    """Constants of a world."""

    num_steps: int  # T [steps]; the observation tells t / T


@wp.struct
class State:
    """E worlds, P players, J joint actions."""

    payoff: wp.array3d(dtype=float)  # (E, J, P) J counts the joint actions row by row, player 0's choice the slowest
    last: wp.array2d(dtype=int)  # (E, P) everybody's last choice; -1 at the start


def memory(params: type, state: type, num_players: int) -> tuple[Any, Any]:
    """Build what repeated games share: observe and reset.

    Args:
        params: Warp struct with ``num_steps``.
        state: Warp struct with ``last`` (E, P).
        num_players: P.
    """
    Params, State = params, state

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Everybody's last choice one-hot, own first, then on in row order around the table; the time."""
        column = int(0)
        for further in range(num_players):
            player = (agent + further) % num_players
            last = state.last[env, player]
            choice = int(0)
            while choice < io.num_choices[player, 0]:
                io.obs[env, agent, column] = float(choice == last)
                column += 1
                choice += 1
        io.obs[env, agent, column] = float(io.step[env]) / float(params.num_steps)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Nobody has chosen yet."""
        for player in range(num_players):
            state.last[env, player] = -1

    return observe, reset


@cache
def rules(num_players: int) -> Rules:
    """Build the rules for a number of players; how many choices each has is known to the buffers."""
    observe, reset = memory(Params, State, num_players)

    @wp.func(inline=True)
    def pay(params: Params, state: State, io: IO, env: int):
        """Look up the joint action. Writes the last choices and all rewards."""
        joint = int(0)
        for player in range(num_players):
            choice = int(io.choice[env, player, 0])
            state.last[env, player] = choice
            joint = joint * io.num_choices[player, 0] + choice
        for player in range(num_players):
            io.reward[env, player] = state.payoff[env, joint, player]

    return Rules(
        key=f"matrix_game {num_players}",
        params=Params,
        state=State,
        num_agents=num_players,
        action_size=1,
        continuous=False,
        phases=(world_phase(pay),),
        observe=observe,
        reset=reset,
        max_unroll=4,
    )
