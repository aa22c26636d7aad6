"""Movements and attacks of all units: of agents from their actions, of other enemies by JaxMARL's heuristic."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, keyed_stream
from warp_kernels.smax.units import (
    ATTACK_RANGE,
    EAST,
    MOVES,
    NORTH,
    NUM_STATS,
    SIGHT_RANGE,
    SOUTH,
    STOP,
    WEST,
    Params,
    State,
)

_STATS: int = wp.constant(NUM_STATS)
_TWO_PI: float = wp.constant(6.2831855)  # [rad]


@wp.func(inline=True)
def _direction(action: int):
    """Return the movement of a discrete action, (0, 0) for others."""
    x = wp.where(action == EAST, 1.0, wp.where(action == WEST, -1.0, 0.0))
    y = wp.where(action == NORTH, 1.0, wp.where(action == SOUTH, -1.0, 0.0))
    return wp.vec2(x, y)


def decisions(num_allies: int, num_enemies: int, num_agents: int, continuous: bool) -> Any:
    """Build the item phase over units that writes move and attack; the heuristic also writes goal and victim.

    Args:
        num_allies: Number of allies A1.
        num_enemies: Number of enemies A2.
        num_agents: Number of agents A; the other units follow the heuristic.
        continuous: Actions are boxes.
    """

    @wp.func(inline=True)
    def keep(state: State, env: int, unit: int, action: int):
        """Write a discrete action."""
        state.move[env, unit] = _direction(action)
        state.attack[env, unit] = wp.where(action > STOP, action, 0)

    @wp.func(inline=True)
    def aim(state: State, io: IO, env: int, unit: int):
        """Move by polar coordinates, or attack the unit that is nearest to them or the last one, at random."""
        word = philox.bits(keyed_stream(io, env, state.key[env]), unit, philox.STEP, 0)
        angle = io.control[env, unit, 3] * _TWO_PI
        length = io.control[env, unit, 2]
        way = wp.vec2(length * wp.cos(angle), length * wp.sin(angle))
        action = int(0)
        if philox.unit(word[0]) >= io.control[env, unit, 1]:
            action = state.attack[env, unit]
            if philox.unit(word[1]) < io.control[env, unit, 0]:
                first = wp.where(unit < num_allies, num_allies, 0)
                count = wp.where(unit < num_allies, num_enemies, num_allies)
                spot = state.pos[env, unit] + way
                nearest = float(1.0e30)
                other = int(first)
                while other < first + count:
                    gap = state.pos[env, other] - spot
                    dist = wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1])
                    if dist < nearest:
                        nearest = dist
                        action = MOVES + wp.where(unit < num_allies, other - num_allies, num_allies - 1 - other)
                    other += 1
            way = wp.vec2(0.0, 0.0)
        state.move[env, unit] = way
        state.attack[env, unit] = action

    @wp.func(inline=True)
    def observed(state: State, env: int, unit: int, slot: int, sight: float):
        """Return the relative position of an ally as the heuristic computes it, and 1 if it is visible."""
        ally = num_allies - 1 - slot
        gap = state.pos[env, ally] - state.pos[env, unit]
        dist = wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1])
        is_visible = state.health[env, ally] > 0.0 and dist < sight
        return wp.vec3(gap[0] / sight * sight, gap[1] / sight * sight, wp.where(is_visible, 1.0, 0.0))

    @wp.func(inline=True)
    def follow(params: Params, state: State, io: IO, env: int, unit: int):
        """Attack an ally in range, the last one if possible; otherwise go to a visible one or across the map."""
        row = unit - num_allies
        alive = state.health[env, unit] > 0.0
        kind = wp.where(alive, state.kind[env, unit], 0)
        sight = state.stats[0, kind * _STATS + SIGHT_RANGE]
        attack_range = state.stats[0, kind * _STATS + ATTACK_RANGE]
        position = wp.vec2(0.0, 0.0)  # a dead unit observes zeros
        num_seen = int(0)
        num_near = int(0)
        nearest = int(-1)
        shortest = float(1.0e30)
        last = state.victim[env, row]
        keeps = bool(False)
        if alive:
            raw = state.pos[env, unit]
            position = wp.vec2(
                raw[0] / params.map_width * params.map_width, raw[1] / params.map_height * params.map_height
            )
            slot = int(0)
            while slot < num_allies:
                gap = observed(state, env, unit, slot, sight)
                if gap[2] > 0.0:
                    num_seen += 1
                    dist = wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1])
                    if dist < attack_range:
                        num_near += 1
                        keeps = keeps or slot == last
                        if dist < shortest:
                            shortest = dist
                            nearest = slot
                slot += 1
        word = wp.vec4ui(wp.uint32(0), wp.uint32(0), wp.uint32(0), wp.uint32(0))
        if num_seen > 1:
            word = philox.bits(keyed_stream(io, env, state.key[env]), unit, philox.STEP, 0)
        # The slot of a random ally that is visible, and of a random one in range.
        skip_seen = philox.below(word[0], wp.max(num_seen, 1))
        skip_near = philox.below(word[1], wp.max(num_near, 1))
        chased = position
        if alive and (num_near == 0 or params.attacks_random == 1 or params.enemy_shoots == 0):
            slot = int(0)
            while slot < num_allies:
                gap = observed(state, env, unit, slot, sight)
                if gap[2] > 0.0:
                    if skip_seen == 0:
                        chased = wp.vec2(gap[0] + position[0], gap[1] + position[1])
                    skip_seen -= 1
                    if wp.sqrt(gap[0] * gap[0] + gap[1] * gap[1]) < attack_range:
                        if skip_near == 0 and params.attacks_random == 1:
                            nearest = slot
                        skip_near -= 1
                slot += 1
        goal = state.goal[env, row]
        if goal[0] == 0.0 and goal[1] == 0.0 and last == -1:
            x = 0.5 * params.map_width
            y = 0.5 * params.map_height
            goal = wp.vec2(x - (position[0] - x), y - (position[1] - y))  # its position turned about the center
            state.goal[env, row] = goal
        state.victim[env, row] = wp.where(keeps, last, nearest)
        way = wp.where(num_seen > 0, chased, goal) - position
        action = int(NORTH)
        best = way[1]
        if way[0] > best:
            action = EAST
            best = way[0]
        if -way[1] > best:
            action = SOUTH
            best = -way[1]
        if -way[0] > best:
            action = WEST
        if num_near > 0 and params.enemy_shoots == 1:
            action = MOVES + state.victim[env, row]
        keep(state, env, unit, action)

    @wp.func(inline=True)
    def decide(params: Params, state: State, io: IO, env: int, unit: int):
        """Write movement and attack of a unit."""
        if unit < num_agents:
            if wp.static(continuous):
                aim(state, io, env, unit)
            else:
                keep(state, env, unit, int(io.choice[env, unit, 0]))
        elif wp.static(num_agents < num_allies + num_enemies):
            follow(params, state, io, env, unit)

    return decide
