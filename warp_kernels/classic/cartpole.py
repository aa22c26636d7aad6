"""CartPole: keep a pole upright on a cart, as in Gymnasium 1.4.0 after Barto, Sutton and Anderson (1983)."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase
from warp_kernels.spatial.trigonometry import sine_cosine


@wp.struct
class Params:
    """Environment parameters."""

    gravity: float  # [m/s^2]
    masscart: float  # [kg]
    masspole: float  # [kg]
    length: float  # half the pole's length [m]
    force_mag: float  # of a push [N]
    tau: float  # time step [s]
    theta_threshold_radians: float  # absolute angle beyond which the episode terminates [rad]
    x_threshold: float  # absolute position beyond which the episode terminates [m]
    semi_implicit: int  # 1: positions are updated with the new velocities, 0: with the old ones (explicit Euler)
    step_reward: float  # per step that does not end the episode
    fall_reward: float  # for the step that ends the episode
    start_low: float  # every component of the initial motion is in [start_low, start_high) [m, m/s, rad, rad/s]
    start_high: float  # exclusive upper end [m, m/s, rad, rad/s]


@wp.struct
class State:
    """State of E worlds."""

    motion: wp.array(dtype=wp.vec4)  # (E,) cart's position [m] and speed [m/s], pole's angle [rad] and speed [rad/s]


@wp.func(inline=True)
def step_motion(params: Params, motion: wp.vec4, choice: wp.int64):
    """Return the motion after one step with a push to the right (1) or to the left (0)."""
    x = motion[0]
    x_dot = motion[1]
    theta = motion[2]
    theta_dot = motion[3]
    force = wp.where(choice == wp.int64(1), params.force_mag, -params.force_mag)
    turn = sine_cosine(theta)
    sine = turn[0]
    cosine = turn[1]
    per_mass = 1.0 / (params.masscart + params.masspole)
    pole_moment = params.masspole * params.length
    pull = (force + pole_moment * theta_dot * theta_dot * sine) * per_mass
    inertia = params.length * (4.0 / 3.0 - params.masspole * cosine * cosine * per_mass)
    theta_acc = (params.gravity * sine - cosine * pull) / inertia
    x_acc = pull - pole_moment * theta_acc * cosine * per_mass
    new_x_dot = x_dot + params.tau * x_acc
    new_theta_dot = theta_dot + params.tau * theta_acc
    if params.semi_implicit == 1:
        x_dot = new_x_dot
        theta_dot = new_theta_dot
    x += params.tau * x_dot
    theta += params.tau * theta_dot
    return wp.vec4(x, new_x_dot, theta, new_theta_dot)


@wp.func(inline=True)
def fallen(params: Params, motion: wp.vec4):
    """Return whether the pole or the cart is out of its bounds."""
    return wp.abs(motion[0]) > params.x_threshold or wp.abs(motion[2]) > params.theta_threshold_radians


@wp.func(inline=True)
def sample_motion(params: Params, rng: philox.Stream, agent: int):
    """Return an initial motion: every component is uniform in the start range."""
    width = params.start_high - params.start_low
    u = philox.uniform4(rng, agent, philox.RESET, 0)
    return wp.vec4(
        params.start_low + width * u[0],
        params.start_low + width * u[1],
        params.start_low + width * u[2],
        params.start_low + width * u[3],
    )


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def push(params: Params, state: State, io: IO, env: int):
        """Integrate one step; write the motion, the reward and terminated."""
        motion = step_motion(params, state.motion[env], io.choice[env, 0, 0])
        state.motion[env] = motion
        if fallen(params, motion):
            io.reward[env, 0] = params.fall_reward
            io.terminated[env, 0] = True
        else:
            io.reward[env, 0] = params.step_reward

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the motion."""
        motion = state.motion[env]
        for column in range(4):
            io.obs[env, agent, column] = motion[column]

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Sample every component of the motion uniformly in the start range."""
        state.motion[env] = sample_motion(params, rng, 0)

    return Rules(
        key="cartpole",
        params=Params,
        state=State,
        num_agents=1,
        action_size=1,
        continuous=False,
        phases=(world_phase(push, reads="motion io.choice", writes="motion io.reward io.terminated"),),
        reset=reset,
        observe=observe,
    )
