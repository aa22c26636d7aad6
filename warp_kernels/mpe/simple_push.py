"""SimplePush: MPE's simple_push as in mpe2 1.1.1. An adversary keeps a good agent from its goal, by force.

Entities: the adversary, the good agent, two landmarks. Agents push each other; landmarks do not collide.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import observed_neighbors, particles
from warp_kernels.rules import Rules, agent_phase

OBSERVATIONS = {"adversary": 8, "agent": 19}  # widths by group
GOOD: int = wp.constant(1)  # row of the good agent; the landmarks are rows 2 and 3


@wp.struct
class Params:
    """Environment parameters; an agent's mass is 1 kg."""

    agent_size: float  # radius [m]
    accel: float  # force at full throttle [N]


@wp.struct
class State:
    """State of E worlds, 2 agents, 4 entities."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, 4) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, 2) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, 2) [N] in the current step
    goal: wp.array(dtype=int)  # (E,) index of the goal landmark, 0 or 1
    away: wp.array2d(dtype=float)  # (E, 2) distance of each agent to the goal [m]
    benchmark: wp.array3d(dtype=float)  # (E, 2, 0) mpe2 has no benchmark data here


@cache
def rules(continuous: bool) -> Rules:
    """Build the rules."""
    scatter = particles.random_placement(State, 2)
    see_landmarks = observed_neighbors.observe_neighbors(State, 2, 4)
    see_other = observed_neighbors.observe_neighbors(State, 0, 2)

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
        """Write the reward: good agent near the goal; adversary nearer to it than the good agent."""
        io.reward[env, agent] = wp.where(agent == GOOD, 0.0, state.away[env, GOOD]) - state.away[env, agent]

    @wp.func(inline=True)
    def paint(io: IO, env: int, agent: int, column: int, landmark: int, dark: float, bright: float):
        """Write a color (r, g, b): green for landmark 0, blue for landmark 1."""
        io.obs[env, agent, column] = dark
        io.obs[env, agent, column + 1] = wp.where(landmark == 0, bright, dark)
        io.obs[env, agent, column + 2] = wp.where(landmark == 1, bright, dark)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own velocity [m/s] and relative positions of landmarks and the other agent [m].

        The good agent also sees the goal, its own color, which is the goal's, and the landmarks' colors.
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
        """Place agents and landmarks uniformly in [-1, 1)^2 [m], at rest, and sample the goal."""
        scatter(state, env, rng)
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
            agent_phase(measure, reads="pos goal", writes="away"),
            agent_phase(score, reads="away", writes="io.reward"),
        ),
        reset=reset,
        observe=observe,
        relayout=particles.relayout(State, 2, 4),
        max_unroll=1,
    )
