"""Reverse transport: VMAS's reverse_transport as in VMAS 1.5.2. Agents push a package to a goal from inside it."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Box, Disc, Physics
from warp_kernels.physics2d.distances import overlap
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import random_point, rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, world_phase

AGENT_RADIUS: float = wp.constant(0.03)  # [m]


@wp.struct
class Params:
    """Environment parameters."""

    package_width: float  # side of the package along y [m]
    package_length: float  # side of the package along x [m]
    package_mass: float  # [kg]
    shaping_factor: float  # reward per meter that the package comes nearer to the goal [1/m]


@wp.struct
class State:
    """State of E worlds, A agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + 2) of agents, the package and the goal [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A + 1) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A + 1) in the current substep [N]
    gap: wp.array(dtype=float)  # (E,) distance of the package to the goal [m]


@cache
def physics(num_agents: int) -> Physics:
    """Return the scene."""
    package = Box("package_length", "package_width", is_hollow=True)
    return Physics(
        bodies=(
            Body("agent", Disc(AGENT_RADIUS), count=num_agents, is_movable=True, thrust=0.5),
            Body("package", package, is_movable=True, mass="package_mass"),
            Body("goal", Disc(0.09), collides=False),
        ),
        agents=num_agents,
        substeps=5,
        contact_force=500.0,
        contact_margin=0.006,
    )


@cache
def rules(num_agents: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents."""
    scene = physics(num_agents)
    package, goal = scene.row("package"), scene.row("goal")
    is_on_goal = overlap(scene, Params, State, "package", "goal")
    stop = rest(scene, State)

    @wp.func
    def judge(params: Params, state: State, io: IO, env: int):
        """Write the common reward, which the package off the goal earns by coming nearer, and terminated."""
        gap = wp.length(state.pos[env, package] - state.pos[env, goal])
        has_arrived = is_on_goal(params, state, env, package, goal)
        reward = wp.where(has_arrived, 0.0, (state.gap[env] - gap) * params.shaping_factor)
        state.gap[env] = gap
        for agent in range(num_agents):
            io.reward[env, agent] = reward
            if has_arrived:
                io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, the velocity of the package, and the ways to it from agent and goal."""
        position = state.pos[env, agent]
        middle = state.pos[env, package]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        column = write_vector(io, env, agent, column, state.vel[env, package])
        write_vectors(io, env, agent, column, middle - position, middle - state.pos[env, goal])

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place package and goal uniformly in [-1, 1)^2, and agents uniformly inside the package."""
        stop(state, env)
        square = wp.vec2(1.0, 1.0)
        state.pos[env, package] = random_point(rng, package, square)
        state.pos[env, goal] = random_point(rng, goal, square)
        half = 0.5 * wp.vec2(params.package_length, params.package_width) - wp.vec2(AGENT_RADIUS, AGENT_RADIUS)
        for agent in range(num_agents):
            state.pos[env, agent] = state.pos[env, package] + random_point(rng, agent, half)
        state.gap[env] = wp.length(state.pos[env, package] - state.pos[env, goal])

    judgment = world_phase(judge, reads="pos gap", writes="gap io.reward io.terminated")
    return scenario_rules("vmas reverse_transport", scene, Params, State, continuous, (judgment,), observe, reset)
