"""Observations of TagContinuous: seven features of every other agent, or of the K nearest ones, and the time."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.rules import agent_phase
from warp_kernels.spatial import brute_force_knn, cell_grid
from warp_kernels.spatial.brute_force_knn import FAR, row_of

TWO_PI: float = wp.constant(6.2831855)  # [rad]
FEATURES = 7  # per observed agent: dx, dy, d speed, d acceleration, d direction, type, alive


def observation_width(num_agents: int, num_observed: int, full: bool) -> int:
    """Return the width of an observation: seven features per observed agent, and the time."""
    return FEATURES * (num_agents - 1 if full else num_observed) + 1


def nearest_phase(Params: type, State: type, num_agents: int, num_observed: int, grid: bool) -> Any:
    """Build the agent phase that writes ``state.near``, the K nearest shown agents, for agents that are shown.

    Nearest first, lowest row first for equal distances, -1 in unused slots. The arguments are as in
    :func:`warp_kernels.tag.tag_continuous.rules`.
    """
    nearest_of_all = brute_force_knn.sweep(num_agents, num_observed)
    nearest_others = cell_grid.search(num_agents, num_observed, num_observed)

    @wp.func(inline=True)
    def look_among_all(params: Params, state: State, io: IO, env: int, agent: int):
        if state.shown[env, agent]:
            nearest_of_all(state.pos, state.shown, state.near, env, agent)

    @wp.func(inline=True)
    def look_in_cells(params: Params, state: State, io: IO, env: int, agent: int):
        if state.shown[env, agent]:
            keys = nearest_others(
                state.cells,
                state.who,
                state.spot,
                env,
                agent,
                state.pos[env, agent],
                params.grid_length,
                num_agents,
                float(wp.inf),
            )
            for slot in range(num_observed):
                state.near[env, agent, slot] = wp.where(keys[slot] == FAR, -1, row_of(keys[slot]))

    if grid:
        return agent_phase(look_in_cells, reads="cells pos shown spot who", writes="near")
    return agent_phase(look_among_all, reads="near pos shown", writes="near")


def observation(
    Params: type, State: type, num_agents: int, num_taggers: int, num_observed: int, full: bool
) -> tuple[Any, Any]:
    """Build ``Rules.observe`` and ``Rules.observe_slot``; the arguments are as in ``tag_continuous.rules``."""
    slots = num_agents - 1 if full else num_observed
    Slots = wp.types.vector(length=max(num_observed, 1), dtype=float)

    @wp.func(inline=True)
    def look_at(params: Params, state: State, io: IO, env: int, agent: int, other: int, slot: int):
        """Write the seven features of one other agent."""
        diagonal = wp.sqrt(2.0) * params.grid_length
        top_speed = params.max_speed + 1.0e-10
        position = state.pos[env, agent]
        other_position = state.pos[env, other]
        io.obs[env, agent, slot] = (other_position[0] - position[0]) / diagonal
        io.obs[env, agent, slots + slot] = (other_position[1] - position[1]) / diagonal
        io.obs[env, agent, 2 * slots + slot] = (state.speed[env, other] - state.speed[env, agent]) / top_speed
        acceleration = state.acceleration[env, other] - state.acceleration[env, agent]
        io.obs[env, agent, 3 * slots + slot] = acceleration / top_speed
        io.obs[env, agent, 4 * slots + slot] = (state.direction[env, other] - state.direction[env, agent]) / TWO_PI
        io.obs[env, agent, 5 * slots + slot] = wp.where(other < num_taggers, 1.0, 0.0)
        io.obs[env, agent, 6 * slots + slot] = wp.where(state.shown[env, other], 1.0, 0.0)

    @wp.func(inline=True)
    def look_at_time(params: Params, io: IO, env: int, agent: int):
        """Write the time, the last number."""
        io.obs[env, agent, FEATURES * slots] = float(io.step[env]) / float(params.episode_length)

    @wp.func(inline=True)
    def observe_all(params: Params, state: State, io: IO, env: int, agent: int):
        """Write every other agent in row order, then the time."""
        slot = int(0)
        for other in range(num_agents):
            if other != agent:
                look_at(params, state, io, env, agent, other, slot)
                slot += 1
        look_at_time(params, io, env, agent)

    @wp.func(inline=True)
    def observe_nearest(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the K nearest agents, zeros in unused slots, then the time.

        Values are gathered first and then written to an array of constant size, which the CPU compiler vectorizes.
        """
        x = Slots()
        y = Slots()
        speed = Slots()
        acceleration = Slots()
        direction = Slots()
        tagger = Slots()
        visible = Slots()
        n = state.pos.shape[0]
        places = wp.array(ptr=state.pos.ptr, shape=(n, num_agents, 2), dtype=float)
        speeds = wp.array(ptr=state.speed.ptr, shape=(n, num_agents), dtype=float)
        accelerations = wp.array(ptr=state.acceleration.ptr, shape=(n, num_agents), dtype=float)
        directions = wp.array(ptr=state.direction.ptr, shape=(n, num_agents), dtype=float)
        is_visible = wp.array(ptr=state.shown.ptr, shape=(n, num_agents), dtype=wp.bool)
        near = wp.array(ptr=state.near.ptr, shape=(n, num_agents, num_observed), dtype=int)
        slot = int(0)
        while slot < num_observed:
            other = near[env, agent, slot]
            if other >= 0:
                x[slot] = places[env, other, 0] - places[env, agent, 0]
                y[slot] = places[env, other, 1] - places[env, agent, 1]
                speed[slot] = speeds[env, other] - speeds[env, agent]
                acceleration[slot] = accelerations[env, other] - accelerations[env, agent]
                direction[slot] = directions[env, other] - directions[env, agent]
                tagger[slot] = wp.where(other < num_taggers, 1.0, 0.0)
                visible[slot] = wp.where(is_visible[env, other], 1.0, 0.0)
            slot += 1
        diagonal = wp.sqrt(2.0) * params.grid_length
        top_speed = params.max_speed + 1.0e-10
        obs = wp.array(ptr=io.obs.ptr, shape=(io.obs.shape[0], num_agents, FEATURES * slots + 1), dtype=float)
        slot = int(0)
        while slot < num_observed:
            obs[env, agent, slot] = x[slot] / diagonal
            obs[env, agent, slots + slot] = y[slot] / diagonal
            obs[env, agent, 2 * slots + slot] = speed[slot] / top_speed
            obs[env, agent, 3 * slots + slot] = acceleration[slot] / top_speed
            obs[env, agent, 4 * slots + slot] = direction[slot] / TWO_PI
            obs[env, agent, 5 * slots + slot] = tagger[slot]
            obs[env, agent, 6 * slots + slot] = visible[slot]
            slot += 1
        look_at_time(params, io, env, agent)

    @wp.func(inline=True)
    def observe_slot(params: Params, state: State, io: IO, env: int, agent: int, slot: int):
        """Write the features of one observed agent, or zeros in an unused slot; slot 0 also writes the time."""
        other = int(slot)
        if wp.static(full):
            if slot >= agent:
                other = slot + 1
        else:
            other = state.near[env, agent, slot]
        if other >= 0:
            look_at(params, state, io, env, agent, other, slot)
        else:
            for feature in range(FEATURES):
                io.obs[env, agent, feature * slots + slot] = 0.0
        if slot == 0:
            look_at_time(params, io, env, agent)

    return (observe_all if full else observe_nearest), observe_slot
