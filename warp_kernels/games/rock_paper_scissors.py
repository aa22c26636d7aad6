"""RockPaperScissors: each of the three beats the one before it. OpenSpiel 2.0.2's matrix_rps, played repeatedly."""

from functools import cache

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.games import matrix_game
from warp_kernels.rules import Rules, world_phase


@wp.struct
class Params:
    """Environment parameters."""

    num_repetitions: int  # T [steps]; observations contain t / T
    win_reward: float  # of the winner of a step; the loser gets the negative


@wp.struct
class State:
    """State of E worlds, two players."""

    last: wp.array2d(dtype=int)  # (E, 2) last choice: 0 rock, 1 paper, 2 scissors; -1 at the start


@cache
def rules() -> Rules:
    """Build the rules."""
    observe, reset = matrix_game.memory(Params, State, 2)

    @wp.func(inline=True)
    def show(params: Params, state: State, io: IO, env: int):
        """Paper beats rock, scissors beat paper, rock beats scissors; write the last actions and both rewards."""
        for player in range(2):
            state.last[env, player] = int(io.choice[env, player, 0])
        lead = (state.last[env, 0] - state.last[env, 1] + 3) % 3
        gain = params.win_reward * (float(lead == 1) - float(lead == 2))
        io.reward[env, 0] = gain
        io.reward[env, 1] = -gain

    return Rules(
        key="rock_paper_scissors",
        params=Params,
        state=State,
        num_agents=2,
        action_size=1,
        continuous=False,
        phases=(world_phase(show, reads="last io.choice", writes="last io.reward"),),
        observe=observe,
        reset=reset,
        max_unroll=4,
    )
