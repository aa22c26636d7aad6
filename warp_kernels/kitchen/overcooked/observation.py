"""Lossless encoding of Overcooked: 26 layers of the kitchen, of which a step writes only the cells that changed."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.kitchen.overcooked.items import (
    COUNTER,
    DISH,
    DISH_DISPENSER,
    NUM_LAYERS,
    ONION,
    ONION_DISPENSER,
    POT,
    SERVING,
    SOUP,
    TOMATO,
    TOMATO_DISPENSER,
    figure,
    item_kind,
    item_recipe,
    item_tick,
)

URGENT_STEPS = 40
"""The last layer is 1 while fewer steps than this are left."""
_URGENCY = 25
_HOLDS: int = wp.constant(1 << 14)  # players with an item are at least this number
_NOT_FACING: int = wp.constant(~(3 << 12))  # bits of a player except for its orientation


def observation(
    params: type, state: type, width: int, height: int, num_surfaces: int, num_pots: int, channels_first: bool
) -> tuple[Any, Any, Any, Any]:
    """Build the observation of an agent, the function that makes it write everything, and the global state.

    State remembers in ``seen_*`` what the rows of ``io.obs`` show. At the end of the rules of a step, ``note_changes``
    compares State with it, and ``observe`` writes only the cells of surfaces and players that differ.

    Args:
        params: Warp struct of environment parameters.
        state: Warp struct, see :class:`warp_kernels.kitchen.overcooked.overcooked.State`.
        width: Number of columns.
        height: Number of rows.
        num_surfaces: Number of surfaces S.
        num_pots: Number of pots among them.
        channels_first: Order of axes is (26, width, height) instead of (width, height, 26).
    """
    Params, State = params, state
    cells = width * height
    size = cells * NUM_LAYERS
    cell_stride, layer_stride = (1, cells) if channels_first else (NUM_LAYERS, 1)

    @wp.func(inline=True)
    def put(row: wp.array(dtype=float), cell: int, layer: int, value: int):
        row[cell * cell_stride + layer * layer_stride] = float(value)

    @wp.func
    def put_item(row: wp.array(dtype=float), cell: int, item: int):
        """Write the layers of an item on a counter or in hands."""
        kind = item_kind(item)
        recipe = item_recipe(item)
        put(row, cell, 18, recipe & 15)
        put(row, cell, 19, recipe >> 4)
        put(row, cell, 21, wp.where(kind == SOUP, 1, 0))
        put(row, cell, 22, wp.where(kind == DISH, 1, 0))
        put(row, cell, 23, wp.where(kind == ONION, 1, 0))
        put(row, cell, 24, wp.where(kind == TOMATO, 1, 0))

    @wp.func
    def put_soup(row: wp.array(dtype=float), cell: int, soup: int, cook_time: int):
        """Write the layers of the soup in a pot."""
        tick = item_tick(soup)
        recipe = item_recipe(soup)
        cooks = wp.where(tick > 0, 1, 0)
        put(row, cell, 16, (recipe & 15) * (1 - cooks))
        put(row, cell, 17, (recipe >> 4) * (1 - cooks))
        put(row, cell, 18, (recipe & 15) * cooks)
        put(row, cell, 19, (recipe >> 4) * cooks)
        put(row, cell, 20, (cook_time + 1 - tick) * cooks)
        put(row, cell, 21, wp.where(tick > cook_time, 1, 0))

    @wp.func(inline=True)
    def put_surface(row: wp.array(dtype=float), state: State, surface: int, item: int):
        """Write the layers of the item on a surface."""
        cell = state.surface[0, surface]
        if surface < num_pots:
            put_soup(row, cell, item, state.cook_time[0, item_recipe(item)])
        else:
            put_item(row, cell, item)

    @wp.func(inline=True)
    def put_player(row: wp.array(dtype=float), index: int, player: int, value: int):
        """Write 1 or 0 where a player, itself (0) or the other (1), is and in its orientation."""
        cell = wp.min(player & 4095, cells - 1)
        put(row, cell, index, value)
        put(row, cell, 2 + 4 * index + ((player >> 12) & 3), value)

    @wp.func
    def put_held(row: wp.array(dtype=float), player: int, value: int):
        """Write the layers that are not 0 for the item that a player holds, or zeros there to remove it."""
        cell = wp.min(player & 4095, cells - 1)
        item = player >> 14
        kind = item_kind(item)
        if kind == SOUP:
            recipe = item_recipe(item)
            put(row, cell, 18, (recipe & 15) * value)
            put(row, cell, 19, (recipe >> 4) * value)
            put(row, cell, 21, value)
        elif kind > 0 and kind < SOUP:  # restored states may have other kinds
            put(row, cell, 21 + kind, value)  # 22 to 24: dish, onion, tomato

    @wp.func
    def put_urgency(row: wp.array(dtype=float), urgent: int):
        cell = int(0)
        while cell < cells:
            put(row, cell, _URGENCY, urgent)
            cell += 1

    @wp.func(inline=True)
    def is_urgent(io: IO, env: int):
        return wp.where(io.max_steps > 0 and io.max_steps - io.step[env] < URGENT_STEPS, 1, 0)

    @wp.func(inline=True)
    def put_kitchen(row: wp.array(dtype=float), state: State):
        """Write the layers of the terrain, and zeros elsewhere."""
        index = int(0)
        while index < size:
            row[index] = 0.0
            index += 1
        cell = int(0)
        while cell < cells:
            kind = state.terrain[0, cell] & 7
            layer = wp.where(kind == POT, 10, wp.where(kind == COUNTER, 11, 0))
            layer = wp.where(kind == ONION_DISPENSER, 12, wp.where(kind == TOMATO_DISPENSER, 13, layer))
            layer = wp.where(kind == DISH_DISPENSER, 14, wp.where(kind == SERVING, 15, layer))
            if layer > 0:
                put(row, cell, layer, 1)
            cell += 1

    @wp.func(inline=True)
    def player_of(state: State, env: int, player: int):
        return figure(state.position[env, player], state.facing[env, player], state.inventory[env, player])

    @wp.func(inline=True)
    def note_changes(state: State, env: int):
        """Compare State with what the observations show: list changed surfaces, and keep the old cells of players."""
        count = int(0)
        surface = int(0)
        while surface < num_surfaces:
            item = state.item[env, surface]
            if item != state.seen_item[env, surface]:
                state.seen_item[env, surface] = item
                state.changed[env, count] = surface
                count += 1
            surface += 1
        state.num_changed[env] = count
        state.was_player[env, 0] = state.seen_player[env, 0]
        state.was_player[env, 1] = state.seen_player[env, 1]
        state.seen_player[env, 0] = player_of(state, env, 0)
        state.seen_player[env, 1] = player_of(state, env, 1)

    @wp.func(inline=True)
    def put_all(row: wp.array(dtype=float), state: State, env: int, first: int, urgent: int):
        """Write all layers, with one player as itself and the other one as the other."""
        put_kitchen(row, state)
        if urgent == 1:
            put_urgency(row, 1)
        surface = int(0)
        while surface < num_surfaces:
            item = state.item[env, surface]
            if item != 0:
                put_surface(row, state, surface, item)
            surface += 1
        player = player_of(state, env, first)
        other = player_of(state, env, 1 - first)
        put_player(row, 0, player, 1)
        put_player(row, 1, other, 1)
        put_held(row, player, 1)
        put_held(row, other, 1)

    @wp.func(inline=True)
    def observe(params: Params, state: State, io: IO, env: int, agent: int):
        """Write what has changed in this step; at the start of an episode, everything."""
        row = io.obs[env, agent]
        urgent = is_urgent(io, env)
        if state.is_blank[env, agent] == 1:
            state.is_blank[env, agent] = 0
            put_all(row, state, env, agent, urgent)
        else:
            if state.seen_urgent[env, agent] != urgent:
                put_urgency(row, urgent)
            count = state.num_changed[env]
            while count > 0:
                count -= 1
                surface = state.changed[env, count]
                put_surface(row, state, surface, state.seen_item[env, surface])
            player = state.seen_player[env, agent]
            other = state.seen_player[env, 1 - agent]
            own_before = state.was_player[env, agent]
            other_before = state.was_player[env, 1 - agent]
            if player != own_before:
                put_player(row, 0, own_before, 0)
                put_player(row, 0, player, 1)
            if other != other_before:
                put_player(row, 1, other_before, 0)
                put_player(row, 1, other, 1)
            # Remove both items before any is written: one may have moved to the cell of the other.
            if (player | other | own_before | other_before) >= _HOLDS:
                own_differs = ((player ^ own_before) & _NOT_FACING) != 0
                other_differs = ((other ^ other_before) & _NOT_FACING) != 0
                if own_before >= _HOLDS and own_differs:
                    put_held(row, own_before, 0)
                if other_before >= _HOLDS and other_differs:
                    put_held(row, other_before, 0)
                if player >= _HOLDS and own_differs:
                    put_held(row, player, 1)
                if other >= _HOLDS and other_differs:
                    put_held(row, other, 1)
        state.seen_urgent[env, agent] = urgent

    @wp.func(inline=True)
    def forget(params: Params, state: State, env: int, agent: int):
        """Let the next observation write everything."""
        state.is_blank[env, agent] = 1

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the layers as player 0 observes them, then the time."""
        if agent == 0:
            row = io.global_state[env]
            put_all(row, state, env, 0, is_urgent(io, env))
            row[size] = float(io.step[env]) / float(wp.max(io.max_steps, 1))

    return note_changes, observe, forget, global_state
