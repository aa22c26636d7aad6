"""SimpleWorldComm: MPE's simple_world_comm as in mpe2 1.1.1. A chase with hiding forests, food and a leader.

Entities: the leading adversary, the other adversaries, good agents; then obstacles, food, forests. Agents and obstacles
are solid; food and forests are places.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import communication, particles
from warp_kernels.rules import Rules, agent_phase

LEADER: int = wp.constant(0)  # row of this agent
LETTERS: int = wp.constant(4)  # size of the leader's alphabet


@wp.struct
class Params:
    """Environment parameters; a disc's mass is 1 kg."""

    adversary_size: float  # radius [m]
    good_size: float  # radius [m]
    obstacle_size: float  # radius [m]
    food_size: float  # radius [m]
    forest_size: float  # radius [m]
    adversary_accel: float  # force at full throttle [N]
    good_accel: float  # [N]
    adversary_max_speed: float  # [m/s]
    good_max_speed: float  # [m/s]
    tag_reward: float  # per touch of an adversary and a good agent
    food_reward: float  # per food that a good agent touches
    leave_cost: float  # cost of a good agent per unit of outside(x)
    hunger_cost: float  # cost of a good agent per distance to the nearest food [1/m]
    chase_cost: float  # cost of an adversary per distance to the nearest good agent [1/m]


@wp.struct
class State:
    """State of E worlds, A agents, N entities, F forests, L letters."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) [N] in the current step
    hits: wp.array2d(dtype=int)  # (E, A) number of opposing agents that touch this one
    inside: wp.array3d(dtype=wp.bool)  # (E, A, F) the agent touches the forest
    said: wp.array3d(dtype=float)  # (E, 1, L) loudness of each of the leader's letters
    benchmark: wp.array3d(dtype=float)  # (E, A, 1) number of good agents that touch an adversary; (E, A, 0) if disabled


def observation_width(good: int, adversaries: int, obstacles: int, food: int, forests: int, adversary: bool) -> int:
    """Return the width of an observation: own motion, relative positions, velocities, forests, the leader's message."""
    width = 4 + 2 * (obstacles + food + forests) + 2 * (good + adversaries - 1) + forests
    return width + (2 * good + int(LETTERS) if adversary else 2 * (good - 1))


@cache
def rules(
    num_good: int,
    num_adversaries: int,
    num_obstacles: int,
    num_food: int,
    num_forests: int,
    continuous: bool,
    benchmark: bool,
) -> Rules:
    """Build the rules for these numbers of agents and landmarks."""
    num_agents = num_good + num_adversaries
    num_solid = num_agents + num_obstacles
    first_forest = num_solid + num_food
    num_entities = first_forest + num_forests
    speak, hear, hush = communication.channel(Params, State, 1, LETTERS, continuous, moves=True)

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
    def distance(state: State, env: int, entity: int, other: int):
        delta = state.pos[env, entity] - state.pos[env, other]
        return wp.sqrt(wp.dot(delta, delta))

    @wp.func(inline=True)
    def shelter(params: Params, state: State, env: int, agent: int):
        """Write the forests that an agent touches."""
        reach = params.forest_size + size_of(params, agent)
        for forest in range(num_forests):
            state.inside[env, agent, forest] = distance(state, env, agent, first_forest + forest) < reach

    @wp.func
    def touch(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the agent's hits and forests."""
        reach = params.good_size + params.adversary_size
        hits = int(0)
        for other in range(num_agents):
            if (other < num_adversaries) != (agent < num_adversaries):
                if distance(state, env, agent, other) < reach:
                    hits += 1
        state.hits[env, agent] = hits
        shelter(params, state, env, agent)

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward and benchmark data.

        Every adversary is rewarded for every touch and pays for its distance to the nearest prey. A good agent pays
        for touches, for leaving and for its distance to the nearest food, and is rewarded for touched food.
        """
        reward = float(0.0)
        nearest = float(1.0e30)
        if agent < num_adversaries:
            touches = int(0)
            for good in range(num_adversaries, num_agents):
                touches += state.hits[env, good]
                nearest = wp.min(nearest, distance(state, env, agent, good))
            reward = params.tag_reward * float(touches) - params.chase_cost * nearest
        else:
            position = state.pos[env, agent]
            away = particles.outside(position[0]) + particles.outside(position[1])
            reward = -params.tag_reward * float(state.hits[env, agent]) - params.leave_cost * away
            for food in range(num_solid, first_forest):
                gap = distance(state, env, agent, food)
                if gap < params.good_size + params.food_size:
                    reward += params.food_reward
                nearest = wp.min(nearest, gap)
            reward -= params.hunger_cost * nearest
        io.reward[env, agent] = reward
        if wp.static(benchmark):
            state.benchmark[env, agent, 0] = wp.where(agent < num_adversaries, float(state.hits[env, agent]), 0.0)

    @wp.func(inline=True)
    def sees(state: State, env: int, agent: int, other: int):
        """Return visibility: both agents share a forest or are outside of forests; the leader sees all agents."""
        together = bool(False)
        covered = bool(False)
        for forest in range(num_forests):
            mine = state.inside[env, agent, forest]
            theirs = state.inside[env, other, forest]
            together = together or (mine and theirs)
            covered = covered or mine or theirs
        return together or not covered or agent == LEADER

    @wp.func(inline=True)
    def put(io: IO, env: int, agent: int, column: int, value: wp.vec2):
        io.obs[env, agent, column] = value[0]
        io.obs[env, agent, column + 1] = value[1]

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own motion, relative positions [m] and velocities [m/s]; 0 for agents that are not visible."""
        position = state.pos[env, agent]
        put(io, env, agent, 0, state.vel[env, agent])
        put(io, env, agent, 2, position)
        column = int(4)
        for landmark in range(num_agents, num_entities):
            put(io, env, agent, column, state.pos[env, landmark] - position)
            column += 2
        places = column
        velocities = column + 2 * (num_agents - 1)
        forests = velocities
        if agent < num_adversaries:
            forests += 2 * num_good
            hear(state, io, env, agent, LEADER, forests + num_forests)
        else:
            velocities += num_forests
        for other in range(num_agents):
            if other != agent:
                is_seen = sees(state, env, agent, other)
                put(io, env, agent, places, wp.where(is_seen, state.pos[env, other] - position, wp.vec2(0.0, 0.0)))
                places += 2
                if other >= num_adversaries:
                    put(io, env, agent, velocities, wp.where(is_seen, state.vel[env, other], wp.vec2(0.0, 0.0)))
                    velocities += 2
        for forest in range(num_forests):
            io.obs[env, agent, forests + forest] = wp.where(state.inside[env, agent, forest], 1.0, -1.0)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents in [-1, 1)^2 at rest and other entities in [-0.9, 0.9)^2 [m]; set silence."""
        for entity in range(state.pos.shape[1]):  # not unrolled, as it runs rarely
            u = philox.uniform4(rng, entity, philox.RESET, 0)
            half = wp.where(entity < num_agents, 1.0, 0.9)
            state.pos[env, entity] = wp.vec2((2.0 * u[0] - 1.0) * half, (2.0 * u[1] - 1.0) * half)
        for agent in range(state.vel.shape[1]):
            state.vel[env, agent] = wp.vec2(0.0, 0.0)
            shelter(params, state, env, agent)
        hush(state, env)

    return Rules(
        key=f"simple_world_comm {num_good} {num_adversaries} {num_obstacles} {num_food} {num_forests} "
        f"{continuous} {benchmark}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=int(communication.PUSHES) + int(LETTERS) if continuous else 1,
        continuous=continuous,
        phases=(
            *particles.motion(Params, State, num_agents, num_solid, continuous, accel_of, cap_of, size_of),
            speak,
            agent_phase(touch, reads="pos", writes="hits inside"),
            agent_phase(score, reads="pos hits", writes="benchmark io.reward"),
        ),
        reset=reset,
        observe=observe,
        relayout=particles.relayout(State, num_agents, num_entities),
        max_unroll=1,
    )
