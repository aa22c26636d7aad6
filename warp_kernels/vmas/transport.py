"""Transport: VMAS's transport as in VMAS 1.5.2. Agents push heavy packages to a goal."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Box, Disc, Physics
from warp_kernels.physics2d.distances import overlap
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest, separate_point
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, world_phase

AGENT_RADIUS = 0.03  # [m]
GOAL_RADIUS = 0.15  # [m]
MARGIN = 0.01  # of the distance between goal and packages at the start [m]
HALF_SIDE: float = wp.constant(1.0)  # half the side of the square of starts [m]


@wp.struct
class Params:
    """Environment parameters."""

    package_width: float  # side of a package along y [m]
    package_length: float  # side of a package along x [m]
    package_mass: float  # [kg]
    shaping_factor: float  # reward per meter that a package comes nearer to the goal [1/m]
    half_side: float  # centers stay in [-half_side, half_side] [m]


@wp.struct
class State:
    """State of E worlds, A agents, P packages."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + P + 1) of agents, packages and the goal [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A + P) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A + P) in the current step [N]
    gap: wp.array2d(dtype=float)  # (E, P) distance of a package to the goal [m]
    on_goal: wp.array2d(dtype=int)  # (E, P) 1: the package overlaps the goal


@cache
def physics(num_agents: int, num_packages: int) -> Physics:
    """Return the scene."""
    package = Box("package_length", "package_width")
    return Physics(
        bodies=(
            Body("agent", Disc(AGENT_RADIUS), count=num_agents, is_movable=True, thrust=0.6),
            Body("package", package, count=num_packages, is_movable=True, mass="package_mass"),
            Body("goal", Disc(GOAL_RADIUS), collides=False),
        ),
        agents=num_agents,
        half_width="half_side",
        half_height="half_side",
    )


@cache
def rules(num_agents: int, num_packages: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents and packages."""
    scene = physics(num_agents, num_packages)
    goal = scene.row("goal")
    is_on_goal = overlap(scene, Params, State, "package", "goal")
    stop = rest(scene, State)

    @wp.func
    def look(params: Params, state: State, env: int, package: int):
        row = num_agents + package
        state.gap[env, package] = wp.length(state.pos[env, row] - state.pos[env, goal])
        state.on_goal[env, package] = int(is_on_goal(params, state, env, row, goal))

    @wp.func
    def judge(params: Params, state: State, io: IO, env: int):
        """Write the common reward, which packages off the goal earn by coming nearer, and terminated."""
        reward = float(0.0)
        arrived = int(0)
        for package in range(num_packages):
            gap = state.gap[env, package]
            look(params, state, env, package)
            if state.on_goal[env, package] == 0:
                reward += (gap - state.gap[env, package]) * params.shaping_factor
            arrived += state.on_goal[env, package]
        for agent in range(num_agents):
            io.reward[env, agent] = reward
            if arrived == num_packages:
                io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, and of every package the way from goal and agent, velocity, and on_goal."""
        position = state.pos[env, agent]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        for package in range(num_packages):
            package_position = state.pos[env, num_agents + package]
            column = write_vectors(
                io, env, agent, column, package_position - state.pos[env, goal], package_position - position
            )
            column = write_vector(io, env, agent, column, state.vel[env, num_agents + package])
            io.obs[env, agent, column] = float(state.on_goal[env, package])
            column += 1

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents apart from each other; then goal and packages, so far from all that none is on the goal."""
        stop(state, env)
        square = wp.vec2(HALF_SIDE, HALF_SIDE)
        for agent in range(num_agents):
            near = 2.0 * AGENT_RADIUS
            state.pos[env, agent] = separate_point(state.pos, env, agent, agent, -1, near, square, rng, philox.RESET)
        apart = 0.5 * wp.length(wp.vec2(params.package_length, params.package_width)) + GOAL_RADIUS + MARGIN
        state.pos[env, goal] = separate_point(state.pos, env, goal, num_agents, -1, apart, square, rng, philox.RESET)
        for package in range(num_packages):
            row = num_agents + package
            state.pos[env, row] = separate_point(state.pos, env, row, row, goal, apart, square, rng, philox.RESET)
            look(params, state, env, package)

    judgment = world_phase(judge, reads="pos gap on_goal", writes="gap on_goal io.reward io.terminated")
    return scenario_rules("vmas transport", scene, Params, State, continuous, (judgment,), observe, reset)
