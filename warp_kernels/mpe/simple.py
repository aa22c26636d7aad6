"""Simple: MPE's simple as in mpe2 1.1.1. One agent goes to one landmark.

Entities: the agent, then the landmark. Nothing collides.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import observed_neighbors, particles
from warp_kernels.rules import Rules, agent_phase

OBSERVATION = 4  # own velocity, the landmark's relative position


@wp.struct
class Params:
    """Environment parameters; the agent's mass is 1 kg."""

    accel: float  # force at full throttle [N]


@wp.struct
class State:
    """State of E worlds, 1 agent, 2 entities."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, 2) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, 1) [m/s]
    benchmark: wp.array3d(dtype=float)  # (E, 1, 0) mpe2 has no benchmark data here


@cache
def rules(continuous: bool) -> Rules:
    """Build the rules."""
    scatter = particles.random_placement(State, 1)
    see_landmark = observed_neighbors.observe_neighbors(State, 1, 2)

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return params.accel

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward: the negative squared distance to the landmark."""
        delta = state.pos[env, 1] - state.pos[env, agent]
        io.reward[env, agent] = -wp.dot(delta, delta)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own velocity [m/s] and the relative position of the landmark [m]."""
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        see_landmark(state, io, env, agent, 2)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the agent and the landmark uniformly in [-1, 1)^2 [m], at rest."""
        scatter(state, env, rng)

    return Rules(
        key=f"simple {continuous}",
        params=Params,
        state=State,
        num_agents=1,
        action_size=5 if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, 1, 2, continuous, accel_of, cap_of),
            agent_phase(score, reads="pos", writes="io.reward"),
        ),
        reset=reset,
        observe=observe,
    )
