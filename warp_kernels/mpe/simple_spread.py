"""SimpleSpread: MPE's simple_spread as in mpe2 1.1.1. Agents cover all landmarks and avoid collisions.

Entities: agents, then one landmark for each. Agents push each other; landmarks do not collide.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import observed_neighbors, particles
from warp_kernels.rules import Rules, agent_phase, item_phase

BENCHMARK = 4  # number of values in mpe2's benchmark_data


@wp.struct
class Params:
    """Environment parameters; a disc's mass is 1 kg."""

    agent_size: float  # radius [m]
    accel: float  # force at full throttle [N]
    collision_penalty: float  # per touching agent, before weighting
    capture_radius: float  # a landmark with an agent closer than this is covered [m]
    local_ratio: float  # weight of an agent's own penalty; the shared distances have the weight 1 - local_ratio
    terminate_on_success: int  # 1: the episode terminates when all landmarks are covered
    curriculum: int  # 1: the curriculum is enabled
    curriculum_stage: int  # 0: no collision penalty; 1 and above: with penalty


@wp.struct
class State:
    """State of E worlds, N agents, N landmarks."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, 2 N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, N) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, N) [N] in the current step
    nearest: wp.array2d(dtype=float)  # (E, N) distance of each landmark to the nearest agent [m]
    collisions: wp.array2d(dtype=int)  # (E, N) touching agents, summed over the steps of the episode
    benchmark: wp.array3d(dtype=float)  # (E, N, 4) mpe2's benchmark_data; (E, N, 0) if disabled


def observation_width(num_agents: int, agents_seen: int | None, landmarks_seen: int | None) -> int:
    """Return the width of an observation: own velocity and position, landmarks, other agents, two zeros per agent."""
    num_others = observed_neighbors.slots(num_agents - 1, agents_seen)
    return 4 + 2 * observed_neighbors.slots(num_agents, landmarks_seen) + 4 * num_others


@cache
def rules(
    num_agents: int, continuous: bool, agents_seen: int | None, landmarks_seen: int | None, benchmark: bool
) -> Rules:
    """Build the rules for a number of agents and of observed neighbors (None: all)."""
    scatter = particles.random_placement(State, num_agents)
    see_landmarks = observed_neighbors.observe_neighbors(State, num_agents, 2 * num_agents, landmarks_seen)
    see_agents = observed_neighbors.observe_neighbors(State, 0, num_agents, agents_seen)
    silence = 2 * observed_neighbors.slots(num_agents - 1, agents_seen)

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
    def look_out(params: Params, state: State, io: IO, env: int, landmark: int):
        """Write the distance of a landmark to the nearest agent."""
        position = state.pos[env, num_agents + landmark]
        nearest = float(wp.inf)
        for agent in range(num_agents):
            delta = state.pos[env, agent] - position
            nearest = wp.min(nearest, wp.dot(delta, delta))
        state.nearest[env, landmark] = wp.sqrt(nearest)

    @wp.func(inline=True)
    def collisions_of(params: Params, state: State, env: int, agent: int):
        position = state.pos[env, agent]
        reach = 2.0 * params.agent_size
        count = float(0.0)
        for other in range(num_agents):
            delta = state.pos[env, other] - position
            if other != agent and wp.sqrt(wp.dot(delta, delta)) < reach:
                count += 1.0
        return count

    @wp.func(inline=True)
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write reward (shared distances of landmarks, own collisions) and terminated."""
        total = float(0.0)
        covered = bool(True)
        for landmark in range(num_agents):
            nearest = state.nearest[env, landmark]
            total += nearest
            covered = covered and nearest < params.capture_radius
        penalty = float(0.0)
        collisions = collisions_of(params, state, env, agent)
        if params.curriculum == 0 or params.curriculum_stage > 0:
            penalty = params.collision_penalty * collisions
        if collisions > 0.0:
            state.collisions[env, agent] = state.collisions[env, agent] + int(collisions)
        io.reward[env, agent] = -total * (1.0 - params.local_ratio) - penalty * params.local_ratio
        if covered and params.terminate_on_success == 1:
            particles.terminate_success(io, env, agent)

    @wp.func
    def tell(params: Params, state: State, io: IO, env: int, agent: int):
        """Write mpe2's benchmark_data: own reward, collisions, sum of the distances [m], covered landmarks."""
        total = float(0.0)
        covered = float(0.0)
        for landmark in range(num_agents):
            total += state.nearest[env, landmark]
            if state.nearest[env, landmark] < params.capture_radius:
                covered += 1.0
        collisions = collisions_of(params, state, env, agent)
        state.benchmark[env, agent, 0] = -total - params.collision_penalty * collisions
        state.benchmark[env, agent, 1] = collisions
        state.benchmark[env, agent, 2] = total
        state.benchmark[env, agent, 3] = covered

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own velocity [m/s], position [m], relative landmarks and agents [m], and zeros for messages."""
        vel = state.vel[env, agent]
        position = state.pos[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        io.obs[env, agent, 2] = position[0]
        io.obs[env, agent, 3] = position[1]
        column = see_landmarks(state, io, env, agent, 4)
        column = see_agents(state, io, env, agent, column)
        for word in range(silence):
            io.obs[env, agent, column + word] = 0.0

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents and landmarks uniformly in [-1, 1)^2 [m], at rest."""
        scatter(state, env, rng)
        for agent in range(num_agents):
            state.collisions[env, agent] = 0

    motion = particles.motion(Params, State, num_agents, num_agents, continuous, accel_of, cap_of, size_of)
    return Rules(
        key=f"simple_spread {num_agents} {continuous} {agents_seen} {landmarks_seen} {benchmark}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=5 if continuous else 1,
        continuous=continuous,
        phases=(
            *motion,
            item_phase(num_agents, look_out, reads="pos", writes="nearest"),
            agent_phase(score, reads="pos nearest collisions io.step", writes="collisions io.reward io.terminated"),
            *((agent_phase(tell, reads="pos nearest", writes="benchmark"),) if benchmark else ()),
        ),
        reset=reset,
        observe=observe,
        relayout=particles.relayout(State, num_agents, 2 * num_agents),
        max_unroll=2,
    )
