"""TwoStepGame: player 0 chooses one of two payoff tables for a cooperative game.

Rashid et al. 2018, "QMIX: monotonic value function factorisation for deep multi-agent reinforcement learning",
section 5.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    """Environment parameters: payoffs of both players in the second step."""

    payoff_a: float  # in table A, for all actions
    payoff_b_00: float  # in table B, both choose 0
    payoff_b_01: float  # in table B, player 0 chooses 0 and player 1 chooses 1
    payoff_b_10: float  # in table B, player 0 chooses 1 and player 1 chooses 0
    payoff_b_11: float  # in table B, both choose 1


@wp.struct
class State:
    """State of E worlds, two players."""

    table: wp.array(dtype=int)  # (E,) table of the second step: 0 is A, 1 is B; -1 before the choice
    last: wp.array2d(dtype=int)  # (E, 2) actions of the second step; -1 before


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def act(params: Params, state: State, io: IO, env: int):
        """Choose the table, or look up the payoff of the joint action; write table, last actions and rewards."""
        row = int(io.choice[env, 0, 0])
        column = int(io.choice[env, 1, 0])
        table = state.table[env]
        if table < 0:
            state.table[env] = row
        else:
            state.last[env, 0] = row
            state.last[env, 1] = column
            payoff = params.payoff_a
            if table == 1:
                payoffs = wp.mat22(params.payoff_b_00, params.payoff_b_01, params.payoff_b_10, params.payoff_b_11)
                payoff = payoffs[row, column]
            for player in range(2):
                io.reward[env, player] = payoff

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the stage (choose a table, A, B; zeros after the end) and the own row, one-hot."""
        table = state.table[env]
        playing = state.last[env, 0] < 0
        for column in range(3):
            io.obs[env, agent, column] = float(playing and column == table + 1)
        for player in range(2):
            io.obs[env, agent, 3 + player] = float(player == agent)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Clear the last actions."""
        state.table[env] = -1
        for player in range(2):
            state.last[env, player] = -1

    return Rules(
        key="two_step_game",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(world_phase(act, reads="table io.choice", writes="table last io.reward"),),
        observe=observe,
        reset=reset,
        max_unroll=4,
    )
