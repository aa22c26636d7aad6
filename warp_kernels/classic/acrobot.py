"""Acrobot: swing two links up by a motor between them, as in Gymnasium 1.4.0 after Sutton (1996)."""

from functools import cache

import warp as wp

from warp_kernels import episode, philox
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase
from warp_kernels.spatial.trigonometry import sine_cosine, wrap


@wp.struct
class Params:
    """Environment parameters."""

    dt: float  # time step [s]
    link_length_1: float  # of the upper link [m]
    link_mass_1: float  # [kg]
    link_mass_2: float  # [kg]
    link_com_pos_1: float  # from its joint to the center of mass [m]
    link_com_pos_2: float  # [m]
    link_moi: float  # moment of inertia of either link [kg m^2]
    gravity: float  # [m/s^2]
    max_vel_1: float  # [rad/s]
    max_vel_2: float  # [rad/s]
    torque: float  # of the motor [N m]
    torque_noise_max: float  # maximum of the torque noise, sampled in every step [N m]
    nips: int  # 1: dynamics as printed in the paper, 0: dynamics of the book
    goal_height: float  # cos-sum of the links that ends the episode when it is exceeded
    start_low: float  # every component of the initial motion is in [start_low, start_high) [rad, rad/s]
    start_high: float  # exclusive upper end [rad, rad/s]


@wp.struct
class State:
    """State of E worlds."""

    motion: wp.array(dtype=wp.vec4)  # (E,) angles of link 1 (0: down), link 2 (0: straight) [rad], speeds [rad/s]


@wp.func(inline=True)
def decimal(constant: float) -> wp.float64:
    """Return a parameter rounded to six decimals in double precision: as float32, 0.2 is 3e-9 too large."""
    million = wp.float64(1000000.0)
    return wp.rint(wp.float64(constant) * million) / million


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func
    def change(params: Params, motion: wp.vec4d, torque: wp.float64) -> wp.vec4d:
        """Return the time derivative of the motion."""
        two = wp.float64(2.0)
        mass_1 = decimal(params.link_mass_1)
        mass_2 = decimal(params.link_mass_2)
        length_1 = decimal(params.link_length_1)
        com_1 = decimal(params.link_com_pos_1)
        com_2 = decimal(params.link_com_pos_2)
        inertia = decimal(params.link_moi)
        gravity = decimal(params.gravity)
        speed_1 = motion[2]
        speed_2 = motion[3]
        sine_2 = wp.sin(motion[1])
        lever = mass_2 * length_1 * com_2
        bend = lever * wp.cos(motion[1])
        d1 = mass_1 * com_1 * com_1 + mass_2 * (length_1 * length_1 + com_2 * com_2) + two * (bend + inertia)
        d2 = mass_2 * com_2 * com_2 + bend + inertia
        phi_2 = mass_2 * com_2 * gravity * wp.sin(motion[0] + motion[1])
        hang = (mass_1 * com_1 + mass_2 * length_1) * gravity * wp.sin(motion[0])
        phi_1 = hang + phi_2 - lever * speed_2 * (speed_2 + two * speed_1) * sine_2
        pull = torque + d2 / d1 * phi_1 - phi_2
        if params.nips == 0:
            pull -= lever * speed_1 * speed_1 * sine_2
        acc_2 = pull / (mass_2 * com_2 * com_2 + inertia - d2 * d2 / d1)
        acc_1 = -(d2 * acc_2 + phi_1) / d1
        return wp.vec4d(speed_1, speed_2, acc_1, acc_2)

    @wp.func
    def swing(params: Params, state: State, io: IO, env: int):
        """Integrate one fourth-order Runge-Kutta step; write the motion, the reward and terminated.

        In double precision: a step is so long that at full speed it enlarges the errors of single precision a
        thousandfold.
        """
        torque = float(io.choice[env, 0, 0] - wp.int64(1)) * params.torque
        if params.torque_noise_max > 0.0:
            word = philox.bits(episode.stream(io, env), 0, philox.STEP, 0)
            torque += (2.0 * philox.unit(word[0]) - 1.0) * params.torque_noise_max
        q = state.motion[env]
        start = wp.vec4d(wp.float64(q[0]), wp.float64(q[1]), wp.float64(q[2]), wp.float64(q[3]))
        dt = decimal(params.dt)
        half = wp.float64(0.5)
        two = wp.float64(2.0)
        push = wp.float64(torque)
        k1 = change(params, start, push)
        k2 = change(params, start + half * dt * k1, push)
        k3 = change(params, start + half * dt * k2, push)
        k4 = change(params, start + dt * k3, push)
        motion = start + dt / wp.float64(6.0) * (k1 + two * k2 + two * k3 + k4)
        angle_1 = wrap(float(motion[0]))
        angle_2 = wrap(float(motion[1]))
        state.motion[env] = wp.vec4(
            angle_1,
            angle_2,
            wp.clamp(float(motion[2]), -params.max_vel_1, params.max_vel_1),
            wp.clamp(float(motion[3]), -params.max_vel_2, params.max_vel_2),
        )
        high = -sine_cosine(angle_1)[1] - sine_cosine(angle_1 + angle_2)[1] > params.goal_height
        io.terminated[env, 0] = high
        io.reward[env, 0] = wp.where(high, 0.0, -1.0)

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write cosine and sine of both angles, and the angular velocities."""
        motion = state.motion[env]
        first = sine_cosine(motion[0])
        second = sine_cosine(motion[1])
        io.obs[env, agent, 0] = first[1]
        io.obs[env, agent, 1] = first[0]
        io.obs[env, agent, 2] = second[1]
        io.obs[env, agent, 3] = second[0]
        io.obs[env, agent, 4] = motion[2]
        io.obs[env, agent, 5] = motion[3]

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Sample every component of the motion uniformly in the start range."""
        width = params.start_high - params.start_low
        u = philox.uniform4(rng, 0, philox.RESET, 0)
        state.motion[env] = wp.vec4(
            params.start_low + width * u[0],
            params.start_low + width * u[1],
            params.start_low + width * u[2],
            params.start_low + width * u[3],
        )

    return Rules(
        key="acrobot",
        params=Params,
        state=State,
        num_agents=1,
        action_size=1,
        continuous=False,
        phases=(
            world_phase(
                swing,
                reads="motion io.choice io.episode io.seed io.step io.world",
                writes="motion io.reward io.terminated",
            ),
        ),
        reset=reset,
        observe=observe,
    )
