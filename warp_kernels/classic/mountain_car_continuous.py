"""MountainCarContinuous: MountainCar with a throttle, as in Gymnasium 1.4.0."""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.classic.mountain_car import roll
from warp_kernels.episode import IO
from warp_kernels.rules import Rules, world_phase
from warp_kernels.spatial.trigonometry import sine_cosine


@wp.struct
class Params:
    """Environment parameters. The height of the ground is sin(3 x); times are counted in steps."""

    min_position: float  # wall on the left [m]
    max_position: float  # wall on the right [m]
    max_speed: float  # [m/step]
    goal_position: float  # the episode terminates from here on [m]
    goal_velocity: float  # minimum velocity at the goal [m/step]
    max_action: float  # actions are clipped to this absolute value
    power: float  # acceleration at a throttle of 1 [m/step^2]
    gravity: float  # maximum acceleration by the slope [m/step^2]
    goal_reward: float  # at the goal
    action_cost: float  # times the square of the action, every step
    start_low: float  # the car starts at rest, anywhere in [start_low, start_high) [m]
    start_high: float  # exclusive upper end [m]


@wp.struct
class State:
    """State of E worlds."""

    motion: wp.array(dtype=wp.vec2)  # (E,) position [m] and velocity [m/step]


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def drive(params: Params, state: State, io: IO, env: int):
        """Accelerate by the throttle; write the motion, the reward and terminated.

        An accepted action beyond full throttle costs its square, but moves the car like full throttle.
        """
        motion = state.motion[env]
        action = io.control[env, 0, 0]
        slope = sine_cosine(3.0 * motion[0])[1]
        push = wp.clamp(action, -params.max_action, params.max_action) * params.power
        velocity = motion[1] + (push - slope * params.gravity)
        moved = roll(motion[0], velocity, params.min_position, params.max_position, params.max_speed)
        state.motion[env] = moved
        arrived = moved[0] >= params.goal_position and moved[1] >= params.goal_velocity
        io.reward[env, 0] = wp.where(arrived, params.goal_reward, 0.0) - params.action_cost * action * action
        io.terminated[env, 0] = arrived

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the motion."""
        motion = state.motion[env]
        io.obs[env, agent, 0] = motion[0]
        io.obs[env, agent, 1] = motion[1]

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Sample a position uniformly in the start range, at rest."""
        u = philox.unit(philox.bits(rng, 0, philox.RESET, 0)[0])
        state.motion[env] = wp.vec2(params.start_low + (params.start_high - params.start_low) * u, 0.0)

    return Rules(
        key="mountain_car_continuous",
        params=Params,
        state=State,
        num_agents=1,
        action_size=1,
        continuous=True,
        phases=(world_phase(drive, reads="motion io.control", writes="motion io.reward io.terminated"),),
        reset=reset,
        observe=observe,
    )
