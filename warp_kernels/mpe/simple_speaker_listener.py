"""SimpleSpeakerListener: MPE's simple_speaker_listener as in mpe2 1.1.1. A speaker knows the goal, a listener moves.

Entities: speaker, listener, three landmarks. Nothing collides, and the speaker stays where it is.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import communication, particles
from warp_kernels.rules import Rules, agent_phase

SPEAKER: int = wp.constant(0)  # row of this agent
LISTENER: int = wp.constant(1)  # row of this agent
AGENTS: int = wp.constant(2)  # number of agents, the first rows
LANDMARKS: int = wp.constant(3)  # number of landmarks, the next rows
ENTITIES: int = wp.constant(5)  # agents and landmarks
LETTERS: int = wp.constant(3)  # size of the alphabet
LIT: float = wp.constant(0.65)  # a landmark's color in its own channel of red, green, blue
UNLIT: float = wp.constant(0.15)  # in the other two channels


@wp.struct
class Params:
    """Environment parameters; the listener's mass is 1 kg."""

    accel: float  # force of the listener at full throttle [N]


@wp.struct
class State:
    """State of E worlds, A agents, N entities, L letters."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]; 0 for the speaker
    goal: wp.array(dtype=int)  # (E,) goal landmark of the listener, known to the speaker
    said: wp.array3d(dtype=float)  # (E, 1, L) loudness of each letter
    benchmark: wp.array3d(dtype=float)  # (E, A, 1) the reward; (E, A, 0) if disabled


@cache
def rules(continuous: bool, benchmark: bool) -> Rules:
    """Build the rules for a kind of actions, with or without benchmark data."""
    speak, hear, hush = communication.channel(Params, State, 1, LETTERS, continuous, moves=False)

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return wp.where(agent == LISTENER, params.accel, 0.0)  # the speaker does not move

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward, the negative squared distance of the listener, and benchmark data."""
        gap = state.pos[env, LISTENER] - state.pos[env, AGENTS + state.goal[env]]
        reward = -wp.dot(gap, gap)
        io.reward[env, agent] = reward
        if wp.static(benchmark):
            state.benchmark[env, agent, 0] = reward

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the goal color (speaker), or own velocity [m/s], relative landmarks [m] and the message (listener)."""
        if agent == SPEAKER:
            for landmark in range(LANDMARKS):
                io.obs[env, agent, landmark] = wp.where(landmark == state.goal[env], LIT, UNLIT)
        else:
            position = state.pos[env, agent]
            vel = state.vel[env, agent]
            io.obs[env, agent, 0] = vel[0]
            io.obs[env, agent, 1] = vel[1]
            for landmark in range(LANDMARKS):
                delta = state.pos[env, AGENTS + landmark] - position
                io.obs[env, agent, 2 + 2 * landmark] = delta[0]
                io.obs[env, agent, 3 + 2 * landmark] = delta[1]
            hear(state, io, env, agent, SPEAKER, 8)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place all entities uniformly in [-1, 1)^2 [m], at rest and silent, and sample the goals."""
        for entity in range(state.pos.shape[1]):  # not unrolled, as it runs rarely
            u = philox.uniform4(rng, entity, philox.RESET, 0)
            state.pos[env, entity] = wp.vec2(2.0 * u[0] - 1.0, 2.0 * u[1] - 1.0)
        for agent in range(state.vel.shape[1]):
            state.vel[env, agent] = wp.vec2(0.0, 0.0)
        state.goal[env] = philox.below(philox.bits(rng, 0, philox.RESET, 1)[0], LANDMARKS)
        hush(state, env)

    return Rules(
        key=f"simple_speaker_listener {continuous} {benchmark}",
        params=Params,
        state=State,
        num_agents=int(AGENTS),
        action_size=int(communication.PUSHES) if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, int(AGENTS), int(ENTITIES), continuous, accel_of, cap_of),
            speak,
            agent_phase(score, reads="pos goal", writes="benchmark io.reward"),
        ),
        reset=reset,
        observe=observe,
        max_unroll=1,
    )
