"""SimpleTag: MPE's simple_tag as in mpe2 1.1.1. Slower adversaries chase faster good agents around obstacles.

Entities: adversaries first, then good agents, then obstacles.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import neighbours, particles
from warp_kernels.rules import Rules, agent_phase

SLOWEST = wp.constant(0.5)  # share of their force and speed cap that good agents have in the first stage
QUICKER = wp.constant(0.25)  # what every further stage adds, up to all


@wp.struct
class Params:
    """Constants of a world; a disc's mass is 1 kg."""

    adversary_size: float  # radius [m]
    good_size: float  # radius [m]
    obstacle_size: float  # radius [m]
    adversary_accel: float  # force at full throttle [N]
    good_accel: float  # [N]
    adversary_max_speed: float  # [m/s]
    good_max_speed: float  # [m/s]
    tag_reward: float  # per adversary and good agent in touch
    terminate_on_success: int  # 1: the episode ends once every good agent is touched
    curriculum: int  # 1: stages are in force
    curriculum_stage: int  # 0, 1, 2: good agents are half, three quarters, all as quick; from the next reset on


@wp.struct
class State:
    """E worlds, A agents, N entities."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) [N] of the present step
    hits: wp.array2d(dtype=int)  # (E, A) adversaries in touch with this good agent
    pace: wp.array(dtype=float)  # (E,) share of their force and speed cap that good agents have in this episode
    benchmark: wp.array3d(dtype=float)  # (E, A, 1) mpe2's benchmark_data; (E, A, 0) where it is not asked for


@dataclass(frozen=True)
class Sizes:
    """What the rules are specialised to."""

    num_good: int  # good agents, behind the adversaries
    num_adversaries: int  # adversaries, the first rows
    num_obstacles: int  # obstacles, behind all agents
    continuous: bool  # actions are boxes
    agents_seen: int | None = None  # nearest agents observed; None: all
    landmarks_seen: int | None = None  # nearest obstacles observed; None: all
    benchmark: bool = False  # tell mpe2's benchmark_data

    def observation_width(self, adversary: bool) -> int:
        """Own velocity and position, obstacles, other agents, velocities of the other good agents.

        Where only the nearest agents are seen, each of them has a place for its velocity, an adversary's is 0.
        """
        others = neighbours.slots(self.num_good + self.num_adversaries - 1, self.agents_seen)
        moving = neighbours.slots(self.num_good - (0 if adversary else 1), self.agents_seen)
        return 4 + 2 * (neighbours.slots(self.num_obstacles, self.landmarks_seen) + others + moving)


@cache
def rules(sizes: Sizes) -> Rules:
    """Build the rules for these sizes."""
    num_adversaries, num_agents = sizes.num_adversaries, sizes.num_adversaries + sizes.num_good
    num_entities = num_agents + sizes.num_obstacles
    agents_seen = sizes.agents_seen
    place = particles.scatter(State, num_agents, landmarks_within=0.9)
    see_obstacles = neighbours.sight(State, num_agents, num_entities, sizes.landmarks_seen)
    see_agents = neighbours.sight(State, 0, num_agents, agents_seen)

    @wp.func(inline=True)
    def velocity(state: State, env: int, agent: int, other: int):
        return wp.where(other < num_adversaries, wp.vec2(0.0, 0.0), state.vel[env, other])

    movers = num_adversaries if agents_seen is None else 0  # all good agents, or the nearest of all
    see_velocities = neighbours.sight(State, movers, num_agents, agents_seen, velocity)

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
        """Count the adversaries on a good agent; writes its hits."""
        if agent >= num_adversaries:
            here = state.pos[env, agent]
            reach = params.good_size + params.adversary_size
            hits = int(0)
            for adversary in range(num_adversaries):
                delta = here - state.pos[env, adversary]
                if wp.sqrt(wp.dot(delta, delta)) < reach:
                    hits += 1
            state.hits[env, agent] = hits

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Every adversary earns every touch; a good agent pays its own and for leaving. Writes reward, terminated."""
        touches = int(0)
        caught = bool(True)
        for good in range(num_adversaries, num_agents):
            touches += state.hits[env, good]
            caught = caught and state.hits[env, good] > 0
        if caught and params.terminate_on_success == 1:
            particles.succeed(io, env, agent)
        if agent < num_adversaries:
            io.reward[env, agent] = params.tag_reward * float(touches)
        else:
            here = state.pos[env, agent]
            away = particles.outside(here[0]) + particles.outside(here[1])
            io.reward[env, agent] = -params.tag_reward * float(state.hits[env, agent]) - away

    @wp.func
    def tell(params: Params, state: State, io: IO, env: int, agent: int):
        """Write mpe2's benchmark_data: how many good agents an adversary touches; 0 of a good agent."""
        count = float(0.0)
        if agent < num_adversaries:
            for good in range(num_adversaries, num_agents):
                delta = state.pos[env, good] - state.pos[env, agent]
                if wp.sqrt(wp.dot(delta, delta)) < params.good_size + params.adversary_size:
                    count += 1.0
        state.benchmark[env, agent, 0] = count

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Own velocity and place, obstacles and agents from here [m], velocities of other good agents [m/s]."""
        here = state.pos[env, agent]
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        io.obs[env, agent, 2] = here[0]
        io.obs[env, agent, 3] = here[1]
        column = see_obstacles(state, io, env, agent, 4)
        column = see_agents(state, io, env, agent, column)
        see_velocities(state, io, env, agent, column)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Agents anywhere in [-1, 1)^2 at rest, obstacles in [-0.9, 0.9)^2 [m]; good agents as quick as the stage."""
        place(state, env, rng)
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
            agent_phase(touch),
            agent_phase(score),
            *((agent_phase(tell),) if sizes.benchmark else ()),
        ),
        reset=reset,
        observe=observe,
        lay=particles.lay(State, num_agents, num_entities),
        max_unroll=6,
    )
