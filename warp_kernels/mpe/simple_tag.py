"""SimpleTag: MPE's simple_tag as in mpe2 1.1.1. Slower adversaries chase faster good agents around obstacles.

Entities: adversaries first, then good agents, then obstacles.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import observed_neighbors, particles
from warp_kernels.rules import Rules, agent_phase

SLOWEST: float = wp.constant(0.5)  # factor of the good agents' force and speed cap in the first stage
QUICKER: float = wp.constant(0.25)  # increase per further stage, up to 1


@wp.struct
class Params:
    """Environment parameters; a disc's mass is 1 kg."""

    adversary_size: float  # radius [m]
    good_size: float  # radius [m]
    obstacle_size: float  # radius [m]
    adversary_accel: float  # force at full throttle [N]
    good_accel: float  # [N]
    adversary_max_speed: float  # [m/s]
    good_max_speed: float  # [m/s]
    tag_reward: float  # per touch of an adversary and a good agent
    terminate_on_success: int  # 1: the episode terminates when every good agent is touched
    curriculum: int  # 1: the curriculum is enabled
    curriculum_stage: int  # 0, 1, 2: good agents have 1/2, 3/4, all of their speed, from the next reset on


@wp.struct
class State:
    """State of E worlds, A agents, N entities."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) [N] in the current step
    hits: wp.array2d(dtype=int)  # (E, A) number of adversaries that touch this good agent
    touches: wp.array2d(dtype=int)  # (E, A) touches in the episode: of a good agent, or all for an adversary
    pace: wp.array(dtype=float)  # (E,) factor of the good agents' force and speed cap in this episode
    benchmark: wp.array3d(dtype=float)  # (E, A, 1) mpe2's benchmark_data; (E, A, 0) if disabled


@dataclass(frozen=True)
class Sizes:
    """Compile-time parameters of the rules."""

    num_good: int  # number of good agents, after the adversaries
    num_adversaries: int  # number of adversaries, the first rows
    num_obstacles: int  # number of obstacles, after all agents
    continuous: bool  # continuous actions
    agents_seen: int | None = None  # number of nearest agents observed; None: all
    landmarks_seen: int | None = None  # number of nearest obstacles observed; None: all
    benchmark: bool = False  # with mpe2's benchmark_data

    def observation_width(self, adversary: bool) -> int:
        """Return the width of an observation: own velocity and position, obstacles, agents, velocities of good agents.

        If only the nearest agents are observed, each has a velocity; an adversary's is 0.
        """
        num_others = observed_neighbors.slots(self.num_good + self.num_adversaries - 1, self.agents_seen)
        moving = observed_neighbors.slots(self.num_good - (0 if adversary else 1), self.agents_seen)
        return 4 + 2 * (observed_neighbors.slots(self.num_obstacles, self.landmarks_seen) + num_others + moving)


@cache
def rules(sizes: Sizes) -> Rules:
    """Build the rules for these sizes."""
    num_adversaries, num_agents = sizes.num_adversaries, sizes.num_adversaries + sizes.num_good
    num_entities = num_agents + sizes.num_obstacles
    agents_seen = sizes.agents_seen
    scatter = particles.random_placement(State, num_agents, landmarks_within=0.9)
    see_obstacles = observed_neighbors.observe_neighbors(State, num_agents, num_entities, sizes.landmarks_seen)
    see_agents = observed_neighbors.observe_neighbors(State, 0, num_agents, agents_seen)

    @wp.func(inline=True)
    def velocity(state: State, env: int, agent: int, other: int):
        return wp.where(other < num_adversaries, wp.vec2(0.0, 0.0), state.vel[env, other])

    movers = num_adversaries if agents_seen is None else 0  # first row of good agents, or of all agents
    see_velocities = observed_neighbors.observe_neighbors(State, movers, num_agents, agents_seen, velocity)

    @wp.func
    def size_of(params: Params, entity: int):
        size = params.obstacle_size
        if entity < num_adversaries:
            size = params.adversary_size
        elif entity < num_agents:
            size = params.good_size
        return size

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return wp.where(agent < num_adversaries, params.adversary_accel, params.good_accel)

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return wp.where(agent < num_adversaries, params.adversary_max_speed, params.good_max_speed)

    @wp.func(inline=True)
    def pace_of(state: State, env: int, agent: int):
        return wp.where(agent < num_adversaries, 1.0, state.pace[env])

    @wp.func
    def touch(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the number of adversaries that touch a good agent."""
        if agent >= num_adversaries:
            position = state.pos[env, agent]
            reach = params.good_size + params.adversary_size
            hits = int(0)
            for adversary in range(num_adversaries):
                delta = position - state.pos[env, adversary]
                if wp.sqrt(wp.dot(delta, delta)) < reach:
                    hits += 1
            state.hits[env, agent] = hits

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write reward (all touches for adversaries, own touches and leaving for good agents) and terminated."""
        touches = int(0)
        caught = bool(True)
        for good in range(num_adversaries, num_agents):
            touches += state.hits[env, good]
            caught = caught and state.hits[env, good] > 0
        if caught and params.terminate_on_success == 1:
            particles.terminate_success(io, env, agent)
        if agent < num_adversaries:
            io.reward[env, agent] = params.tag_reward * float(touches)
        else:
            touches = state.hits[env, agent]
            position = state.pos[env, agent]
            away = particles.outside(position[0]) + particles.outside(position[1])
            io.reward[env, agent] = -params.tag_reward * float(touches) - away
        if touches > 0:
            state.touches[env, agent] = state.touches[env, agent] + touches

    @wp.func
    def tell(params: Params, state: State, io: IO, env: int, agent: int):
        """Write mpe2's benchmark_data: number of good agents that an adversary touches; 0 for a good agent."""
        count = float(0.0)
        if agent < num_adversaries:
            for good in range(num_adversaries, num_agents):
                delta = state.pos[env, good] - state.pos[env, agent]
                if wp.sqrt(wp.dot(delta, delta)) < params.good_size + params.adversary_size:
                    count += 1.0
        state.benchmark[env, agent, 0] = count

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own velocity and position, relative obstacles and agents [m], velocities of good agents [m/s]."""
        position = state.pos[env, agent]
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        io.obs[env, agent, 2] = position[0]
        io.obs[env, agent, 3] = position[1]
        column = see_obstacles(state, io, env, agent, 4)
        column = see_agents(state, io, env, agent, column)
        see_velocities(state, io, env, agent, column)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents in [-1, 1)^2 at rest and obstacles in [-0.9, 0.9)^2 [m]; set the pace of the stage."""
        scatter(state, env, rng)
        for agent in range(num_agents):
            state.touches[env, agent] = 0
        stage = float(wp.max(params.curriculum_stage, 0))
        state.pace[env] = wp.where(params.curriculum == 1, wp.min(SLOWEST + QUICKER * stage, 1.0), 1.0)

    motion = particles.motion(
        Params, State, num_agents, num_entities, sizes.continuous, accel_of, cap_of, size_of, pace_of
    )
    return Rules(
        key=f"simple_tag {sizes}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=5 if sizes.continuous else 1,
        continuous=sizes.continuous,
        phases=(
            *motion,
            agent_phase(touch, reads="pos", writes="hits"),
            agent_phase(score, reads="pos hits touches io.step", writes="touches io.reward io.terminated"),
            *((agent_phase(tell, reads="pos", writes="benchmark"),) if sizes.benchmark else ()),
        ),
        reset=reset,
        observe=observe,
        relayout=particles.relayout(State, num_agents, num_entities),
        max_unroll=6,
    )
