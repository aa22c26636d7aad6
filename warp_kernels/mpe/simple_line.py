"""SimpleLine: MPE's simple_line as in mpe2 1.1.1. Agents form a line between two landmarks.

Entities: agents, then the landmarks. Agents push each other; landmarks do not collide.
"""

from functools import cache

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.mpe import assigned_targets, particles
from warp_kernels.rules import Rules

LANDMARKS = 2  # number of landmarks
TWO_PI: float = wp.constant(6.283185307179586)  # [rad]
TURN: float = wp.constant(0.08726646259971647)  # [rad] 5 degrees
TURNS: int = wp.constant(72)  # number of turns of a full circle
NEAR: float = wp.constant(0.25)  # largest coordinate of the first landmark [m]


@wp.struct
class Params:
    """Environment parameters; a disc's mass is 1 kg."""

    agent_size: float  # radius [m]
    accel: float  # force at full throttle [N]
    line_length: float  # distance of the landmarks at the start of an episode [m]
    capture_radius: float  # an agent closer than this to its target has arrived [m]
    terminate_on_success: int  # 1: the episode terminates when all agents have arrived


@wp.struct
class State:
    """State of E worlds, N agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N + 2) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, N) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, N) [N] in the current step
    target: wp.array2d(dtype=wp.vec2d)  # (E, N) targets of the last step [m]
    away: wp.array2d(dtype=float)  # (E, N) distance of each agent to its target in the last step [m]
    benchmark: wp.array3d(dtype=float)  # (E, N, 0) mpe2 has no benchmark_data here


@cache
def rules(num_agents: int, continuous: bool) -> Rules:
    """Build the rules for a number of agents."""
    scatter = particles.random_placement(State, num_agents)

    @wp.func
    def aim(params: Params, state: State, io: IO, env: int):
        """Write targets at equal distances from the first landmark to the second; one agent has the first landmark."""
        start = assigned_targets.exact(state.pos[env, num_agents])
        span = assigned_targets.exact(state.pos[env, num_agents + 1]) - start
        share = wp.float64(0.0)
        for target in range(num_agents):
            state.target[env, target] = start + share / wp.float64(wp.max(num_agents - 1, 1)) * span
            share += wp.float64(1.0)

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents uniformly in [-1, 1)^2 [m] at rest, and the landmarks at their distance within the arena.

        The first landmark is uniform in a small square, the other one in a random direction from it. Outside of the
        arena it turns around the first one by 5 degrees at a time.
        """
        scatter(state, env, rng)
        u = philox.uniform4(rng, num_agents, philox.RESET, 1)
        start = wp.vec2((2.0 * u[0] - 1.0) * NEAR, (2.0 * u[1] - 1.0) * NEAR)
        angle = TWO_PI * u[2]
        end = start + params.line_length * wp.vec2(wp.cos(angle), wp.sin(angle))
        turns = int(0)
        while turns < TURNS and wp.max(wp.abs(end[0]), wp.abs(end[1])) >= 1.0:
            turns += 1
            turned = angle + float(turns) * TURN
            end = start + params.line_length * wp.vec2(wp.cos(turned), wp.sin(turned))
        state.pos[env, num_agents] = start
        state.pos[env, num_agents + 1] = end
        for agent in range(num_agents):
            state.target[env, agent] = assigned_targets.exact(start)
            state.away[env, agent] = 0.0

    return assigned_targets.build_rules("simple_line", Params, State, num_agents, LANDMARKS, continuous, aim, reset)
