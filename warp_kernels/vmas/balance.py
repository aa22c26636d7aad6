"""Balance: VMAS's balance as in VMAS 1.5.2. Agents lift a ball on a line to a goal, against gravity."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Box, Disc, Line, Physics
from warp_kernels.physics2d.distances import overlap
from warp_kernels.physics2d.geometry import remainder
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, world_phase

AGENT_RADIUS: float = wp.constant(0.03)  # [m]
BALL_RADIUS: float = wp.constant(0.05)  # of the package and the goal [m]
LINE_LENGTH: float = wp.constant(0.8)  # [m]
FLOOR: float = wp.constant(-1.53)  # height of the middle of the floor, which is 1 m thick [m]


@wp.struct
class Params:
    """Environment parameters."""

    package_mass: float  # [kg]
    random_package_pos_on_line: int  # 1: the package starts at a random place on the line, 0: in its middle
    shaping_factor: float  # reward per meter that the package comes nearer to the goal [1/m]
    fall_reward: float  # reward of a step at whose end the package or the line touches the floor


@wp.struct
class State:
    """State of E worlds, A agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + 4) of agents, package, line, goal and floor [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A + 2) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A + 2) in the current step [N]
    rot: wp.array2d(dtype=float)  # (E, 1) of the line [rad]
    spin: wp.array2d(dtype=float)  # (E, 1) [rad/s]
    torque: wp.array2d(dtype=float)  # (E, 1) in the current step [Nm]
    gap: wp.array(dtype=float)  # (E,) distance of the package to the goal [m]


@cache
def physics(num_agents: int) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(
            Body("agent", Disc(AGENT_RADIUS), count=num_agents, is_movable=True, thrust=0.7),
            Body("package", Disc(BALL_RADIUS), is_movable=True, mass="package_mass"),
            Body("line", Line(LINE_LENGTH), is_movable=True, is_rotatable=True, mass=5.0),
            Body("goal", Disc(BALL_RADIUS), collides=False),
            Body("floor", Box(10.0, 1.0)),
        ),
        agents=num_agents,
        gravity=(0.0, -0.05),
        half_height=1.0,
    )


@cache
def rules(num_agents: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents."""
    scene = physics(num_agents)
    package, line, goal, floor = map(scene.row, ("package", "line", "goal", "floor"))
    line_on_floor = overlap(scene, Params, State, "line", "floor")
    package_on_floor = overlap(scene, Params, State, "package", "floor")
    stop = rest(scene, State)

    @wp.func
    def judge(params: Params, state: State, io: IO, env: int):
        """Write the common reward: nearer to the goal, and a penalty on the floor; and terminated."""
        gap = wp.length(state.pos[env, package] - state.pos[env, goal])
        reward = (state.gap[env] - gap) * params.shaping_factor
        state.gap[env] = gap
        has_fallen = line_on_floor(params, state, env, line, floor)
        has_fallen = has_fallen or package_on_floor(params, state, env, package, floor)
        if has_fallen:
            reward += params.fall_reward
        for agent in range(num_agents):
            io.reward[env, agent] = reward
            if has_fallen or gap < 2.0 * BALL_RADIUS:
                io.terminated[env, agent] = True

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own motion, ways from package and line, that from the goal to the package, and their motion."""
        position = state.pos[env, agent]
        ball = state.pos[env, package]
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        column = write_vectors(io, env, agent, column, position - ball, position - state.pos[env, line])
        column = write_vectors(io, env, agent, column, ball - state.pos[env, goal], state.vel[env, package])
        column = write_vector(io, env, agent, column, state.vel[env, line])
        io.obs[env, agent, column] = state.spin[env, 0]
        io.obs[env, agent, column + 1] = remainder(state.rot[env, 0], wp.pi)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place the line above the agents near the floor, the package on it, and the goal in the upper half."""
        stop(state, env)
        u = philox.uniform4(rng, 0, philox.RESET, 0)
        middle = wp.vec2((2.0 * u[0] - 1.0) * (1.0 - 0.5 * LINE_LENGTH), 2.0 * AGENT_RADIUS - 1.0)
        reach = (0.5 * LINE_LENGTH - BALL_RADIUS) * float(params.random_package_pos_on_line)
        state.pos[env, line] = middle
        state.pos[env, package] = middle + wp.vec2((2.0 * u[1] - 1.0) * reach, BALL_RADIUS)
        state.pos[env, goal] = wp.vec2(2.0 * u[2] - 1.0, u[3])
        state.pos[env, floor] = wp.vec2(0.0, FLOOR)
        for agent in range(num_agents):
            share = float(agent) / float(num_agents - 1) - 0.5
            state.pos[env, agent] = middle + wp.vec2(share * (LINE_LENGTH - AGENT_RADIUS), -2.0 * AGENT_RADIUS)
        state.gap[env] = wp.length(state.pos[env, package] - state.pos[env, goal])

    judgment = world_phase(judge, reads="pos rot gap", writes="gap io.reward io.terminated")
    return scenario_rules("vmas balance", scene, Params, State, continuous, (judgment,), observe, reset)
