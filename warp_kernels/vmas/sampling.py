"""Sampling: VMAS's sampling as in VMAS 1.5.2. Agents collect the values of a field, those of each cell once."""

from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO
from warp_kernels.physics2d.bodies import Body, Disc, Physics
from warp_kernels.physics2d.lidar import lidar
from warp_kernels.physics2d.observations import write_vectors
from warp_kernels.physics2d.placement import random_point, rest
from warp_kernels.physics2d.scenario import scenario_rules
from warp_kernels.rules import Rules, world_phase

RAYS: int = wp.constant(12)  # of a LIDAR
FIRST_ANGLE = 0.05  # of the first ray [rad]
NEIGHBORS: int = wp.constant(8)  # points that an agent observes


class Sizes(NamedTuple):
    """What the kernels capture."""

    num_agents: int
    num_peaks: int
    """Number of normal distributions."""
    half_width: float
    """Half the width of the field [m]."""
    half_height: float
    """Half its height [m]."""
    spacing: float
    """Side of a cell [m]."""

    @property
    def cells(self) -> tuple[int, int]:
        """Number of cells along x and y."""
        return round(2.0 * self.half_width / self.spacing), round(2.0 * self.half_height / self.spacing)


@wp.struct
class Params:
    """Environment parameters."""

    agent_radius: float  # [m]
    lidar_range: float  # [m]
    x_semidim: float  # centers of agents stay in [-x_semidim, x_semidim] [m]
    y_semidim: float  # [m]
    cov: float  # variance of a peak along x and y [m^2]
    shared_rew: int  # 1: an agent is rewarded for the values that all collect
    norm: int  # 1: rewards are divided by the largest density


@wp.struct
class State:
    """State of E worlds, A agents, G peaks, X times Y cells."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, A) [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, A) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, A) in the current step [N]
    peak: wp.array2d(dtype=wp.vec2)  # (E, G) middles of the normal distributions [m]
    max_density: wp.array(dtype=float)  # (E,) largest density at a corner of a cell [1/m^2]
    sampled: wp.array3d(dtype=wp.int8)  # (E, X, Y) 1: the value of the cell has been collected


@cache
def physics(num_agents: int) -> Physics:
    """Return the scene."""
    return Physics(
        bodies=(Body("agent", Disc("agent_radius"), count=num_agents, is_movable=True),),
        agents=num_agents,
        half_width="x_semidim",
        half_height="y_semidim",
    )


@cache
def rules(sizes: Sizes, continuous: bool) -> Rules:
    """Build the rules."""
    num_agents, num_peaks, half_width, half_height, spacing = sizes
    columns, rows = sizes.cells
    scene = physics(num_agents)
    scan = lidar(scene, Params, State, ("agent",), RAYS, start=FIRST_ANGLE)
    stop = rest(scene, State)

    @wp.func
    def inside(params: Params, point: wp.vec2):
        """Return the nearest point where an agent may be."""
        x = wp.clamp(point[0], -params.x_semidim, params.x_semidim)
        return wp.vec2(x, wp.clamp(point[1], -params.y_semidim, params.y_semidim))

    @wp.func
    def density(params: Params, state: State, env: int, point: wp.vec2):
        """Return the sum of the normal distributions at a point [1/m^2]."""
        total = float(0.0)
        for index in range(num_peaks):
            gap = point - state.peak[env, index]
            total += wp.exp(-0.5 * wp.dot(gap, gap) / params.cov)
        return total / (2.0 * wp.pi * params.cov)

    @wp.func
    def cell_of(point: wp.vec2):
        """Return column and row of the cell of a point."""
        column = int(point[0] / spacing + 0.5 * float(columns))
        return wp.vec2i(wp.min(column, columns - 1), wp.min(int(point[1] / spacing + 0.5 * float(rows)), rows - 1))

    @wp.func
    def value(params: Params, state: State, env: int, point: wp.vec2):
        """Return the density, 0 in a cell that was sampled and outside the field [1/m^2]."""
        place = inside(params, point)
        cell = cell_of(place)
        is_outside = wp.abs(point[0]) > half_width or wp.abs(point[1]) > half_height
        result = float(0.0)
        if not is_outside and state.sampled[env, cell[0], cell[1]] == wp.int8(0):
            result = density(params, state, env, place)
        return result

    @wp.func
    def judge(params: Params, state: State, io: IO, env: int):
        """Write rewards: the values of the cells of the agents, one agent after another, which are sampled then."""
        total = float(0.0)
        for agent in range(num_agents):
            place = state.pos[env, agent]
            cell = cell_of(place)
            reward = value(params, state, env, place)
            if params.norm == 1:
                reward /= state.max_density[env]
            state.sampled[env, cell[0], cell[1]] = wp.int8(1)
            io.reward[env, agent] = reward
            total += reward
        if params.shared_rew == 1:
            for agent in range(num_agents):
                io.reward[env, agent] = total

    @wp.func
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write own position and velocity, distances along the rays, and the values at points around the agent."""
        position = state.pos[env, agent]
        first = write_vectors(io, env, agent, 0, position, state.vel[env, agent])
        column = scan(params, state, io, env, agent, params.lidar_range, first)
        for ray in range(first, column):
            io.obs[env, agent, ray] = params.lidar_range - io.obs[env, agent, ray]
        for index in range(NEIGHBORS):  # right, left, up, down, then the corners
            offset = wp.vec2(float(2 * (index % 2) - 1), float(2 * ((index - 4) / 2) - 1))
            if index < 4:
                side = float(1 - 2 * (index % 2))
                offset = wp.where(index < 2, wp.vec2(side, 0.0), wp.vec2(0.0, side))
            point = position + offset * spacing
            io.obs[env, agent, column + index] = value(params, state, env, point) / state.max_density[env]

    @wp.func
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place agents and peaks at random, find the largest density, and forget what was sampled."""
        stop(state, env)
        half = wp.vec2(half_width, half_height)
        for agent in range(num_agents):
            state.pos[env, agent] = inside(params, random_point(rng, agent, half))
        for index in range(num_peaks):
            state.peak[env, index] = random_point(rng, num_agents + index, half)
        highest = float(0.0)
        for row in range(rows):
            y = inside(params, wp.vec2(0.0, float(row) * spacing - half_height))[1]
            bound = float(0.0)  # of the densities of a row, most of which are below the largest one
            for index in range(num_peaks):
                gap = y - state.peak[env, index][1]
                bound += wp.exp(-0.5 * gap * gap / params.cov)
            is_high = bound / (2.0 * wp.pi * params.cov) > highest
            for column in range(columns):
                state.sampled[env, column, row] = wp.int8(0)
                if is_high:
                    point = inside(params, wp.vec2(float(column) * spacing - half_width, y))
                    highest = wp.max(highest, density(params, state, env, point))
        state.max_density[env] = highest

    judgment = world_phase(judge, reads="pos peak max_density sampled", writes="sampled io.reward")
    name = f"vmas sampling {' '.join(map(str, sizes))}"
    return scenario_rules(name, scene, Params, State, continuous, (judgment,), observe, reset)
