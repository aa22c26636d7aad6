"""Observations of OvercookedV2: layers of the whole kitchen, or of a square window around the agent."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.kitchen.overcooked_v2.items import (
    BUTTON,
    COUNTER,
    FLOOR,
    GOAL,
    INDICATOR,
    INGREDIENTS,
    KIND_BITS,
    POT,
)
from warp_kernels.kitchen.overcooked_v2.sizes import Sizes

NUM_AGENT_LAYERS = 7
"""Layers of an agent before the counts of the ingredients that it holds: position, four orientations, plate, cooked."""


def num_layers(num_ingredients: int, indicates_delivery: bool) -> int:
    """Return the number of layers of an observation."""
    return 25 + 5 * num_ingredients + indicates_delivery


def observation(params: type, state: type, sizes: Sizes) -> tuple[Any, Any]:
    """Build the observation of an agent and the global state.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct, see :class:`warp_kernels.kitchen.overcooked_v2.overcooked_v2.State`.
        sizes: Sizes of the kitchen, and what agents observe of it.
    """
    Params, State = params, state
    width, height, view_size = sizes.width, sizes.height, sizes.view_size
    num_agents, num_ingredients = sizes.num_agents, sizes.num_ingredients
    indicates_delivery = sizes.indicates_delivery
    per_agent = NUM_AGENT_LAYERS + num_ingredients
    terrain_layer = 2 * per_agent
    item_layer = terrain_layer + INGREDIENTS - 1 + num_ingredients
    recipe_layer = item_layer + 2 + num_ingredients
    timer_layer = recipe_layer + 2 + num_ingredients
    layers = num_layers(num_ingredients, indicates_delivery)

    def writer(columns: int, rows: int, permutes: bool) -> Any:
        """Build the function that writes the layers of a window of this size."""
        cells = columns * rows
        size = cells * layers
        cell_stride, layer_stride = (1, cells) if sizes.channels_first else (layers, 1)

        @wp.func(inline=True)
        def put(row: wp.array(dtype=float), cell: int, layer: int, value: int):
            row[cell * cell_stride + layer * layer_stride] = float(value)

        @wp.func(inline=True)
        def seen_ingredient(state: State, env: int, agent: int, index: int):
            """Return the ingredient that the agent sees as the one of an index."""
            result = index
            if wp.static(permutes):
                result = state.permutation[env, agent, index]
            return result

        @wp.func
        def put_item(row: wp.array(dtype=float), state: State, env: int, agent: int, cell: int, first: int, item: int):
            """Write plate, cooked, and the counts of ingredients of an item."""
            put(row, cell, first, item & 1)
            put(row, cell, first + 1, (item >> 1) & 1)
            index = int(0)
            while index < num_ingredients:
                put(row, cell, first + 2 + index, (item >> (2 + 2 * seen_ingredient(state, env, agent, index))) & 3)
                index += 1

        @wp.func
        def put_cell(row: wp.array(dtype=float), state: State, env: int, agent: int, cell: int, number: int):
            """Write the layers of terrain and of what lies on it."""
            kind = number & ((1 << KIND_BITS) - 1)
            index = number >> KIND_BITS
            if kind >= INGREDIENTS:
                layer = int(0)
                last = num_ingredients - 1  # restored states may have no permutation
                while layer < last and seen_ingredient(state, env, agent, layer) != kind - INGREDIENTS:
                    layer += 1
                put(row, cell, terrain_layer + INGREDIENTS - 1 + layer, 1)
            elif kind != FLOOR:
                put(row, cell, terrain_layer + kind - 1, 1)
            if kind == COUNTER or kind == POT:  # noqa: SIM109  # Warp has no tuples here
                item = state.item[env, index]
                if item != 0:
                    put_item(row, state, env, agent, cell, item_layer, item)
                if kind == POT:
                    put(row, cell, timer_layer, state.timer[env, index])
            elif kind == INDICATOR:
                put_item(row, state, env, agent, cell, recipe_layer, state.recipe[env])
            elif kind == BUTTON:
                if state.timer[env, index] > 0:
                    put_item(row, state, env, agent, cell, recipe_layer, state.recipe[env])
            elif kind == GOAL:
                if wp.static(indicates_delivery):
                    put(row, cell, timer_layer + 1, state.correct[env])

        @wp.func(inline=True)
        def put_agents(row: wp.array(dtype=float), state: State, env: int, agent: int, left: int, top: int):
            """Write the layers of the agents in the window."""
            other = int(0)
            while other < num_agents:
                position = state.position[env, other]
                x = position % width - left
                y = position // width - top
                if x >= 0 and x < columns and y >= 0 and y < rows:
                    cell = y * columns + x
                    first = wp.where(other == agent, 0, per_agent)
                    put(row, cell, first, 1)
                    put(row, cell, first + 1 + state.facing[env, other], 1)
                    if state.inventory[env, other] != 0:
                        put_item(row, state, env, agent, cell, first + 5, state.inventory[env, other])
                other += 1

        @wp.func(inline=True)
        def write(row: wp.array(dtype=float), state: State, env: int, agent: int, left: int, top: int):
            """Write all layers of the window whose upper left cell is in this column and row, zeros outside."""
            position = int(0)
            while position < size:
                row[position] = 0.0
                position += 1
            first_row = wp.max(top, 0)
            end_row = wp.min(top + rows, height)
            first_column = wp.max(left, 0)
            end_column = wp.min(left + columns, width)
            y = int(first_row)
            while y < end_row:
                x = int(first_column)
                while x < end_column:
                    put_cell(row, state, env, agent, (y - top) * columns + x - left, state.terrain[0, y * width + x])
                    x += 1
                y += 1
            put_agents(row, state, env, agent, left, top)

        return write

    write_kitchen = writer(width, height, False)
    kitchen_size = width * height * layers
    if view_size is None:
        write_own = writer(width, height, sizes.permutes)

        @wp.func(inline=True)
        def observe(params: Params, state: State, io: IO, env: int, agent: int):
            """Write the whole kitchen."""
            write_own(io.obs[env, agent], state, env, agent, 0, 0)
    else:
        side = 2 * view_size + 1
        write_window = writer(side, side, sizes.permutes)

        @wp.func(inline=True)
        def observe(params: Params, state: State, io: IO, env: int, agent: int):
            """Write the window around the agent."""
            position = state.position[env, agent]
            left = position % width - view_size
            write_window(io.obs[env, agent], state, env, agent, left, position // width - view_size)

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the whole kitchen as agent 0 sees it without a window, the recipe, and the time."""
        if agent == 0:
            row = io.global_state[env]
            write_kitchen(row, state, env, 0, 0, 0)
            index = int(0)
            while index < num_ingredients:
                row[kitchen_size + index] = float((state.recipe[env] >> (2 + 2 * index)) & 3)
                index += 1
            row[kitchen_size + num_ingredients] = float(io.step[env]) / float(wp.max(io.max_steps, 1))

    return observe, global_state
