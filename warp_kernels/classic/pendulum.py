"""Pendulum: swing a pendulum up and hold it there by a weak motor, as in Gymnasium 1.4.0."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase
from warp_kernels.spatial.trigonometry import sine_cosine, wrap


@wp.struct
class Params:
    """Environment parameters."""

    g: float  # gravity [m/s^2]
    m: float  # mass of the rod [kg]
    l: float  # length of the rod [m]
    dt: float  # time step [s]
    max_speed: float  # [rad/s]
    max_torque: float  # torques are clipped to this absolute value [N m]
    start_angle: float  # largest absolute initial angle [rad]
    start_speed: float  # largest absolute initial angular velocity [rad/s]


@wp.struct
class State:
    """State of E worlds."""

    motion: wp.array(dtype=wp.vec2)  # (E,) angle from upright, counter-clockwise, in [-pi, pi] [rad]; its rate [rad/s]
    torque: wp.array(dtype=float)  # (E,) torque of the last step, for rendering [N m]


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def turn(params: Params, state: State, io: IO, env: int):
        """Integrate one step; write the motion, the torque and the reward."""
        motion = state.motion[env]
        angle = motion[0]
        speed = motion[1]
        torque = wp.clamp(io.control[env, 0, 0], -params.max_torque, params.max_torque)
        io.reward[env, 0] = -(angle * angle + 0.1 * speed * speed + 0.001 * torque * torque)
        pull = 1.5 * params.g / params.l * sine_cosine(angle)[0]
        push = 3.0 / (params.m * params.l * params.l) * torque
        new_speed = wp.clamp(speed + (pull + push) * params.dt, -params.max_speed, params.max_speed)
        state.motion[env] = wp.vec2(wrap(angle + new_speed * params.dt), new_speed)
        state.torque[env] = torque

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the position of the free end in lengths of the rod, and the angular velocity."""
        motion = state.motion[env]
        turned = sine_cosine(motion[0])
        io.obs[env, agent, 0] = turned[1]
        io.obs[env, agent, 1] = turned[0]
        io.obs[env, agent, 2] = motion[1]

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Sample an angle and a speed uniformly in the start range."""
        word = philox.bits(rng, 0, philox.RESET, 0)
        angle = (2.0 * philox.unit(word[0]) - 1.0) * params.start_angle
        speed = (2.0 * philox.unit(word[1]) - 1.0) * params.start_speed
        state.motion[env] = wp.vec2(wrap(angle), speed)
        state.torque[env] = 0.0

    return Rules(
        key="pendulum",
        params=Params,
        state=State,
        num_agents=1,
        action_size=1,
        continuous=True,
        phases=(world_phase(turn, reads="motion io.control", writes="motion torque io.reward"),),
        reset=reset,
        observe=observe,
    )
