"""Starts of SMAX: two groups at the sides of the map, or the positions and unit types of SMACv2."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import episode_key
from warp_kernels.smax.units import HEALTH, NUM_STATS, Params, State, entry

_STATS: int = wp.constant(NUM_STATS)
# Draws of the start beside draw 0 of every unit: of the world, by index in place of a unit.
_WORLD: int = wp.constant(1)
_GROUPS: int = wp.constant(2)


def start(num_allies: int, num_enemies: int, num_agents: int, num_types: int, stand: Any, separate: Any) -> Any:
    """Build the reset of a world.

    Args:
        num_allies: Number of allies A1.
        num_enemies: Number of enemies A2.
        num_agents: Number of agents A.
        num_types: Number of unit types N.
        stand: Function that prepares a unit for ``separate``.
        separate: Function that pushes overlapping units apart.
    """
    num_units = num_allies + num_enemies

    @wp.func(inline=True)
    def place_reflected(params: Params, state: State, env: int, unit: int, rng: philox.Stream):
        """Place allies uniformly in the left half, enemies as their mirror images, and further enemies uniformly."""
        twin = wp.where(unit < num_allies, unit, unit - num_allies)
        has_twin = twin < num_allies
        draw = philox.uniform4(rng, wp.where(has_twin, twin, unit), philox.RESET, 0)
        x = draw[0] * 0.5 * params.map_width
        if unit >= num_allies:
            x = wp.where(has_twin, params.map_width - x, 0.5 * params.map_width + x)
        state.pos[env, unit] = wp.vec2(x, draw[1] * params.map_height)

    @wp.func(inline=True)
    def place_surrounding(params: Params, state: State, env: int, unit: int, rng: philox.Stream, ally_inside: bool):
        """Place one side in the center, and every unit of the other in one of four groups toward the corners."""
        draw = philox.uniform4(rng, unit, philox.RESET, 0)
        x = 0.5 * params.map_width
        y = 0.5 * params.map_height
        if (unit < num_allies) != ally_inside:
            word = philox.bits(rng, unit, philox.RESET, 3)
            group = philox.below(word[0], 4)
            share = entry(
                philox.uniform4(rng, 0, philox.RESET, _GROUPS), group
            )  # of the way from the corner to the center
            x = share * x + (1.0 - share) * wp.where(group >= 2, params.map_width, 0.0)
            y = share * y + (1.0 - share) * wp.where((group & 1) == 1, params.map_height, 0.0)
        state.pos[env, unit] = wp.vec2(x + 4.0 * draw[0] - 2.0, y + 4.0 * draw[1] - 2.0)

    @wp.func(inline=True)
    def place_facing(params: Params, state: State, env: int, unit: int, rng: philox.Stream):
        """Place a unit around the center of its half."""
        draw = philox.uniform4(rng, unit, philox.RESET, 0)
        x = params.map_width / 4.0 * wp.where(unit < num_allies, 1.0, 3.0)
        state.pos[env, unit] = wp.vec2(x + 4.0 * draw[0] - 2.0, 0.5 * params.map_height + 4.0 * draw[1] - 2.0)

    @wp.func(inline=True)
    def kind_of(params: Params, state: State, unit: int, rng: philox.Stream):
        """Return the unit type: the scenario's, or a random one that both sides share."""
        if params.smacv2_unit_type_generation == 0:
            return state.units[0, unit]
        twin = wp.where(unit < num_allies, unit, unit - num_allies)
        kind = philox.below(philox.bits(rng, twin, philox.RESET, 0)[2], num_types)
        return wp.where(twin < num_allies, kind, 0)  # further enemies are of the first type, as in the original

    @wp.func(inline=True)
    def reset(params: Params, state: State, env: int, rng: philox.Stream):
        """Place all units, at full health and ready to attack, and push them apart."""
        state.key[env] = episode_key(rng)
        world = philox.uniform4(rng, 0, philox.RESET, _WORLD)
        unit = int(0)
        while unit < num_units:
            if params.smacv2_position_generation == 0:
                place_facing(params, state, env, unit, rng)
            elif world[0] < 0.5:
                place_surrounding(params, state, env, unit, rng, world[1] < 0.5)
            else:
                place_reflected(params, state, env, unit, rng)
            kind = kind_of(params, state, unit, rng)
            state.kind[env, unit] = kind
            state.health[env, unit] = state.stats[0, kind * _STATS + HEALTH]
            state.cooldown[env, unit] = 0.0
            state.move[env, unit] = wp.vec2(0.0, 0.0)
            state.attack[env, unit] = 0
            stand(state, env, unit, state.pos[env, unit], state.health[env, unit])
            unit += 1
        unit = int(0)
        while unit < num_enemies:
            state.goal[env, unit] = wp.vec2(0.0, 0.0)
            state.victim[env, unit] = -1
            unit += 1
        unit = int(0)
        while unit < num_agents:
            state.won[env, unit] = 0
            state.lives[env, unit] = 1
            unit += 1
        separate(state, env)

    return reset
