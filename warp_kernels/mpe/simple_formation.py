"""SimpleFormation: MPE's simple_formation as in mpe2 1.1.1. Agents form a circle around a landmark.

Entities: agents, then the landmark. Agents push each other; the landmark does not collide.
"""

import math
from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import assigned_targets, particles
from warp_kernels.rules import Rules

LANDMARKS = 1  # number of landmarks
TWO_PI = wp.constant(wp.float64(2.0 * math.pi))  # [rad]


@wp.struct
class Params:
    """Environment parameters; a disc's mass is 1 kg."""

    agent_size: float  # radius [m]
    accel: float  # force at full throttle [N]
    formation_radius: float  # radius of the circle of targets [m]
    capture_radius: float  # an agent closer than this to its target has arrived [m]
    terminate_on_success: int  # 1: the episode terminates when all agents have arrived


@wp.struct
class State:
    """State of E worlds, N agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N + 1) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, N) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, N) [N] in the current step
    target: wp.array2d(dtype=wp.vec2d)  # (E, N) targets of the last step [m]
    away: wp.array2d(dtype=float)  # (E, N) distance of each agent to its target in the last step [m]
    benchmark: wp.array3d(dtype=float)  # (E, N, 0) mpe2 has no benchmark_data here


@cache
def rules(num_agents: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents."""
    scatter = particles.random_placement(State, num_agents, landmarks_within=0.5)
    # Not a conversion of num_agents in the kernel: see tests/house/test_conversions.py.
    between = wp.constant(wp.float64(2.0 * math.pi / num_agents))  # [rad] angle between neighboring targets

    @wp.func
    def aim(params: Params, state: State, io: IO, env: int):
        """Write targets on a circle; the first one has the direction of the agent with the smallest angle."""
        center = assigned_targets.exact(state.pos[env, num_agents])
        smallest = wp.float64(wp.inf)
        for agent in range(num_agents):
            offset = assigned_targets.exact(state.pos[env, agent]) - center
            angle = wp.atan2(offset[1], offset[0])
            if angle < wp.float64(0.0):
                angle += TWO_PI
            smallest = wp.min(smallest, angle)
        angle = smallest
        for target in range(num_agents):
            offset = wp.vec2d(wp.cos(angle), wp.sin(angle))
            state.target[env, target] = center + wp.float64(params.formation_radius) * offset
            angle += between

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents uniformly in [-1, 1)^2 and the landmark in [-0.5, 0.5)^2 [m], at rest."""
        scatter(state, env, rng)
        for agent in range(num_agents):
            state.target[env, agent] = assigned_targets.exact(state.pos[env, num_agents])
            state.away[env, agent] = 0.0

    return assigned_targets.build_rules(
        "simple_formation", Params, State, num_agents, LANDMARKS, continuous, aim, reset
    )
