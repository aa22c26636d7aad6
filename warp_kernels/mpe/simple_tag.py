"""SimpleTag: MPE's simple_tag as in mpe2 1.1.1. Slower adversaries chase faster good agents around obstacles.

Entities: adversaries first, then good agents, then obstacles.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import particles
from warp_kernels.schedules import Rules, agent_phase


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


@wp.struct
class State:
    """E worlds, A agents, N entities."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) [N] of the present step
    hits: wp.array2d(dtype=int)  # (E, A) adversaries in touch with this good agent


def observation_width(num_good: int, num_adversaries: int, num_obstacles: int, adversary: bool) -> int:
    """Own velocity and position, every other entity's relative position, velocities of the other good agents."""
    others = num_good + num_adversaries - 1
    return 4 + 2 * num_obstacles + 2 * others + 2 * (num_good - (0 if adversary else 1))


@cache
def rules(num_good: int, num_adversaries: int, num_obstacles: int, continuous: bool) -> Rules:
    """Build the rules for these numbers of agents and obstacles."""
    num_agents = num_good + num_adversaries
    num_entities = num_agents + num_obstacles

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
    def outside(x: float):
        """mpe2's penalty for leaving the arena, per axis, at distance x from its centre [m]."""
        penalty = float(0.0)
        if x >= 1.0:
            penalty = wp.min(wp.exp(2.0 * x - 2.0), 10.0)
        elif x >= 0.9:
            penalty = (x - 0.9) * 10.0
        return penalty

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Every adversary earns every touch; a good agent pays its own and for leaving. Writes the reward."""
        if agent < num_adversaries:
            touches = int(0)
            for good in range(num_adversaries, num_agents):
                touches += state.hits[env, good]
            io.reward[env, agent] = params.tag_reward * float(touches)
        else:
            here = state.pos[env, agent]
            away = outside(wp.abs(here[0])) + outside(wp.abs(here[1]))
            io.reward[env, agent] = -params.tag_reward * float(state.hits[env, agent]) - away

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Own velocity and place, obstacles and agents from here [m], velocities of other good agents [m/s]."""
        here = state.pos[env, agent]
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        io.obs[env, agent, 2] = here[0]
        io.obs[env, agent, 3] = here[1]
        column = int(4)
        for obstacle in range(num_agents, num_entities):
            delta = state.pos[env, obstacle] - here
            io.obs[env, agent, column] = delta[0]
            io.obs[env, agent, column + 1] = delta[1]
            column += 2
        for other in range(num_agents):
            if other != agent:
                delta = state.pos[env, other] - here
                io.obs[env, agent, column] = delta[0]
                io.obs[env, agent, column + 1] = delta[1]
                column += 2
        for good in range(num_adversaries, num_agents):
            if good != agent:
                speed = state.vel[env, good]
                io.obs[env, agent, column] = speed[0]
                io.obs[env, agent, column + 1] = speed[1]
                column += 2

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Agents anywhere in [-1, 1)^2 at rest, obstacles in [-0.9, 0.9)^2 [m]."""
        for entity in range(state.pos.shape[1]):  # rare, so not unrolled
            u = philox.uniform4(rng, entity, philox.RESET, 0)
            half = wp.where(entity < num_agents, 1.0, 0.9)
            state.pos[env, entity] = wp.vec2((2.0 * u[0] - 1.0) * half, (2.0 * u[1] - 1.0) * half)
            if entity < num_agents:
                state.vel[env, entity] = wp.vec2(0.0, 0.0)

    return Rules(
        key=f"simple_tag {num_good} {num_adversaries} {num_obstacles} {continuous}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=5 if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, num_agents, num_entities, continuous, accel_of, cap_of, size_of),
            agent_phase(touch),
            agent_phase(score),
        ),
        reset=reset,
        observe=observe,
        max_unroll=4,
    )
