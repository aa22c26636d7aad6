"""Physics of the multi-agent particle environments (MPE), as in mpe2 1.1.1 ``_mpe_utils/core.py``.

Discs that push each other apart, damping, a speed cap. Integration is explicit Euler: a position moves by the *old*
velocity, then the velocity changes.
"""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.rules import Phase, agent_phase

DT: float = wp.constant(0.1)  # [s]
KEPT_VELOCITY: float = wp.constant(0.75)  # 1 - damping 0.25
CONTACT_FORCE: float = wp.constant(100.0)  # [N/m]
CONTACT_MARGIN: float = wp.constant(1.0e-3)  # [m]
REACH: float = wp.constant(0.02)  # [m] beyond this gap the contact force is below 1e-7 N: exp(-20) * 1e-3 * 100


@wp.func(inline=True)
def contact(position: wp.vec2, other_position: wp.vec2, touch: float) -> wp.vec2:
    """Return the force [N] on a disc at ``position`` by one at ``other_position`` [m].

    They touch at distance ``touch`` [m].

    mpe2: force = 100 * delta / dist * logaddexp(0, -(dist - touch) / 1e-3) * 1e-3.
    """
    delta = position - other_position
    squared = wp.dot(delta, delta)
    force = wp.vec2(0.0, 0.0)
    if squared < (touch + REACH) * (touch + REACH):
        dist = wp.sqrt(squared)
        z = (touch - dist) / CONTACT_MARGIN
        penetration = (wp.max(z, 0.0) + wp.log(1.0 + wp.exp(-wp.abs(z)))) * CONTACT_MARGIN
        force = (CONTACT_FORCE * penetration / wp.max(dist, 1.0e-8)) * delta  # mpe2 divides 0 by 0 for coinciding discs
    return force


@wp.func(inline=True)
def accelerate(velocity: wp.vec2, force: wp.vec2, max_speed: float) -> wp.vec2:
    """Return the next velocity [m/s] of a unit mass with damping, force and speed cap (below 0: no cap)."""
    v = velocity * KEPT_VELOCITY + force * DT
    squared = wp.dot(v, v)
    if max_speed >= 0.0 and squared > max_speed * max_speed:
        v = v * (max_speed / wp.sqrt(squared))
    return v


@wp.func
def outside(x: float) -> float:
    """Return mpe2's penalty for leaving the arena along one axis, x from its center [m]: 0 inside, at most 10."""
    away = wp.abs(x)
    penalty = float(0.0)
    if away >= 1.0:
        penalty = wp.min(wp.exp(2.0 * away - 2.0), 10.0)
    elif away >= 0.9:
        penalty = (away - 0.9) * 10.0
    return penalty


def steering(continuous: bool) -> Any:
    """Build ``steer(io, env, agent) -> vec2``, the push of an agent, each axis in [-1, 1].

    Discrete actions are nothing, left, right, down, up; with communication the action is letter * 5 + push.
    Continuous actions have these pushes as the first five components.
    """

    @wp.func(inline=True)
    def steer(io: IO, env: int, agent: int):
        x = float(0.0)
        y = float(0.0)
        if wp.static(continuous):
            x = io.control[env, agent, 2] - io.control[env, agent, 1]
            y = io.control[env, agent, 4] - io.control[env, agent, 3]
        else:
            push = int(io.choice[env, agent, 0]) % 5
            x = wp.where(push == 2, 1.0, 0.0) - wp.where(push == 1, 1.0, 0.0)
            y = wp.where(push == 4, 1.0, 0.0) - wp.where(push == 3, 1.0, 0.0)
        return wp.vec2(x, y)

    return steer


@wp.func(inline=True)
def terminate_success(io: IO, env: int, agent: int):
    """Terminate an agent's episode by success, except in the last step, which mpe2 truncates."""
    if io.step[env] < io.max_steps or io.max_steps == 0:
        io.terminated[env, agent] = True


def random_placement(State: type, num_agents: int, landmarks_within: float = 1.0) -> Any:
    """Build ``scatter(state, env, rng)``: agents uniform in [-1, 1)^2 [m] at rest, landmarks in a smaller square."""

    @wp.func
    def scatter(state: State, env: int, rng: philox.Stream):
        for entity in range(state.pos.shape[1]):  # not unrolled, as it runs rarely
            u = philox.uniform4(rng, entity, philox.RESET, 0)
            half = wp.where(entity < num_agents, 1.0, landmarks_within)
            state.pos[env, entity] = wp.vec2((2.0 * u[0] - 1.0) * half, (2.0 * u[1] - 1.0) * half)
            if entity < num_agents:
                state.vel[env, entity] = wp.vec2(0.0, 0.0)

    return scatter


def relayout(State: type, num_agents: int, num_entities: int) -> Any:
    """Build ``Rules.relayout`` of a scenario with collisions: A agents, N entities in total."""

    @wp.func(inline=True)
    def dense(state: State, n: int):
        state.pos = wp.array(ptr=state.pos.ptr, shape=(n, num_entities), dtype=wp.vec2)
        state.vel = wp.array(ptr=state.vel.ptr, shape=(n, num_agents), dtype=wp.vec2)
        state.force = wp.array(ptr=state.force.ptr, shape=(n, num_agents), dtype=wp.vec2)
        return state

    return dense


def motion(
    Params: type,
    State: type,
    num_agents: int,
    num_entities: int,
    continuous: bool,
    accel_of: Any,
    cap_of: Any,
    size_of: Any = None,
    pace_of: Any = None,
) -> tuple[Phase, ...]:
    """Build the phases of a physics step: forces, then explicit Euler.

    Args:
        Params: Params of the scenario.
        State: State of the scenario, with ``pos`` (E, N) vec2 [m], agents first; ``vel`` (E, A) vec2 [m/s]; and, with
            collisions, ``force`` (E, A) vec2 [N].
        num_agents: Number of agents A.
        num_entities: Number of colliding discs N, agents first.
        continuous: Continuous actions instead of discrete ones.
        accel_of: ``f(params, agent) -> float``, force at full throttle [N].
        cap_of: ``f(params, agent) -> float``, speed cap [m/s]; below 0 for no cap.
        size_of: ``f(params, entity) -> float``, radius [m]; None for no collisions.
        pace_of: ``f(state, env, agent) -> float``, current factor of force and cap; None for 1.

    Returns:
        One phase, or two with collisions: all forces are summed up before any agent moves.
    """
    steer = steering(continuous)

    @wp.func(inline=True)
    def full(state: State, env: int, agent: int):
        return 1.0

    pace = full if pace_of is None else pace_of

    @wp.func(inline=True)
    def throttle(params: Params, state: State, io: IO, env: int, agent: int):
        return steer(io, env, agent) * (accel_of(params, agent) * pace(state, env, agent))

    @wp.func(inline=True)
    def go(params: Params, state: State, env: int, agent: int, force: wp.vec2):
        vel = state.vel[env, agent]
        state.pos[env, agent] = state.pos[env, agent] + vel * DT
        state.vel[env, agent] = accelerate(vel, force, cap_of(params, agent) * pace(state, env, agent))

    if size_of is None:

        @wp.func(inline=True)
        def drift(params: Params, state: State, io: IO, env: int, agent: int):
            """Move without collisions; write the agent's position and velocity."""
            go(params, state, env, agent, throttle(params, state, io, env, agent))

        return (agent_phase(drift, reads="pos vel io.choice io.control", writes="pos vel"),)

    @wp.func
    def push(params: Params, state: State, io: IO, env: int, agent: int):
        """Sum the forces on an agent; write its force."""
        position = state.pos[env, agent]
        size = size_of(params, agent)
        total = throttle(params, state, io, env, agent)
        for other in range(num_entities):
            if other != agent:
                total += contact(position, state.pos[env, other], size + size_of(params, other))
        state.force[env, agent] = total

    @wp.func
    def move(params: Params, state: State, io: IO, env: int, agent: int):
        """Integrate by explicit Euler; write the agent's position and velocity."""
        go(params, state, env, agent, state.force[env, agent])

    return (
        agent_phase(push, reads="pace pos io.choice io.control", writes="force"),
        agent_phase(move, reads="force pace pos vel", writes="pos vel"),
    )
