"""MountainCar: swing an underpowered car up a hill, as in Gymnasium 1.4.0 after Moore (1990)."""

from functools import cache

import warp as wp

from warp_kernels import philox
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
    force: float  # acceleration of a push [m/step^2]
    gravity: float  # maximum acceleration by the slope [m/step^2]
    start_low: float  # the car starts at rest, anywhere in [start_low, start_high) [m]
    start_high: float  # exclusive upper end [m]


@wp.struct
class State:
    """State of E worlds."""

    motion: wp.array(dtype=wp.vec2)  # (E,) position [m] and velocity [m/step]


@wp.func(inline=True)
def roll(position: float, velocity: float, low: float, high: float, fastest: float) -> wp.vec2:
    """Return position and velocity after a step at this velocity; the left wall stops the car."""
    new_velocity = wp.clamp(velocity, -fastest, fastest)
    new_position = wp.clamp(position + new_velocity, low, high)
    if new_position == low and new_velocity < 0.0:
        new_velocity = 0.0
    return wp.vec2(new_position, new_velocity)


@cache
def rules() -> Rules:
    """Build the rules."""

    @wp.func(inline=True)
    def drive(params: Params, state: State, io: IO, env: int):
        """Push left, not at all or right; write the motion, the reward and terminated."""
        motion = state.motion[env]
        slope = sine_cosine(3.0 * motion[0])[1]
        push = float(io.choice[env, 0, 0] - wp.int64(1)) * params.force
        velocity = motion[1] + (push - slope * params.gravity)
        moved = roll(motion[0], velocity, params.min_position, params.max_position, params.max_speed)
        state.motion[env] = moved
        io.reward[env, 0] = -1.0
        io.terminated[env, 0] = moved[0] >= params.goal_position and moved[1] >= params.goal_velocity

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
        key="mountain_car",
        params=Params,
        state=State,
        num_agents=1,
        action_size=1,
        continuous=False,
        phases=(world_phase(drive, reads="motion io.choice", writes="motion io.reward io.terminated"),),
        reset=reset,
        observe=observe,
    )
