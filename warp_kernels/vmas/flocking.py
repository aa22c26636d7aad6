"""Flocking: VMAS's flocking as in VMAS 1.5.2. Agents stay close to each other and to a target that moves."""

from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Physics
from warp_kernels.physics2d.distances import count_near
from warp_kernels.physics2d.lidar import lidar
from warp_kernels.physics2d.motion import continuous_throttle, discrete_throttle
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest, separate_point
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase, item_phase

RADIUS: float = wp.constant(0.05)  # of agents and the target [m]
HALF_SIDE: float = wp.constant(1.0)  # half the side of the square of starts [m]
LIDAR_RANGE: float = wp.constant(0.2)  # [m]
DISTANCE: float = wp.constant(0.1)  # that the centers of two agents should have [m]
COLLISION: float = wp.constant(0.005)  # agents that are nearer than this collide [m]
PACE: float = wp.constant(1.0 / 30.0)  # by which the force of the target turns per step [rad]


class Sizes(NamedTuple):
    """What the kernels capture."""

    num_agents: int
    """Number of agents A."""
    num_obstacles: int
    """Number of obstacles."""
    rays: int
    """Number of rays of a LIDAR."""


@wp.struct
class Params:
    """Environment parameters."""

    min_dist_between_entities: float  # of centers at the start [m]
    collision_reward: float  # reward of an agent per agent or target that is nearer than 0.005 m
    dist_shaping_factor: float  # reward per m^2 by which the deviation of distances gets less [1/m^2]


@wp.struct
class State:
    """State of E worlds, A agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) of agents, target and obstacles [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A + 1) of agents and target [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A + 1) in the current substep [N]
    drive: wp.array2d(dtype=wp.vec2)  # (E, A + 1) force by which agents and target push themselves [N]
    time: wp.array(dtype=int)  # (E,) of the target [steps]
    deviation: wp.array2d(dtype=float)  # (E, A) mean square deviation of an agent's distances from DISTANCE [m^2]


@cache
def physics(sizes: Sizes) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(
            Body("agent", Disc(RADIUS), count=sizes.num_agents, is_movable=True),
            Body("target", Disc(RADIUS), is_movable=True),
            Body("obstacle", Disc(0.1), count=sizes.num_obstacles),
        ),
        agents=sizes.num_agents,
        driven=sizes.num_agents + 1,
        substeps=5,
        contact_force=400.0,
    )


@cache
def rules(sizes: Sizes, continuous: bool) -> Rules:
    """Build the rules."""
    scene, num_agents = physics(sizes), sizes.num_agents
    num_bodies, num_flock = scene.num_bodies, num_agents + 1
    near_agents = count_near(scene, Params, State, "agent", ("agent", "target"))
    scan = lidar(scene, Params, State, ("obstacle",), sizes.rays)
    throttle = continuous_throttle if continuous else discrete_throttle
    stop = rest(scene, State)

    @wp.func(inline=True)
    def steer(params: Params, state: State, io: IO, env: int, body: int):
        """Write the force of an agent, or that of the target, which turns slowly."""
        if body < num_agents:
            state.drive[env, body] = wp.vec2(throttle(io, env, body, 0, 3), throttle(io, env, body, 1, 1))
        else:
            angle = float(state.time[env]) * PACE
            state.drive[env, body] = wp.vec2(wp.cos(angle), wp.sin(angle))
            state.time[env] += 1

    @wp.func
    def deviation_of(state: State, env: int, agent: int):
        """Return the mean square deviation of the distances to other agents and the target [m^2]."""
        total = float(0.0)
        for other in range(num_flock):
            if other != agent:
                error = wp.length(state.pos[env, agent] - state.pos[env, other]) - DISTANCE
                total += error * error
        return total / float(num_agents)

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the reward."""
        deviation = deviation_of(state, env, agent)
        reward = (state.deviation[env, agent] - deviation) * params.dist_shaping_factor
        state.deviation[env, agent] = deviation
        collisions = float(near_agents(params, state, env, agent, COLLISION))
        io.reward[env, agent] = reward + collisions * params.collision_reward

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, the way from the target, and the distances of obstacles along the rays."""
        position = state.pos[env, agent]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        first = write_vector(io, env, agent, column, position - state.pos[env, num_agents])
        column = scan(params, state, io, env, agent, LIDAR_RANGE, first)
        for ray in range(first, column):
            io.obs[env, agent, ray] = LIDAR_RANGE - io.obs[env, agent, ray]

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the target at the lower edge, then obstacles and agents apart from each other."""
        stop(state, env)
        state.time[env] = 0
        for row in range(num_bodies):
            state.pos[env, row] = wp.vec2(0.0, wp.where(row == num_agents, -HALF_SIDE, float(wp.inf)))
        square = wp.vec2(HALF_SIDE, HALF_SIDE)
        for index in range(num_bodies - 1):  # obstacles first, which are the last rows
            row = (num_agents + 1 + index) % num_bodies
            apart = params.min_dist_between_entities
            state.pos[env, row] = separate_point(state.pos, env, row, num_bodies, -1, apart, square, rng, philox.RESET)
        for agent in range(num_agents):
            state.deviation[env, agent] = deviation_of(state, env, agent)
        for body in range(num_flock):
            state.drive[env, body] = wp.vec2(0.0, 0.0)

    control = f"io.{'control' if continuous else 'choice'}"
    steering = item_phase(num_flock, steer, reads=f"time {control}", writes="drive time")
    judgment = agent_phase(judge, reads="pos deviation", writes="deviation io.reward")
    name = f"vmas flocking {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, (judgment,), observe, reset, controls=(steering,))
