"""Observations of RobotWarehouse: numbers of the cells around a robot, or images of them; the global state."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from warp_kernels.episode import IO

LAYERS = ("shelves", "requests", "agents", "agent_direction", "agent_load", "goals", "accessible")
"""Layers of images, in the order of rware's ImageLayer."""
SELF = 8
"""Numbers about the robot itself in flattened observations."""
FEATURES = 6
"""Numbers about the robot itself before the image of image_dict observations."""


@dataclass(frozen=True)
class View:
    """Content of observations."""

    kind: str
    """``"flattened"``, ``"image"`` or ``"image_dict"``."""
    sensor_range: int
    """Largest distance along an axis at which cells are observed [cells]."""
    normalized: bool = False
    """Flattened observations have the own cell divided by that in the lower right corner."""
    layers: tuple[str, ...] = ()
    """Layers of images, of `LAYERS`."""
    directional: bool = False
    """Images are turned so that the direction of the robot is up."""

    @property
    def across(self) -> int:
        """Number of rows and of columns in sight."""
        return 2 * self.sensor_range + 1


def width(view: View, message_bits: int) -> int:
    """Return the width of an observation."""
    cells = view.across**2
    if view.kind == "flattened":
        return SELF + cells * (7 + message_bits)
    return (FEATURES if view.kind == "image_dict" else 0) + cells * len(view.layers)


def global_state_size(num_robots: int, message_bits: int, cells: int) -> int:
    """Return the size of the global state."""
    return num_robots * (8 + message_bits) + cells + 1


def observe(params: type, state: type, num_robots: int, message_bits: int, view: View) -> Any:
    """Build the observation of a robot.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct of ``warp_kernels.grid.robot_warehouse.robot_warehouse``.
        num_robots: Number of robots A.
        message_bits: Number of bits that a robot sends.
        view: Content of observations.
    """
    if view.kind == "flattened":
        return _flattened(params, state, num_robots, message_bits, view)
    return _image(params, state, num_robots, view)


def _flattened(params: type, state: type, num_robots: int, message_bits: int, view: View) -> Any:
    """Build the observation as a list of numbers."""
    Params, State = params, state
    sight, across, normalized = view.sensor_range, view.across, view.normalized
    per_cell = 7 + message_bits

    @wp.func(inline=True)
    def observe_self(params: Params, state: State, io: IO, env: int, agent: int, row: int, column: int):
        x = float(column)
        y = float(row)
        if wp.static(normalized):
            x = x / float(params.columns - 1)
            y = y / float(params.rows - 1)
        way = state.direction[env, agent]
        io.obs[env, agent, 0] = x
        io.obs[env, agent, 1] = y
        io.obs[env, agent, 2] = wp.where(state.load[env, agent] > 0, 1.0, 0.0)
        io.obs[env, agent, 3] = wp.where(way == 0, 1.0, 0.0)
        io.obs[env, agent, 4] = wp.where(way == 1, 1.0, 0.0)
        io.obs[env, agent, 5] = wp.where(way == 2, 1.0, 0.0)
        io.obs[env, agent, 6] = wp.where(way == 3, 1.0, 0.0)
        io.obs[env, agent, 7] = wp.where(state.floor[env, row, column] == wp.int8(0), 0.0, 1.0)

    @wp.func(inline=True)
    def observe_shelves(params: Params, state: State, io: IO, env: int, agent: int, top: int, left: int):
        """Write the shelves of all cells in sight, and no robot."""
        at = int(8)
        row = top
        while row < top + across:
            column = left
            while column < left + across:
                shelf = int(0)
                if row >= 0 and row < params.rows and column >= 0 and column < params.columns:
                    shelf = int(state.shelf[env, row, column])
                io.obs[env, agent, at] = 0.0
                io.obs[env, agent, at + 1] = 1.0  # no robot has the direction up, as in the original
                io.obs[env, agent, at + 2] = 0.0
                io.obs[env, agent, at + 3] = 0.0
                io.obs[env, agent, at + 4] = 0.0
                if wp.static(message_bits > 0):
                    bit = int(0)
                    while bit < message_bits:
                        io.obs[env, agent, at + 5 + bit] = 0.0
                        bit += 1
                io.obs[env, agent, at + wp.static(per_cell - 2)] = wp.where(shelf > 0, 1.0, 0.0)
                io.obs[env, agent, at + wp.static(per_cell - 1)] = wp.where(shelf > 1, 1.0, 0.0)
                at += per_cell
                column += 1
            row += 1

    @wp.func(inline=True)
    def observe_robots(state: State, io: IO, env: int, agent: int, top: int, left: int):
        """Write the robots in sight, the own one, too."""
        other = int(0)
        while other < num_robots:
            down = state.row[env, other] - top
            right = state.column[env, other] - left
            if down >= 0 and down < across and right >= 0 and right < across:
                at = 8 + (down * across + right) * per_cell
                io.obs[env, agent, at] = 1.0
                io.obs[env, agent, at + 1] = 0.0
                io.obs[env, agent, at + 1 + state.direction[env, other]] = 1.0
                if wp.static(message_bits > 0):
                    message = state.message[env, other]
                    bit = int(0)
                    while bit < message_bits:
                        io.obs[env, agent, at + 5 + bit] = float((message >> bit) & 1)
                        bit += 1
            other += 1

    @wp.func(inline=True)
    def observe_cells(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the own robot, then robot, message, shelf and request of every cell in sight, row by row."""
        row = state.row[env, agent]
        column = state.column[env, agent]
        observe_self(params, state, io, env, agent, row, column)
        observe_shelves(params, state, io, env, agent, row - sight, column - sight)
        observe_robots(state, io, env, agent, row - sight, column - sight)

    return observe_cells


def _image(params: type, state: type, num_robots: int, view: View) -> Any:
    """Build the observation as layers of the cells in sight, after the features of the robot."""
    Params, State = params, state
    sight, across, directional, layers = view.sensor_range, view.across, view.directional, view.layers
    features = view.kind == "image_dict"
    first = FEATURES if features else 0
    size = across * across
    columns = [first + size * layers.index(name) if name in layers else -1 for name in LAYERS]
    shelves, requests, agents, ways, loads, goals, accessible = columns  # first number of each layer; -1: not shown

    @wp.func(inline=True)
    def index_of(way: int, down: int, right: int):
        """Return the number in a layer of the cell so many rows and columns from the corner of the unturned image."""
        at = down * across + right
        if wp.static(directional):
            last = across - 1
            if way == 1:
                at = (last - down) * across + last - right
            elif way == 2:
                at = right * across + last - down
            elif way == 3:
                at = (last - right) * across + down
        return at

    @wp.func(inline=True)
    def observe_floor(params: Params, state: State, io: IO, env: int, agent: int, top: int, left: int, way: int):
        """Write all layers without robots."""
        down = int(0)
        while down < across:
            right = int(0)
            while right < across:
                row = top + down
                column = left + right
                shelf = int(0)
                floor = int(-1)
                if row >= 0 and row < params.rows and column >= 0 and column < params.columns:
                    shelf = int(state.shelf[env, row, column])
                    floor = int(state.floor[env, row, column])
                at = index_of(way, down, right)
                if wp.static(shelves >= 0):
                    io.obs[env, agent, shelves + at] = wp.where(shelf > 0, 1.0, 0.0)
                if wp.static(requests >= 0):
                    io.obs[env, agent, requests + at] = wp.where(shelf > 1, 1.0, 0.0)
                if wp.static(agents >= 0):
                    io.obs[env, agent, agents + at] = 0.0
                if wp.static(ways >= 0):
                    io.obs[env, agent, ways + at] = 0.0
                if wp.static(loads >= 0):
                    io.obs[env, agent, loads + at] = 0.0
                if wp.static(goals >= 0):
                    io.obs[env, agent, goals + at] = wp.where(floor == 2, 1.0, 0.0)
                if wp.static(accessible >= 0):
                    io.obs[env, agent, accessible + at] = wp.where(floor >= 0, 1.0, 0.0)
                right += 1
            down += 1

    @wp.func(inline=True)
    def observe_robots(state: State, io: IO, env: int, agent: int, top: int, left: int, way: int):
        """Write the robots in sight, the own one, too."""
        other = int(0)
        while other < num_robots:
            down = state.row[env, other] - top
            right = state.column[env, other] - left
            if down >= 0 and down < across and right >= 0 and right < across:
                at = index_of(way, down, right)
                if wp.static(agents >= 0):
                    io.obs[env, agent, agents + at] = 1.0
                if wp.static(ways >= 0):
                    io.obs[env, agent, ways + at] = float(1 + state.direction[env, other])
                if wp.static(loads >= 0):
                    io.obs[env, agent, loads + at] = wp.where(state.load[env, other] > 0, 1.0, 0.0)
                if wp.static(accessible >= 0):
                    io.obs[env, agent, accessible + at] = 0.0
            other += 1

    @wp.func(inline=True)
    def observe_image(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the layers of the cells in sight, row by row; before them, with image_dict, direction, floor, load."""
        row = state.row[env, agent]
        column = state.column[env, agent]
        way = state.direction[env, agent]
        if wp.static(features):
            io.obs[env, agent, 0] = wp.where(way == 0, 1.0, 0.0)
            io.obs[env, agent, 1] = wp.where(way == 1, 1.0, 0.0)
            io.obs[env, agent, 2] = wp.where(way == 2, 1.0, 0.0)
            io.obs[env, agent, 3] = wp.where(way == 3, 1.0, 0.0)
            io.obs[env, agent, 4] = wp.where(state.floor[env, row, column] == wp.int8(0), 0.0, 1.0)
            io.obs[env, agent, 5] = wp.where(state.load[env, agent] > 0, 1.0, 0.0)
        observe_floor(params, state, io, env, agent, row - sight, column - sight, way)
        observe_robots(state, io, env, agent, row - sight, column - sight, way)

    return observe_image


def global_state(params: type, state: type, num_robots: int, message_bits: int) -> Any:
    """Build the global state: all robots, the shelves of all cells, and the time."""
    Params, State = params, state
    per_robot = 8 + message_bits

    @wp.func(inline=True)
    def write_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write row, column, direction, load, delivery and message of the robot; robot 0 writes cells and time."""
        at = agent * per_robot
        way = state.direction[env, agent]
        io.global_state[env, at] = float(state.row[env, agent])
        io.global_state[env, at + 1] = float(state.column[env, agent])
        io.global_state[env, at + 2] = wp.where(way == 0, 1.0, 0.0)
        io.global_state[env, at + 3] = wp.where(way == 1, 1.0, 0.0)
        io.global_state[env, at + 4] = wp.where(way == 2, 1.0, 0.0)
        io.global_state[env, at + 5] = wp.where(way == 3, 1.0, 0.0)
        io.global_state[env, at + 6] = wp.where(state.load[env, agent] > 0, 1.0, 0.0)
        io.global_state[env, at + 7] = wp.where(state.load[env, agent] > 1, 1.0, 0.0)
        if wp.static(message_bits > 0):
            bit = int(0)
            while bit < message_bits:
                io.global_state[env, at + 8 + bit] = float((state.message[env, agent] >> bit) & 1)
                bit += 1
        if agent == 0:
            at = num_robots * per_robot
            row = int(0)
            while row < params.rows:
                column = int(0)
                while column < params.columns:
                    io.global_state[env, at] = float(state.shelf[env, row, column])
                    at += 1
                    column += 1
                row += 1
            io.global_state[env, at] = float(io.step[env]) / float(wp.max(io.max_steps, 1))

    return write_state
