"""Components Gather and Build, and the growth of wood and stone."""

from typing import Any

import warp as wp

from warp_kernels import helpers, philox
from warp_kernels.economy.gather_trade_build.economy_types import (
    MORE,
    OWNER,
    PRESENT,
    STONE,
    TERRAIN,
    VISITOR,
    WATER,
    Params,
    Sizes,
    State,
    owner_of,
    units_of,
)
from warp_kernels.economy.gather_trade_build.random_layouts import random_layouts

WEST: int = wp.constant(1)
"""Move to the column on the left."""
EAST: int = wp.constant(2)
"""Move to the column on the right."""
NORTH: int = wp.constant(3)
"""Move to the row above."""
SOUTH: int = wp.constant(4)
"""Move to the row below."""


def may_enter_of(sizes: Sizes) -> Any:
    """Build ``neighbor``: the cell in a direction if the agent may go there, otherwise -1."""
    height, width = sizes.height, sizes.width
    last = height * width - 1

    @wp.func(inline=True)
    def neighbor(state: wp.ref[State], env: int, agent: int, direction: int):
        """Refuse cells outside of the world, with water, an agent, or the house of another agent."""
        position = state.position[env, agent]
        row = position // width
        column = position - row * width
        row += wp.where(direction == SOUTH, 1, 0) - wp.where(direction == NORTH, 1, 0)
        column += wp.where(direction == EAST, 1, 0) - wp.where(direction == WEST, 1, 0)
        destination = int(-1)
        if row >= 0 and row < height and column >= 0 and column < width:
            target = wp.min(row * width + column, last)
            cell = state.cell[env, target]
            owner = owner_of(cell)
            if (cell & TERRAIN) != WATER and cell < VISITOR and (owner == 0 or owner == agent + 1):
                destination = target
        return destination

    return neighbor


def may_build_of(sizes: Sizes) -> Any:
    """Build ``may_build``: the agent has both resources and is on land without a house."""
    n = sizes.num_agents

    @wp.func(inline=True)
    def may_build(state: wp.ref[State], env: int, agent: int):
        free = (state.cell[env, state.position[env, agent]] & (VISITOR - 1)) == 0
        return free and state.goods[env, agent] > 0 and state.goods[env, n + agent] > 0

    return may_build


def gathering(sizes: Sizes) -> tuple[Any, Any, Any, Any]:
    """Build ``build``, ``shuffle``, ``gather`` and ``grow``, the parts of a step."""
    n, num_sources, is_random = sizes.num_agents, sizes.num_sources, sizes.is_random
    neighbor, may_build = may_enter_of(sizes), may_build_of(sizes)

    @wp.func(inline=True)
    def build(params: Params, state: wp.ref[State], env: int, agent: int):
        """Build a house of one stone and one wood, if the agent can."""
        if may_build(state, env, agent):
            state.goods[env, agent] = state.goods[env, agent] - 1
            state.goods[env, n + agent] = state.goods[env, n + agent] - 1
            state.cell[env, state.position[env, agent]] += OWNER * (agent + 1)
            state.coin[env, agent] = state.coin[env, agent] + state.payment[env, agent]
            state.labor[env, agent] = state.labor[env, agent] + wp.float64(params.build_labor)
            state.houses[env, agent] = state.houses[env, agent] + 1

    @wp.func(inline=True)
    def shuffle(state: wp.ref[State], env: int, rng: philox.Stream):
        """Write a random order of the agents."""
        index = int(0)
        while index < n:
            state.turn[env, index] = index
            index += 1
        helpers.shuffle(state.turn, env, n, rng, philox.STEP, 0)

    @wp.func(inline=True)
    def gather(params: Params, state: wp.ref[State], env: int, agent: int, direction: int, rng: philox.Stream):
        """Move if the cell is free; then collect the resource of the agent's cell, also without a move."""
        if direction > 0:
            destination = neighbor(state, env, agent, direction)
            if destination >= 0:
                state.cell[env, state.position[env, agent]] -= VISITOR * (agent + 1)
                state.cell[env, destination] = state.cell[env, destination] + VISITOR * (agent + 1)
                state.position[env, agent] = destination
                state.labor[env, agent] = state.labor[env, agent] + wp.float64(params.move_labor)
        position = state.position[env, agent]
        cell = state.cell[env, position]
        if (cell & PRESENT) != 0:
            amount = int(1)
            if state.bonus[env, agent] > 0.0:
                word = philox.bits(rng, agent, philox.STEP, 0)
                amount += wp.where(philox.unit(word[1]) < state.bonus[env, agent], 1, 0)
            good = wp.where((cell & TERRAIN) == STONE, agent, n + agent)
            state.goods[env, good] = state.goods[env, good] + amount
            state.gathered[env, agent] = state.gathered[env, agent] + amount
            harvest = PRESENT
            if wp.static(is_random):
                harvest = wp.where(units_of(cell) > 1, MORE, PRESENT)
            state.cell[env, position] = cell - harvest
            state.labor[env, agent] = state.labor[env, agent] + wp.float64(params.collect_labor)

    @wp.func(inline=True)
    def grow(params: Params, state: wp.ref[State], env: int, rng: philox.Stream):
        """Let every empty source grow with the same probability."""
        source = int(0)
        while source < num_sources:
            empty = int(0)
            index = source
            while index < wp.min(source + 4, num_sources):
                empty += wp.where((state.cell[env, state.source[0, index]] & PRESENT) == 0, 1, 0)
                index += 1
            if empty > 0:
                word = philox.bits(rng, source // 4, philox.STEP, 1)
                index = source
                while index < wp.min(source + 4, num_sources):
                    if philox.unit(word[index - source]) < params.resource_regen_prob:
                        position = state.source[0, index]
                        state.cell[env, position] = state.cell[env, position] | PRESENT
                    index += 1
            source += 4

    if is_random:
        _, grow = random_layouts(sizes)
    return build, shuffle, gather, grow
