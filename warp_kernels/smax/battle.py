"""A step of SMAX: units attack, move, die and push each other apart, several times; then rewards."""

from typing import Any

import warp as wp

from warp_kernels import philox
from warp_kernels.episode import IO, keyed_stream
from warp_kernels.smax.units import (
    ATTACK,
    ATTACK_RANGE,
    COOLDOWN,
    HEALTH,
    MOVES,
    NUM_STATS,
    RADIUS,
    VELOCITY,
    Params,
    State,
    entry,
    target_of,
)

_STATS: int = wp.constant(NUM_STATS)


def separation(num_units: int) -> tuple[Any, Any]:
    """Build the functions ``stand``, which writes body and push of a unit, and ``separate``.

    ``separate`` pushes living units apart where they overlap; it writes push and pos. All units must stand before.
    """

    @wp.func(inline=True)
    def stand(state: State, env: int, unit: int, position: wp.vec2, health: float):
        radius = wp.where(health > 0.0, state.stats[0, state.kind[env, unit] * _STATS + RADIUS], -1.0e9)
        state.body[env, unit] = wp.vec4(position[0], position[1], radius, 0.0)  # dead units overlap nothing
        state.push[env, unit] = wp.vec2(0.0, 0.0)

    @wp.func(inline=True)
    def separate(state: State, env: int):
        overlaps = bool(False)
        unit = int(0)
        while unit < num_units:
            body = state.body[env, unit]
            other = int(num_units)
            if body[2] >= 0.0:
                other = unit + 1
            while other < num_units:
                other_body = state.body[env, other]
                x = body[0] - other_body[0]
                y = body[1] - other_body[1]
                reach = body[2] + other_body[2]
                square = x * x + y * y
                if reach > 0.0 and square < reach * reach:
                    share = reach / (wp.sqrt(square) + 1.0e-6) - 1.0
                    if share > 0.0:
                        overlaps = True
                        way = wp.vec2(x * share, y * share)
                        state.push[env, unit] = state.push[env, unit] + way
                        state.push[env, other] = state.push[env, other] - way
                other += 1
            unit += 1
        if overlaps:
            unit = int(0)
            while unit < num_units:
                state.pos[env, unit] = state.pos[env, unit] + 0.5 * state.push[env, unit]
                unit += 1

    return stand, separate


def battle(num_allies: int, num_enemies: int, num_agents: int) -> tuple[Any, Any, Any]:
    """Build the world phase of a step, and the functions of :func:`separation` for starts.

    Args:
        num_allies: Number of allies A1.
        num_enemies: Number of enemies A2.
        num_agents: Number of agents A: the allies, or all units.
    """
    num_units = num_allies + num_enemies
    target = target_of(num_allies, num_units)
    stand, separate = separation(num_units)

    @wp.func(inline=True)
    def attack(params: Params, state: State, env: int, unit: int, rng: philox.Stream, world_step: int):
        """Attack if the target is in range and the weapon is ready; write cooldown and the damage of the target."""
        wait = state.cooldown[env, unit]
        action = state.attack[env, unit]
        after = wait - params.time_per_step
        if action >= MOVES and wait <= 0.0 and state.health[env, unit] > 0.0:
            victim = target(unit, action)
            way = state.pos[env, unit] - state.pos[env, victim]
            first = state.kind[env, unit] * _STATS
            near = wp.sqrt(way[0] * way[0] + way[1] * way[1]) < state.stats[0, first + ATTACK_RANGE]
            if near and victim != unit and state.health[env, victim] > 0.0:
                state.damage[env, victim] = state.damage[env, victim] + state.stats[0, first + ATTACK]
                draws = philox.uniform4(rng, unit, philox.STEP, 1 + world_step // 4)
                spread = entry(draws, world_step & 3) * (3.0 * params.time_per_step) - params.time_per_step
                after = wait + (state.stats[0, first + COOLDOWN] + spread - wait)
        state.cooldown[env, unit] = after

    @wp.func(inline=True)
    def suffer(params: Params, state: State, env: int, unit: int):
        """Move a living unit, subtract its damage, and kill it at the border; write pos, health and what separates."""
        health = state.health[env, unit]
        position = state.pos[env, unit]
        if health > 0.0:
            speed = state.stats[0, state.kind[env, unit] * _STATS + VELOCITY]
            way = state.move[env, unit]
            x = position[0] + way[0] * speed * params.time_per_step
            y = position[1] + way[1] * speed * params.time_per_step
            x = wp.max(wp.min(x, params.map_width), 0.0)
            y = wp.max(wp.min(y, params.map_height), 0.0)
            position = wp.vec2(x, y)
            state.pos[env, unit] = position
            health = wp.max(health - state.damage[env, unit], 0.0)
            at_wall = x <= 0.0 or y <= 0.0 or x >= params.map_width or y >= params.map_height
            if at_wall and params.walls_cause_death == 1:
                health = 0.0
            state.health[env, unit] = health
        state.damage[env, unit] = 0.0
        stand(state, env, unit, position, health)

    @wp.func(inline=True)
    def team(params: Params, state: State, env: int, first: int, count: int):
        """Return the share of its health that a side has lost in this step, and the number of its living units."""
        lost = float(0.0)
        alive = float(0.0)
        unit = int(first)
        while unit < first + count:
            health = state.health[env, unit]
            full = state.stats[0, state.kind[env, unit] * _STATS + HEALTH]
            lost += (health - state.before[env, unit]) / full
            alive += wp.where(health > 0.0, 1.0, 0.0)
            unit += 1
        damage = wp.where(params.use_self_play_reward == 1, 0.0, wp.abs(lost) / float(count))
        return wp.vec2(damage, alive)

    @wp.func(inline=True)
    def result(params: Params, state: State, io: IO, env: int):
        """Write rewards, terminated, won and lives of all agents."""
        allies = team(params, state, env, 0, num_allies)
        enemies = team(params, state, env, num_allies, num_enemies)
        agent = int(0)
        while agent < num_agents:
            is_ally = agent < num_allies
            damage = wp.where(is_ally, enemies[0], allies[0])
            won = wp.where(is_ally, enemies[1], allies[1]) == 0.0
            lost = wp.where(is_ally, allies[1], enemies[1]) == 0.0
            reward = damage
            if won and not lost:
                reward += params.won_battle_bonus
            if lost and not won and params.use_self_play_reward == 1:
                reward -= params.won_battle_bonus
            io.reward[env, agent] = reward
            io.terminated[env, agent] = won or lost
            state.won[env, agent] = wp.where(won and not lost, 1, 0)
            state.lives[env, agent] = wp.where(state.health[env, agent] > 0.0, 1, 0)
            agent += 1

    @wp.func(inline=True)
    def fight(params: Params, state: State, io: IO, env: int):
        """Play all world steps with the actions in move and attack."""
        rng = keyed_stream(io, env, state.key[env])
        unit = int(0)
        while unit < num_units:
            state.before[env, unit] = state.health[env, unit]
            state.damage[env, unit] = 0.0
            unit += 1
        world_step = int(0)
        while world_step < params.world_steps_per_env_step:
            unit = int(0)
            while unit < num_units:  # targets are where they were before this world step
                attack(params, state, env, unit, rng, world_step)
                unit += 1
            unit = int(0)
            while unit < num_units:
                suffer(params, state, env, unit)
                unit += 1
            separate(state, env)
            world_step += 1
        result(params, state, io, env)

    return fight, stand, separate
