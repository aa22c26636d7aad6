"""SimpleSpeakerListener: MPE's simple_speaker_listener as in mpe2 1.1.1. One knows the goal and talks, one goes.

Entities: speaker, listener, three landmarks. Nothing collides, and the speaker stays where it is.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import particles, speech
from warp_kernels.rules import Rules, agent_phase

SPEAKER = wp.constant(0)  # its row
LISTENER = wp.constant(1)  # its row
AGENTS = wp.constant(2)  # the first rows
LANDMARKS = wp.constant(3)  # the rows behind them
ENTITIES = wp.constant(5)  # both
LETTERS = wp.constant(3)  # of the alphabet
LIT = wp.constant(0.65)  # a landmark's colour in its own channel of red, green, blue
UNLIT = wp.constant(0.15)  # and in the two others


@wp.struct
class Params:
    """Constants of a world; the listener's mass is 1 kg."""

    accel: float  # force of the listener at full throttle [N]


@wp.struct
class State:
    """E worlds, A agents, N entities, L letters."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]; the speaker's stays 0
    goal: wp.array(dtype=int)  # (E,) landmark that the speaker knows and the listener should go to
    said: wp.array3d(dtype=float)  # (E, 1, L) loudness of each letter
    benchmark: wp.array3d(dtype=float)  # (E, A, 1) the reward; (E, A, 0) unless asked for


@cache
def rules(continuous: bool, benchmark: bool) -> Rules:
    """Build the rules for a kind of actions, with or without benchmark data."""
    speak, hear, hush = speech.channel(Params, State, 1, LETTERS, continuous, moves=False)

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return wp.where(agent == LISTENER, params.accel, 0.0)  # nothing pushes the speaker: it keeps its velocity, 0

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Both pay for the listener's squared distance. Writes the reward, and benchmark data."""
        gap = state.pos[env, LISTENER] - state.pos[env, AGENTS + state.goal[env]]
        reward = -wp.dot(gap, gap)
        io.reward[env, agent] = reward
        if wp.static(benchmark):
            state.benchmark[env, agent, 0] = reward

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Speaker: colour of the goal. Listener: own velocity [m/s], landmarks from here [m], what was said."""
        if agent == SPEAKER:
            for landmark in range(LANDMARKS):
                io.obs[env, agent, landmark] = wp.where(landmark == state.goal[env], LIT, UNLIT)
        else:
            here = state.pos[env, agent]
            vel = state.vel[env, agent]
            io.obs[env, agent, 0] = vel[0]
            io.obs[env, agent, 1] = vel[1]
            for landmark in range(LANDMARKS):
                delta = state.pos[env, AGENTS + landmark] - here
                io.obs[env, agent, 2 + 2 * landmark] = delta[0]
                io.obs[env, agent, 3 + 2 * landmark] = delta[1]
            hear(state, io, env, agent, SPEAKER, 8)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Everything anywhere in [-1, 1)^2 [m], at rest and silent; any goal."""
        for entity in range(state.pos.shape[1]):  # rare, so not unrolled
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
        action_size=int(speech.PUSHES) if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, int(AGENTS), int(ENTITIES), continuous, accel_of, cap_of),
            speak,
            agent_phase(score),
        ),
        reset=reset,
        observe=observe,
        max_unroll=1,
    )
