"""SimpleAdversary: MPE's simple_adversary as in mpe2 1.1.1. Good agents conceal which landmark is the goal.

Entities: the adversary, the good agents, then one landmark for each good agent. Nothing collides.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import observed_neighbors, particles
from warp_kernels.rules import Rules, agent_phase


@wp.struct
class Params:
    """Environment parameters; an agent's mass is 1 kg."""

    accel: float  # force at full throttle [N]


@wp.struct
class State:
    """State of E worlds, A = 1 + N agents, N landmarks."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    goal: wp.array(dtype=int)  # (E,) index of the goal landmark
    away: wp.array2d(dtype=float)  # (E, A) distance of each agent to the goal [m]
    benchmark: wp.array3d(dtype=float)  # (E, A, N + 1) mpe2's benchmark_data; (E, A, 0) if disabled


def observation_width(num_good: int, agents_seen: int | None, landmarks_seen: int | None, adversary: bool) -> int:
    """Return the width of an observation: the goal (good agents only), landmarks, other agents."""
    discs = observed_neighbors.slots(num_good, landmarks_seen) + observed_neighbors.slots(num_good, agents_seen)
    return 2 * (discs if adversary else discs + 1)


@cache
def rules(
    num_good: int, continuous: bool, agents_seen: int | None, landmarks_seen: int | None, benchmark: bool
) -> Rules:
    """Build the rules for a number of good agents and of observed neighbors (None: all)."""
    num_agents = 1 + num_good
    scatter = particles.random_placement(State, num_agents)
    see_landmarks = observed_neighbors.observe_neighbors(State, num_agents, num_agents + num_good, landmarks_seen)
    see_agents = observed_neighbors.observe_neighbors(State, 0, num_agents, agents_seen)

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return params.accel

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def measure(params: Params, state: State, io: IO, env: int, agent: int):
        """Write an agent's distance to the goal."""
        delta = state.pos[env, num_agents + state.goal[env]] - state.pos[env, agent]
        state.away[env, agent] = wp.sqrt(wp.dot(delta, delta))

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward: adversary near the goal; good agents with one of them near it and the adversary away."""
        reward = -state.away[env, 0]
        if agent > 0:
            nearest = float(wp.inf)
            for good in range(1, num_agents):
                nearest = wp.min(nearest, state.away[env, good])
            reward = state.away[env, 0] - nearest
        io.reward[env, agent] = reward

    @wp.func
    def tell(params: Params, state: State, io: IO, env: int, agent: int):
        """Write mpe2's benchmark_data [m^2]: squared distances to all landmarks, then to the goal; or only that."""
        column = int(0)
        if agent > 0:
            for landmark in range(num_agents, num_agents + num_good):
                delta = state.pos[env, landmark] - state.pos[env, agent]
                state.benchmark[env, agent, column] = wp.dot(delta, delta)
                column += 1
        state.benchmark[env, agent, column] = state.away[env, agent] * state.away[env, agent]

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write relative positions of the goal (good agents only), landmarks and agents [m]."""
        column = int(0)
        if agent > 0:
            delta = state.pos[env, num_agents + state.goal[env]] - state.pos[env, agent]
            io.obs[env, agent, 0] = delta[0]
            io.obs[env, agent, 1] = delta[1]
            column = 2
        column = see_landmarks(state, io, env, agent, column)
        see_agents(state, io, env, agent, column)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents and landmarks uniformly in [-1, 1)^2 [m], at rest, and sample the goal."""
        scatter(state, env, rng)
        state.goal[env] = philox.below(philox.bits(rng, 0, philox.RESET, 1)[0], num_good)

    motion = particles.motion(Params, State, num_agents, num_agents, continuous, accel_of, cap_of)
    return Rules(
        key=f"simple_adversary {num_good} {continuous} {agents_seen} {landmarks_seen} {benchmark}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=5 if continuous else 1,
        continuous=continuous,
        phases=(
            *motion,
            agent_phase(measure, reads="pos goal", writes="away"),
            agent_phase(score, reads="away", writes="io.reward"),
            *((agent_phase(tell, reads="pos away", writes="benchmark"),) if benchmark else ()),
        ),
        reset=reset,
        observe=observe,
        max_unroll=2,
    )
