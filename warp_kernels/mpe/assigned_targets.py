"""Rules shared by SimpleFormation and SimpleLine: agents take up targets, assigned at the least total distance.

Entities: agents, then landmarks. Agents push each other; landmarks do not collide.
"""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.mpe import observed_neighbors, particles
from warp_kernels.rules import Rules, agent_phase, world_phase
from warp_kernels.spatial.assignment import assignment_type, least_cost_assignment

FARTHEST: float = wp.constant(2.0)  # [m] larger distances count as this one
MAX_AGENTS = 64
"""Largest number of agents: a thread keeps the assignment of its world in local memory."""


@wp.func(inline=True)
def exact(position: wp.vec2) -> wp.vec2d:
    """Return a position in float64.

    The best assignments of agents in a row differ by less than float32 can show, and distances above FARTHEST make
    their rewards differ.
    """
    return wp.vec2d(wp.float64(position[0]), wp.float64(position[1]))


def observation_width(num_landmarks: int) -> int:
    """Return the width of an observation: own velocity, own position, relative landmarks."""
    return 4 + 2 * num_landmarks


def build_rules(
    key: str, Params: type, State: type, num_agents: int, num_landmarks: int, continuous: bool, aim: Any, reset: Any
) -> Rules:
    """Build the rules.

    Args:
        key: Name of the scenario.
        Params: Params with ``agent_size``, ``accel``, ``capture_radius`` and ``terminate_on_success``.
        State: State with ``pos`` (E, N + L) vec2, ``vel`` and ``force`` (E, N) vec2, ``target`` (E, N) vec2d, and
            ``away`` (E, N).
        num_agents: Number of agents and of targets N.
        num_landmarks: Number of landmarks L.
        continuous: Continuous actions instead of discrete ones.
        aim: World phase that writes ``target``.
        reset: ``f(params, state, env, rng)``.
    """
    see_landmarks = observed_neighbors.observe_neighbors(State, num_agents, num_agents + num_landmarks)
    Matched = assignment_type(num_agents)

    @wp.func(inline=True)
    def size_of(params: Params, entity: int):
        return params.agent_size

    @wp.func(inline=True)
    def accel_of(params: Params, agent: int):
        return params.accel

    @wp.func(inline=True)
    def cap_of(params: Params, agent: int):
        return -1.0

    @wp.func(inline=True)
    def distance(state: State, env: int, agent: int, target: int):
        delta = exact(state.pos[env, agent]) - state.target[env, target]
        return wp.sqrt(wp.dot(delta, delta))

    match = least_cost_assignment(State, num_agents, distance)

    @wp.func
    def assign(params: Params, state: State, io: IO, env: int):
        """Assign targets to agents at the least total distance; write each agent's distance to its target."""
        row_of = Matched()
        row_of = match(state, env)
        for agent in range(num_agents):
            state.away[env, agent] = float(distance(state, env, agent, 0))  # stays where positions are not finite
        for target in range(num_agents):
            agent = row_of[1 + target] - 1
            if agent >= 0:
                state.away[env, agent] = float(distance(state, env, agent, target))

    @wp.func
    def score(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the shared reward, the negative mean distance, and terminated."""
        total = float(0.0)
        arrived = bool(True)
        for other in range(num_agents):
            away = state.away[env, other]
            total += wp.where(away > FARTHEST, FARTHEST, away)  # NaN stays NaN
            arrived = arrived and away < params.capture_radius
        io.reward[env, agent] = -total / float(num_agents)
        if arrived and params.terminate_on_success == 1:
            particles.terminate_success(io, env, agent)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own velocity [m/s], position [m] and relative landmarks [m]."""
        vel = state.vel[env, agent]
        position = state.pos[env, agent]
        io.obs[env, agent, 0] = vel[0]
        io.obs[env, agent, 1] = vel[1]
        io.obs[env, agent, 2] = position[0]
        io.obs[env, agent, 3] = position[1]
        see_landmarks(state, io, env, agent, 4)

    motion = particles.motion(Params, State, num_agents, num_agents, continuous, accel_of, cap_of, size_of)
    return Rules(
        key=f"{key} {num_agents} {continuous}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=5 if continuous else 1,
        continuous=continuous,
        phases=(
            *motion,
            world_phase(aim, reads="pos", writes="target"),
            world_phase(assign, reads="pos target", writes="away"),
            agent_phase(score, reads="away io.step", writes="io.reward io.terminated"),
        ),
        reset=reset,
        observe=observe,
        relayout=particles.relayout(State, num_agents, num_agents + num_landmarks),
        max_unroll=2,
    )
