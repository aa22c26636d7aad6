"""DiscGame: each player chooses a point of a disc; a quarter turn clockwise of the opponent earns the most.

Balduzzi et al. 2019, "Open-ended learning in symmetric zero-sum games": the disc game.
"""

from functools import cache

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
    """State of E worlds, two players."""

    last: wp.array2d(dtype=wp.vec2)  # (E, 2) last points on the unit disc; the center at the start


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def show(params: Params, state: State, io: IO, env: int):
        """Project points to the disc; write the last points and both rewards."""
        for player in range(2):
            point = wp.vec2(io.control[env, player, 0], io.control[env, player, 1])
            state.last[env, player] = point / wp.max(wp.length(point), 1.0)
        first = state.last[env, 0]
        second = state.last[env, 1]
        gain = first[0] * second[1] - first[1] * second[0]
        io.reward[env, 0] = gain
        io.reward[env, 1] = -gain

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write both last points, own one first, and the time."""
        for further in range(2):
            last = state.last[env, (agent + further) % 2]
            io.obs[env, agent, 2 * further] = last[0]
            io.obs[env, agent, 2 * further + 1] = last[1]
        io.obs[env, agent, 4] = float(io.step[env]) / float(params.num_repetitions)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Clear the last actions."""
        for player in range(2):
            state.last[env, player] = wp.vec2(0.0, 0.0)

    return Rules(
        key="disc_game",
        params=Params,
        state=State,
        num_agents=2,
        action_size=2,
        continuous=True,
        phases=(world_phase(show, reads="last io.control", writes="last io.reward"),),
        observe=observe,
        reset=reset,
    )
