"""Observations of SMAX as a list of units or a circle of sections, legal actions, and the global state."""

from typing import Any

import warp as wp

from warp_kernels.episode import IO
from warp_kernels.smax.units import (
    ATTACK_RANGE,
    COOLDOWN,
    HEALTH,
    MOVES,
    NUM_MOVES,
    NUM_STATS,
    SIGHT_RANGE,
    Params,
    State,
)

OWN = 4
"""Numbers of the own unit before its type."""
OTHER = 7
"""Numbers of another unit before its type."""
NUM_SECTIONS = 32
"""Sections of the circle around a unit with conic observations."""
UNITS_PER_SECTION = 2
"""Most units that are observed per section."""
_STATS: int = wp.constant(NUM_STATS)
_SECTIONS: int = wp.constant(NUM_SECTIONS)
_PI: float = wp.constant(3.1415927)  # [rad]
_TWO_PI: float = wp.constant(6.2831855)  # [rad]


def observation_width(num_units: int, num_types: int, conic: bool) -> int:
    """Return the width of an observation."""
    slots = NUM_SECTIONS * UNITS_PER_SECTION if conic else num_units - 1
    return slots * (OTHER + num_types) + OWN + num_types


def state_width(num_units: int, num_types: int) -> int:
    """Return the width of the global state."""
    return num_units * (OWN + num_types + 2)


def observations(
    num_allies: int, num_enemies: int, num_types: int, conic: bool, num_actions: int
) -> tuple[Any, Any, Any]:
    """Build the agent phases that write the observation, the action mask and the global state.

    Args:
        num_allies: Number of allies A1.
        num_enemies: Number of enemies A2.
        num_types: Number of unit types N.
        conic: Observe two units per section of a circle instead of all units.
        num_actions: Number of choices of the action masks, padding included.
    """
    num_units = num_allies + num_enemies
    per_unit = OTHER + num_types
    own_column = observation_width(num_units, num_types, conic) - OWN - num_types
    per_state = OWN + num_types
    # An attack is observed as a share of the last action of its unit.
    last_of_ally = float(NUM_MOVES + num_enemies - 1)
    last_of_enemy = float(NUM_MOVES + num_allies - 1)

    @wp.func(inline=True)
    def stat(state: State, env: int, unit: int, index: int):
        """Return an attribute of a unit's type."""
        return state.stats[0, state.kind[env, unit] * _STATS + index]

    @wp.func(inline=True)
    def put_kind(row: wp.array(dtype=float), first: int, kind: int):
        column = int(0)
        while column < num_types:
            row[first + column] = wp.where(column == kind, 1.0, 0.0)
            column += 1

    @wp.func(inline=True)
    def put_zeros(row: wp.array(dtype=float), first: int, count: int):
        column = int(first)
        while column < first + count:
            row[column] = 0.0
            column += 1

    @wp.func(inline=True)
    def waiting(state: State, env: int, unit: int):
        """Return the time until the unit's next attack as a share of its weapon's."""
        return wp.max(wp.min(state.cooldown[env, unit] / stat(state, env, unit, COOLDOWN), 1.0), 0.0)

    @wp.func(inline=True)
    def put_unit(
        params: Params,
        state: State,
        env: int,
        row: wp.array(dtype=float),
        first: int,
        other: int,
        is_own_side: bool,
        gap: wp.vec2,
    ):
        """Write what is observed of another unit; ``gap`` is its relative position as a share of the sight range."""
        row[first] = state.health[env, other] / stat(state, env, other, HEALTH)
        row[first + 1] = gap[0]
        row[first + 2] = gap[1]
        move = state.move[env, other]
        last = wp.where(other < num_allies, last_of_ally, last_of_enemy)
        shows_actions = wp.where(is_own_side or params.see_enemy_actions == 1, 1.0, 0.0)
        row[first + 3] = shows_actions * move[0]
        row[first + 4] = shows_actions * move[1]
        row[first + 5] = shows_actions * (float(state.attack[env, other]) / last)
        row[first + 6] = waiting(state, env, other)
        put_kind(row, first + OTHER, state.kind[env, other])

    @wp.func(inline=True)
    def put_own(params: Params, state: State, env: int, row: wp.array(dtype=float), unit: int):
        position = state.pos[env, unit]
        row[own_column] = state.health[env, unit] / stat(state, env, unit, HEALTH)
        row[own_column + 1] = position[0] / params.map_width
        row[own_column + 2] = position[1] / params.map_height
        row[own_column + 3] = waiting(state, env, unit)
        put_kind(row, own_column + OWN, state.kind[env, unit])

    @wp.func(inline=True)
    def list_units(params: Params, state: State, io: IO, env: int, unit: int):
        """Write all other units in order, for enemies in reverse order, zeros for those out of sight; then itself."""
        row = io.obs[env, unit]
        if state.health[env, unit] > 0.0:
            position = state.pos[env, unit]
            sight = stat(state, env, unit, SIGHT_RANGE)
            is_ally = unit < num_allies
            slot = int(0)
            first = int(0)
            while slot < num_units - 1:
                other = wp.where(is_ally, slot, num_units - 1 - slot)
                if is_ally and other >= unit:
                    other += 1
                if not is_ally and other <= unit:
                    other -= 1
                gap = state.pos[env, other] - position
                dist = wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1])
                if dist < sight and state.health[env, other] > 0.0:
                    put_unit(params, state, env, row, first, other, is_ally == (other < num_allies), gap / sight)
                else:
                    put_zeros(row, first, per_unit)
                first += per_unit
                slot += 1
            put_own(params, state, env, row, unit)
        else:
            put_zeros(row, 0, own_column + OWN + num_types)

    @wp.func(inline=True)
    def edge(section: int):
        """Return the angle at which a section starts [rad]."""
        return _TWO_PI * (float(section) / float(_SECTIONS)) - _PI

    @wp.func(inline=True)
    def circle(params: Params, state: State, io: IO, env: int, unit: int):
        """Write the first two units of every section, dead ones too; then itself. Unit 0 is in no section."""
        row = io.obs[env, unit]
        put_zeros(row, 0, own_column + OWN + num_types)
        if state.health[env, unit] > 0.0:
            position = state.pos[env, unit]
            sight = stat(state, env, unit, SIGHT_RANGE)
            occupied = wp.uint32(0)  # sections with at least one unit, as bits
            two = wp.uint32(0)
            other = int(1)
            while other < num_units:
                gap = (state.pos[env, other] - position) / sight
                dist = wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1])
                if other != unit and dist < 1.0:
                    turn = wp.where(gap[0] < 0.0, wp.where(gap[1] > 0.0, _PI, -_PI), 0.0)
                    angle = wp.atan(gap[1] / (gap[0] + 1.0e-8)) + turn
                    section = int(wp.floor((angle + _PI) / _TWO_PI * float(_SECTIONS)))
                    if angle <= edge(section):
                        section -= 1
                    elif angle >= edge(section + 1):
                        section += 1
                    inside = angle > edge(section) and angle < edge(section + 1)
                    bit = wp.uint32(1) << wp.uint32(section & 31)
                    if inside and section >= 0 and section < _SECTIONS and (two & bit) == wp.uint32(0):
                        slot = 2 * section
                        if (occupied & bit) != wp.uint32(0):
                            slot += 1
                            two = two | bit
                        occupied = occupied | bit
                        is_own_side = (unit < num_allies) == (other < num_allies)
                        put_unit(params, state, env, row, slot * per_unit, other, is_own_side, gap)
                other += 1
            put_own(params, state, env, row, unit)

    @wp.func(inline=True)
    def legal(params: Params, state: State, io: IO, env: int, unit: int):
        """Allow a living unit to move and to attack living units in range; a dead one can only stop."""
        alive = state.health[env, unit] > 0.0
        action = int(0)
        while action < MOVES:
            io.action_mask[env, unit, action] = alive or action == MOVES - 1
            action += 1
        is_ally = unit < num_allies
        count = wp.where(is_ally, num_enemies, num_allies)
        position = state.pos[env, unit]
        reach = stat(state, env, unit, ATTACK_RANGE)
        while action < num_actions:
            index = action - MOVES
            near = bool(False)
            if alive and index < count:
                other = wp.where(is_ally, num_allies + index, num_allies - 1 - index)
                gap = state.pos[env, other] - position
                near = state.health[env, other] > 0.0 and wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1]) < reach
            io.action_mask[env, unit, action] = near
            action += 1

    @wp.func(inline=True)
    def put_state(state: State, io: IO, env: int, unit: int):
        """Write health, position, cooldown and type of a unit, zeros if it is dead; then its side and type."""
        row = io.global_state[env]
        first = unit * per_state
        if state.health[env, unit] > 0.0:
            position = state.pos[env, unit]
            row[first] = state.health[env, unit] / stat(state, env, unit, HEALTH)
            row[first + 1] = position[0]
            row[first + 2] = position[1]
            row[first + 3] = state.cooldown[env, unit]
            put_kind(row, first + OWN, state.kind[env, unit])
        else:
            put_zeros(row, first, per_state)
        row[num_units * per_state + unit] = wp.where(unit < num_allies, 0.0, 1.0)
        row[num_units * (per_state + 1) + unit] = float(state.kind[env, unit])

    @wp.func(inline=True)
    def global_state(params: Params, state: State, io: IO, env: int, agent: int):
        """Write the unit of this agent, and with agent 0 also the enemies that follow the heuristic."""
        put_state(state, io, env, agent)
        if agent == 0 and io.alive.shape[1] == num_allies:
            enemy = int(num_allies)
            while enemy < num_units:
                put_state(state, io, env, enemy)
                enemy += 1

    return circle if conic else list_units, legal, global_state
