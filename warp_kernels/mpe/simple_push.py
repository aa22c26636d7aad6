"""SimplePush: MPE's simple_push as in mpe2 1.1.1. An adversary keeps a good agent from its goal, by force.

Entities: the adversary, the good agent, two landmarks. Agents push each other; landmarks are in nobody's way.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import neighbours, particles
from warp_kernels.rules import Rules, agent_phase

OBSERVATIONS = {"adversary": 8, "agent": 19}  # widths by group
GOOD = wp.constant(1)  # row of the good agent; the landmarks are rows 2 and 3


@wp.struct
class Params:
    """Constants of a world; an agent's mass is 1 kg."""

    agent_size: float  # radius [m]
    accel: float  # force at full throttle [N]


@wp.struct
class State:
    """E worlds, 2 agents, 4 entities."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, 4) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, 2) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, 2) [N] of the present step
    goal: wp.array(dtype=int)  # (E,) which landmark counts, 0 or 1
    away: wp.array2d(dtype=float)  # (E, 2) from each agent to the goal [m]
    benchmark: wp.array3d(dtype=float)  # (E, 2, 0) mpe2 has no figures for this scenario


@cache
def rules(continuous: bool) -> Rules:
    """Build the rules."""
    place = particles.scatter(State, 2)
    see_landmarks = neighbours.sight(State, 2, 4)
    see_other = neighbours.sight(State, 0, 2)

    @wp.func(inline=True)
    def size_of(params: Params, entity: int):
        return params.agent_size

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return params.accel

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def measure(params: Params, state: State, io: IO, env: int, agent: int):
        """Write an agent's distance to the goal."""
        delta = state.pos[env, 2 + state.goal[env]] - state.pos[env, agent]
        state.away[env, agent] = wp.sqrt(wp.dot(delta, delta))

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """The good agent wants to be at the goal; the adversary wants to be nearer than it. Writes the reward."""
        io.reward[env, agent] = wp.where(agent == GOOD, 0.0, state.away[env, GOOD]) - state.away[env, agent]

    @wp.func(inline=True)
    def paint(io: IO, env: int, agent: int, column: int, landmark: int, rest: float, bright: float):
        """Write a colour (r, g, b): green for landmark 0, blue for landmark 1."""
        io.obs[env, agent, column] = rest
        io.obs[env, agent, column + 1] = wp.where(landmark == 0, bright, rest)
        io.obs[env, agent, column + 2] = wp.where(landmark == 1, bright, rest)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Own velocity [m/s], landmarks and the other agent from here [m].

        The good agent also sees the goal, its own colour, which is the goal's, and the landmarks' colours.
        """
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        if agent == GOOD:
            goal = state.goal[env]
            delta = state.pos[env, 2 + goal] - state.pos[env, agent]
            io.obs[env, agent, 2] = delta[0]
            io.obs[env, agent, 3] = delta[1]
            paint(io, env, agent, 4, goal, 0.25, 0.75)
            see_landmarks(state, io, env, agent, 7)
            paint(io, env, agent, 11, 0, 0.1, 0.9)
            paint(io, env, agent, 14, 1, 0.1, 0.9)
            see_other(state, io, env, agent, 17)
        else:
            see_landmarks(state, io, env, agent, 2)
            see_other(state, io, env, agent, 6)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Agents and landmarks anywhere in [-1, 1)^2 [m], at rest; either landmark is the goal."""
        place(state, env, rng)
        state.goal[env] = philox.below(philox.bits(rng, 0, philox.RESET, 1)[0], 2)

    return Rules(
        key=f"simple_push {continuous}",
        params=Params,
        state=State,
        num_agents=2,
        action_size=5 if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, 2, 2, continuous, accel_of, cap_of, size_of),
            agent_phase(measure),
            agent_phase(score),
        ),
        reset=reset,
        observe=observe,
        lay=particles.lay(State, 2, 4),
        max_unroll=1,
    )
