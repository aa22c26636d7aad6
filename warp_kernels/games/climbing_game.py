"""ClimbingGame: a one-step cooperative game with a 3 x 3 payoff table, named after its default numbers.

Claus and Boutilier 1998, "The dynamics of reinforcement learning in cooperative multiagent systems".
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    """Environment parameters: payoffs of both players."""

    payoff_00: float  # player 0 chooses 0 and player 1 chooses 0
    payoff_01: float  # 0 and 1
    payoff_02: float  # 0 and 2
    payoff_10: float  # 1 and 0
    payoff_11: float  # 1 and 1
    payoff_12: float  # 1 and 2
    payoff_20: float  # 2 and 0
    payoff_21: float  # 2 and 1
    payoff_22: float  # 2 and 2


@wp.struct
class State:
    """State of E worlds, two players."""

    last: wp.array2d(dtype=int)  # (E, 2) last actions; -1 before the step


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def pay(params: Params, state: State, io: IO, env: int):
        """Look up the payoff of the joint action; write the last actions and both rewards."""
        table = wp.mat33(
            params.payoff_00,
            params.payoff_01,
            params.payoff_02,
            params.payoff_10,
            params.payoff_11,
            params.payoff_12,
            params.payoff_20,
            params.payoff_21,
            params.payoff_22,
        )
        row = int(io.choice[env, 0, 0])
        column = int(io.choice[env, 1, 0])
        state.last[env, 0] = row
        state.last[env, 1] = column
        for player in range(2):
            io.reward[env, player] = table[row, column]

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the own row, one-hot."""
        for player in range(2):
            io.obs[env, agent, player] = float(player == agent)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Clear the last actions."""
        for player in range(2):
            state.last[env, player] = -1

    return Rules(
        key="climbing_game",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(world_phase(pay, reads="io.choice", writes="last io.reward"),),
        observe=observe,
        reset=reset,
        max_unroll=4,
    )
