"""SimpleReference: MPE's simple_reference as in mpe2 1.1.1. Two agents know and communicate the goal of each other.

Entities: the two agents, then three landmarks. Nothing collides.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import communication, particles
from warp_kernels.rules import Rules, agent_phase

AGENTS: int = wp.constant(2)  # number of agents, the first rows
LANDMARKS: int = wp.constant(3)  # number of landmarks, the next rows
ENTITIES: int = wp.constant(5)  # agents and landmarks
LETTERS: int = wp.constant(10)  # size of the alphabet
LIT: float = wp.constant(0.75)  # a landmark's color in its own channel of red, green, blue
UNLIT: float = wp.constant(0.25)  # in the other two channels


@wp.struct
class Params:
    """Environment parameters; a disc's mass is 1 kg."""

    accel: float  # force at full throttle [N]
    local_ratio: float  # weight of an agent's own reward; the mean of both has the weight 1 - local_ratio


@wp.struct
class State:
    """State of E worlds, A agents, N entities, L letters."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    goal: wp.array2d(dtype=int)  # (E, A) goal landmark of the other agent, known to this one
    said: wp.array3d(dtype=float)  # (E, A, L) loudness of each letter
    benchmark: wp.array3d(dtype=float)  # (E, A, 0) mpe2 has no benchmark data here


@cache
def rules(continuous: bool) -> Rules:
    """Build the rules for a kind of actions."""
    speak, hear, hush = communication.channel(Params, State, AGENTS, LETTERS, continuous, moves=True)

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return params.accel

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def astray(state: State, env: int, agent: int):
        """Return the distance of the other agent to its goal [m]."""
        gap = state.pos[env, 1 - agent] - state.pos[env, AGENTS + state.goal[env, agent]]
        return wp.sqrt(wp.dot(gap, gap))

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward by the distances of both agents to their goals."""
        mine = astray(state, env, agent)
        mean = 0.5 * (mine + astray(state, env, 1 - agent))
        io.reward[env, agent] = -mean * (1.0 - params.local_ratio) - mine * params.local_ratio

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own velocity [m/s], relative landmarks [m], color of the other agent's goal, and its message."""
        position = state.pos[env, agent]
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        for landmark in range(LANDMARKS):
            delta = state.pos[env, AGENTS + landmark] - position
            io.obs[env, agent, 2 + 2 * landmark] = delta[0]
            io.obs[env, agent, 3 + 2 * landmark] = delta[1]
            io.obs[env, agent, 8 + landmark] = wp.where(landmark == state.goal[env, agent], LIT, UNLIT)
        hear(state, io, env, agent, 1 - agent, 11)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place all entities uniformly in [-1, 1)^2 [m], at rest and silent, and sample the goals."""
        for entity in range(state.pos.shape[1]):  # not unrolled, as it runs rarely
            u = philox.uniform4(rng, entity, philox.RESET, 0)
            state.pos[env, entity] = wp.vec2(2.0 * u[0] - 1.0, 2.0 * u[1] - 1.0)
        for agent in range(state.vel.shape[1]):
            word = philox.bits(rng, agent, philox.RESET, 1)
            state.vel[env, agent] = wp.vec2(0.0, 0.0)
            state.goal[env, agent] = philox.below(word[0], LANDMARKS)
        hush(state, env)

    return Rules(
        key=f"simple_reference {continuous}",
        params=Params,
        state=State,
        num_agents=int(AGENTS),
        action_size=int(communication.PUSHES) + int(LETTERS) if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, int(AGENTS), int(ENTITIES), continuous, accel_of, cap_of),
            speak,
            agent_phase(score, reads="pos goal", writes="io.reward"),
        ),
        reset=reset,
        observe=observe,
        max_unroll=1,
    )
