"""CollectTreasure: MPE's collect_treasure as in mpe2 1.1.1. Collectors carry treasures to the deposits of their type.

Entities: collectors, then deposits, then treasures. Nothing pushes another disc. Deposit i accepts treasures of type i.
"""

from dataclasses import dataclass
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, episode_key, keyed_stream
from warp_kernels.mpe import particles
from warp_kernels.mpe.observed_neighbors import nearest_after
from warp_kernels.rules import Rules, agent_phase, world_phase

BENCHMARK = 2  # number of values in mpe2's benchmark_data
AWAY: float = wp.constant(-999.0)  # coordinates of a treasure that is not there [m]
WITHIN: float = wp.constant(0.95)  # largest coordinate of a new treasure [m]


@wp.struct
class Params:
    """Environment parameters; a collector's mass is 1 kg."""

    collector_size: float  # radius [m]
    deposit_size: float  # radius [m]
    treasure_size: float  # radius [m]
    accel: float  # force at full throttle [N]
    deposit_mass: float  # mass of a deposit [kg]
    max_speed: float  # [m/s]
    respawn_prob: float  # probability [1/step] that a treasure appears again
    event_reward: float  # of all agents, per treasure that is picked up or delivered
    collision_penalty: float  # of a collector, per other collector that it touches
    distance_cost: float  # per distance to the next goal [1/m]


@wp.struct
class State:
    """State of E worlds, C collectors, A agents, T treasures."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + T) [m]; a treasure that is not there is far away
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    holding: wp.array2d(dtype=int)  # (E, C) 1 + type of the treasure that the collector carries; 0: none
    kind: wp.array2d(dtype=int)  # (E, T) 1 + type of a treasure; 0: it is not there
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode
    events: wp.array(dtype=int)  # (E,) treasures picked up or delivered in the last step
    benchmark: wp.array3d(dtype=float)  # (E, A, 2) mpe2's benchmark_data; (E, A, 0) if disabled


@dataclass(frozen=True)
class Sizes:
    """Compile-time parameters of the rules."""

    num_collectors: int  # number of collectors C, the first rows
    num_deposits: int  # number of deposits and of types K, after the collectors
    num_treasures: int  # number of treasures T, after all agents
    continuous: bool  # continuous actions
    benchmark: bool = False  # with mpe2's benchmark_data

    def observation_width(self, collector: bool) -> int:
        """Return the width of an observation: own motion, own treasure, other agents, treasures."""
        types = self.num_deposits
        num_others = self.num_collectors + self.num_deposits - 1
        return 4 + (types if collector else 0) + num_others * (4 + 2 * types) + self.num_treasures * (2 + types)


@cache
def rules(sizes: Sizes) -> Rules:
    """Build the rules for these sizes."""
    num_collectors, num_types, num_treasures = sizes.num_collectors, sizes.num_deposits, sizes.num_treasures
    num_agents = num_collectors + num_types
    num_entities = num_agents + num_treasures
    scatter = particles.random_placement(State, num_agents, landmarks_within=0.95)

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return params.accel / wp.where(agent < num_collectors, 1.0, params.deposit_mass)

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return params.max_speed

    @wp.func(inline=True)
    def distance(state: State, env: int, entity: int, other: int):
        delta = state.pos[env, entity] - state.pos[env, other]
        return wp.sqrt(wp.dot(delta, delta))

    @wp.func
    def carry(params: Params, state: State, io: IO, env: int):
        """Pick up, place and deliver treasures, in row order; write treasures, what is carried, and the events."""
        events = int(0)
        reach = params.treasure_size + params.collector_size
        rng = keyed_stream(io, env, state.key[env])
        for treasure in range(num_treasures):
            row = num_agents + treasure
            kind = state.kind[env, treasure]
            if kind > 0:
                is_taken = bool(False)
                for collector in range(num_collectors):
                    if not is_taken and state.holding[env, collector] == 0:
                        if distance(state, env, row, collector) < reach:
                            is_taken = True
                            state.holding[env, collector] = kind
                if is_taken:
                    events += 1
                    state.kind[env, treasure] = 0
                    state.pos[env, row] = wp.vec2(AWAY, AWAY)
            else:
                u = philox.uniform4(rng, treasure, philox.STEP, 0)
                if u[3] <= params.respawn_prob:
                    state.pos[env, row] = wp.vec2((2.0 * u[0] - 1.0) * WITHIN, (2.0 * u[1] - 1.0) * WITHIN)
                    state.kind[env, treasure] = 1 + wp.min(int(u[2] * float(num_types)), num_types - 1)
        reach = params.collector_size + params.deposit_size
        for collector in range(num_collectors):
            load = state.holding[env, collector]
            if load > 0:
                if distance(state, env, collector, num_collectors + load - 1) < reach:
                    events += 1
                    state.holding[env, collector] = 0
        state.events[env] = events

    @wp.func(inline=True)
    def score_collector(params: Params, state: State, env: int, agent: int):
        """Return the penalty for touches and for the distance to the nearest treasure or to the deposit."""
        penalty = float(0.0)
        for other in range(num_collectors):
            if other != agent and distance(state, env, agent, other) < 2.0 * params.collector_size:
                penalty += params.collision_penalty
        load = state.holding[env, agent]
        if load > 0:
            penalty += params.distance_cost * distance(state, env, agent, num_collectors + load - 1)
        else:
            nearest = float(wp.inf)
            for treasure in range(num_treasures):
                if state.kind[env, treasure] > 0:
                    nearest = wp.min(nearest, distance(state, env, agent, num_agents + treasure))
            if nearest < wp.inf:
                penalty += params.distance_cost * nearest
        return penalty

    @wp.func(inline=True)
    def score_deposit(params: Params, state: State, env: int, agent: int):
        """Return the penalty for the distance to the nearest collector with a treasure of the own type.

        Without one it is the distance to the center of all collectors.
        """
        nearest = float(wp.inf)
        center = wp.vec2(0.0, 0.0)
        for collector in range(num_collectors):
            center += state.pos[env, collector]
            if state.holding[env, collector] == 1 + agent - num_collectors:
                nearest = wp.min(nearest, distance(state, env, agent, collector))
        if nearest == wp.inf:
            delta = center / float(num_collectors) - state.pos[env, agent]
            nearest = wp.sqrt(wp.dot(delta, delta))
        return params.distance_cost * nearest

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward: the events of the world, less the agent's own penalty."""
        shared = params.event_reward * float(state.events[env])
        if agent < num_collectors:
            io.reward[env, agent] = shared - score_collector(params, state, env, agent)
        else:
            io.reward[env, agent] = shared - score_deposit(params, state, env, agent)

    @wp.func
    def tell(params: Params, state: State, io: IO, env: int, agent: int):
        """Write mpe2's benchmark_data: a collector's type or -1, or a deposit's carriers; number of treasures left."""
        left = float(0.0)
        for treasure in range(num_treasures):
            if state.kind[env, treasure] > 0:
                left += 1.0
        first = float(0.0)
        if agent < num_collectors:
            first = float(state.holding[env, agent] - 1)
        else:
            for collector in range(num_collectors):
                if state.holding[env, collector] == 1 + agent - num_collectors:
                    first += 1.0
        state.benchmark[env, agent, 0] = first
        state.benchmark[env, agent, 1] = left

    @wp.func(inline=True)
    def mark(io: IO, env: int, agent: int, column: int, kind: int):
        """Write a type as K numbers of which one is 1; kind is 1 + type, or 0 for zeros."""
        for index in range(num_types):
            io.obs[env, agent, column + index] = wp.where(kind == 1 + index, 1.0, 0.0)

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own motion and treasure, other agents and treasures, each nearest first, and zeros for the missing."""
        position = state.pos[env, agent]
        vel = state.vel[env, agent]
        io.obs[env, agent, 0] = position[0]
        io.obs[env, agent, 1] = position[1]
        io.obs[env, agent, 2] = vel[0]
        io.obs[env, agent, 3] = vel[1]
        column = int(4)
        if agent < num_collectors:
            mark(io, env, agent, column, state.holding[env, agent])
            column += num_types
        squared = float(-1.0)
        other = int(-1)
        rank = int(0)
        while rank < num_agents - 1:
            squared, other = nearest_after(state.pos, env, agent, 0, num_agents, squared, other)
            if other < 0:  # positions that are not finite
                rank = num_agents
            else:
                delta = state.pos[env, other] - position
                speed = state.vel[env, other]
                io.obs[env, agent, column] = delta[0]
                io.obs[env, agent, column + 1] = delta[1]
                io.obs[env, agent, column + 2] = speed[0]
                io.obs[env, agent, column + 3] = speed[1]
                collector = other < num_collectors
                load = int(0)
                if collector:
                    load = state.holding[env, other]
                mark(io, env, agent, column + 4, wp.where(collector, 0, 1 + other - num_collectors))
                mark(io, env, agent, column + 4 + num_types, load)
                column += 4 + 2 * num_types
                rank += 1
        squared = float(-1.0)
        other = int(-1)
        rank = int(0)
        while rank < num_treasures:  # missing ones are far away, so they are last
            squared, other = nearest_after(state.pos, env, agent, num_agents, num_entities, squared, other)
            delta = wp.vec2(0.0, 0.0)
            kind = int(0)
            if other >= 0:
                kind = state.kind[env, other - num_agents]
                if kind > 0:
                    delta = state.pos[env, other] - position
            io.obs[env, agent, column] = delta[0]
            io.obs[env, agent, column + 1] = delta[1]
            mark(io, env, agent, column + 2, kind)
            column += 2 + num_types
            rank += 1

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents in [-1, 1)^2 at rest and treasures in [-0.95, 0.95)^2 [m], with types at random."""
        scatter(state, env, rng)
        for collector in range(num_collectors):
            state.holding[env, collector] = 0
        for treasure in range(num_treasures):
            word = philox.bits(rng, num_agents + treasure, philox.RESET, 1)
            state.kind[env, treasure] = 1 + philox.below(word[0], num_types)
        state.key[env] = episode_key(rng)
        state.events[env] = 0

    motion = particles.motion(Params, State, num_agents, num_agents, sizes.continuous, accel_of, cap_of)
    return Rules(
        key=f"collect_treasure {sizes}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=5 if sizes.continuous else 1,
        continuous=sizes.continuous,
        phases=(
            *motion,
            world_phase(carry, reads="pos holding kind key io.step", writes="pos holding kind events"),
            agent_phase(score, reads="pos holding kind events", writes="io.reward"),
            *((agent_phase(tell, reads="holding kind", writes="benchmark"),) if sizes.benchmark else ()),
        ),
        reset=reset,
        observe=observe,
        max_unroll=2,
    )
