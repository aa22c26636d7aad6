"""MatrixGame: a repeated normal-form game with simultaneous actions and a payoff table.

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
    """Environment parameters."""

    num_repetitions: int  # T [steps]; observations contain t / T


@wp.struct
class State:
    """State of E worlds, P players, J joint actions."""

    payoff: wp.array3d(dtype=float)  # (E, J, P) payoffs of joint actions J in C order
    last: wp.array2d(dtype=int)  # (E, P) last action of each player; -1 at the start


def memory(params: type, state: type, num_players: int) -> tuple[Any, Any]:
    """Build observe and reset of repeated games.

    Args:
        params: Warp struct with ``num_repetitions``.
        state: Warp struct with ``last`` (E, P).
        num_players: Number of players P.
    """
    Params, State = params, state

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the last action of every player, one-hot, own first, then cyclically in row order; then the time."""
        column = int(0)
        for further in range(num_players):
            player = (agent + further) % num_players
            last = state.last[env, player]
            choice = int(0)
            while choice < io.num_choices[player, 0]:
                io.obs[env, agent, column] = float(choice == last)
                column += 1
                choice += 1
        io.obs[env, agent, column] = float(io.step[env]) / float(params.num_repetitions)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Clear the last actions."""
        for player in range(num_players):
            state.last[env, player] = -1

    return observe, reset


@cache
def rules(num_players: int) -> Rules:
    """Build the rules for a number of players; the buffers define the number of actions of each."""
    observe, reset = memory(Params, State, num_players)

    @wp.func(inline=True)
    def pay(params: Params, state: State, io: IO, env: int):
        """Look up the payoff of the joint action; write the last actions and all rewards."""
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
        phases=(world_phase(pay, reads="payoff io.choice io.num_choices", writes="last io.reward"),),
        observe=observe,
        reset=reset,
        max_unroll=4,
    )
