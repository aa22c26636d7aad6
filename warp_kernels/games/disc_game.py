"""DiscGame: two points of a disc, and whoever is a quarter turn behind the other earns the most.

Balduzzi et al. 2019, "Open-ended learning in symmetric zero-sum games": the disc game.
"""

from functools import cache

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
    """E worlds, two players."""

    last: wp.array2d(dtype=wp.vec2)  # (E, 2) last point, on the unit disc; the middle at the start


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def show(params: Params, state: State, io: IO, env: int):
        """Points outside the disc count as the nearest on it. Writes the last points and both rewards."""
        for player in range(2):
            point = wp.vec2(io.control[env, player, 0], io.control[env, player, 1])
            state.last[env, player] = point / wp.max(wp.length(point), 1.0)
        own = state.last[env, 0]
        other = state.last[env, 1]
        gain = own[0] * other[1] - own[1] * other[0]
        io.reward[env, 0] = gain
        io.reward[env, 1] = -gain

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Both last points, the own one first; the time."""
        for further in range(2):
            last = state.last[env, (agent + further) % 2]
            io.obs[env, agent, 2 * further] = last[0]
            io.obs[env, agent, 2 * further + 1] = last[1]
        io.obs[env, agent, 4] = float(io.step[env]) / float(params.num_steps)

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Nobody has chosen yet."""
        for player in range(2):
            state.last[env, player] = wp.vec2(0.0, 0.0)

    return Rules(
        key="disc_game",
        params=Params,
        state=State,
        num_agents=2,
        action_size=2,
        continuous=True,
        phases=(world_phase(show),),
        observe=observe,
        reset=reset,
    )
