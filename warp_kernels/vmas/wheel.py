"""Wheel: VMAS's wheel as in VMAS 1.5.2. Agents turn a heavy line at a desired speed."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Line, Physics
from warp_kernels.physics2d.geometry import direction, remainder
from warp_kernels.physics2d.observations import write_vector, write_vectors
from warp_kernels.physics2d.placement import random_point, rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, agent_phase


@wp.struct
class Params:
    """Environment parameters."""

    line_length: float  # [m]
    line_mass: float  # [kg]
    desired_velocity: float  # angular speed that the line shall have [rad/s]


@wp.struct
class State:
    """State of E worlds, A agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A + 1) of agents and the line, which stays at the origin [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A + 1) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A + 1) in the current step [N]
    rot: wp.array2d(dtype=float)  # (E, 1) of the line [rad]
    spin: wp.array2d(dtype=float)  # (E, 1) [rad/s]
    torque: wp.array2d(dtype=float)  # (E, 1) in the current step [Nm]


@cache
def physics(num_agents: int) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(
            Body("agent", Disc(0.03), count=num_agents, is_movable=True, thrust=0.6),
            Body("line", Line("line_length"), is_rotatable=True, mass="line_mass"),
        ),
        agents=num_agents,
    )


@cache
def rules(num_agents: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents."""
    scene = physics(num_agents)
    line = scene.row("line")
    stop = rest(scene, State)

    @wp.func(inline=True)
    def judge(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the common reward: the error of the speed."""
        io.reward[env, agent] = -wp.abs(wp.abs(state.spin[env, 0]) - params.desired_velocity)

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own motion, the ways to middle and ends of the line, its angle, its speed and the error of it."""
        position = state.pos[env, agent]
        end = direction(state.rot[env, 0]) * (0.5 * params.line_length)
        speed = wp.abs(state.spin[env, 0])
        column = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        column = write_vectors(io, env, agent, column, state.pos[env, line] - position, end - position)
        column = write_vector(io, env, agent, column, -end - position)
        io.obs[env, agent, column] = remainder(state.rot[env, 0], wp.pi)
        io.obs[env, agent, column + 1] = speed
        io.obs[env, agent, column + 2] = wp.abs(speed - params.desired_velocity)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents uniformly in [-1, 1)^2, and turn the line by up to a quarter."""
        stop(state, env)
        for agent in range(num_agents):
            state.pos[env, agent] = random_point(rng, agent, wp.vec2(1.0, 1.0))
        state.pos[env, line] = wp.vec2(0.0, 0.0)
        state.rot[env, 0] = (philox.uniform4(rng, line, philox.RESET, 0)[0] - 0.5) * wp.pi

    judgment = agent_phase(judge, reads="spin", writes="io.reward")
    return scenario_rules("vmas wheel", scene, Params, State, continuous, (judgment,), observe, reset)
