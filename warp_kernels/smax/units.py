"""Parameters, State and unit types of SMAX.

U = A1 + A2 units per world: A1 allies, then A2 enemies. A unit is alive if its health is greater than 0.
"""

from typing import Any

import warp as wp

from warp_kernels.generated_source import compiled

NORTH: int = wp.constant(0)
"""Action: move up."""
EAST: int = wp.constant(1)
"""Action: move right."""
SOUTH: int = wp.constant(2)
"""Action: move down."""
WEST: int = wp.constant(3)
"""Action: move left."""
STOP: int = wp.constant(4)
"""Action without effect; the following actions attack a unit of the other side."""
NUM_MOVES = 5
"""Number of actions that do not attack."""
MOVES: int = wp.constant(NUM_MOVES)
"""The same for kernels."""

VELOCITY: int = wp.constant(0)
"""Column of State.stats: velocity."""
ATTACK: int = wp.constant(1)
"""Column of State.stats: damage of an attack."""
ATTACK_RANGE: int = wp.constant(2)
"""Column of State.stats: attack range."""
SIGHT_RANGE: int = wp.constant(3)
"""Column of State.stats: sight range."""
RADIUS: int = wp.constant(4)
"""Column of State.stats: radius."""
HEALTH: int = wp.constant(5)
"""Column of State.stats: health at the start."""
COOLDOWN: int = wp.constant(6)
"""Column of State.stats: time between attacks."""
NUM_STATS = 7
"""Number of attributes of a unit type."""


@wp.struct
class Params:
    """Environment parameters. Lengths are in units of the map."""

    map_width: float  # width of the map [map unit]
    map_height: float  # height of the map [map unit]
    time_per_step: float  # duration of a world step [s]
    world_steps_per_env_step: int  # world steps of a step
    walls_cause_death: int  # 1: a unit that touches the border of the map dies
    use_self_play_reward: int  # 1: damage is worth nothing, and a lost battle is punished
    won_battle_bonus: float  # reward of a won battle [1]
    see_enemy_actions: int  # 1: observations contain the last actions of units of the other side
    smacv2_position_generation: int  # 1: units start as in SMACv2
    smacv2_unit_type_generation: int  # 1: unit types are random
    enemy_shoots: int  # 1: the heuristic attacks
    attacks_random: int  # 1: the heuristic attacks a random unit in range, 0: the closest one


@wp.struct
class State:
    """State of E worlds, U units, A agents, N types."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, U) position
    health: wp.array2d(dtype=float)  # (E, U) health; 0: dead
    cooldown: wp.array2d(dtype=float)  # (E, U) time until the next attack [s]; <= 0: ready
    kind: wp.array2d(dtype=int)  # (E, U) unit type
    move: wp.array2d(dtype=wp.vec2)  # (E, U) last movement, length <= 1
    attack: wp.array2d(dtype=int)  # (E, U) last action if it was an attack, else 0
    goal: wp.array2d(dtype=wp.vec2)  # (E, A2) where the heuristic goes while it sees no unit; (0, 0): not yet known
    victim: wp.array2d(dtype=int)  # (E, A2) index of the unit that the heuristic attacks, in observed order, or -1
    won: wp.array2d(dtype=int)  # (E, A) 1: the agent's side has won the battle in the last step
    lives: wp.array2d(dtype=int)  # (E, A) 1: the agent's unit is alive
    key: wp.array(dtype=wp.uint64)  # (E,) key of the random numbers of the episode
    before: wp.array2d(dtype=float)  # (E, U) health at the start of the step
    damage: wp.array2d(dtype=float)  # (E, U) damage in this world step
    body: wp.array2d(dtype=wp.vec4)  # (E, U) x, y, radius or less than 0 for dead units, unused
    push: wp.array2d(dtype=wp.vec2)  # (E, U) displacement by overlapping units
    # Tables that all worlds share: row 0.
    stats: wp.array2d(dtype=float)  # (E, N * 7) attributes of the unit types
    units: wp.array2d(dtype=int)  # (E, U) unit types at the start


_PER_UNIT = ("pos", "health", "cooldown", "kind", "move", "attack", "before", "damage", "body", "push")
SCRATCH = ("before", "damage", "body", "push")
"""Fields of State that carry nothing to the next step."""


def relayout(num_allies: int, num_enemies: int, num_agents: int, num_types: int) -> Any:
    """Build ``Rules.relayout``: fields of State per unit and agent, and tables, with constant sizes."""
    units = num_allies + num_enemies
    sizes: dict[str, tuple[Any, int]] = dict.fromkeys(_PER_UNIT, ("n", units))
    sizes |= {"goal": ("n", num_enemies), "victim": ("n", num_enemies)}
    sizes |= {"won": ("n", num_agents), "lives": ("n", num_agents)}
    sizes |= {"stats": (1, num_types * NUM_STATS), "units": (1, units)}
    dtypes = {name: State.vars[name].type.dtype for name in sizes}
    lines = [
        f"state.{name} = wp.array(ptr=state.{name}.ptr, shape=({rows}, {columns}), dtype={name}_type)"
        for name, (rows, columns) in sizes.items()
    ]
    constants = {"State": State} | {f"{name}_type": dtype for name, dtype in dtypes.items()}
    return compiled("dense", "state: State, n: int", [*lines, "return state"], constants)


@wp.func(inline=True)
def entry(values: wp.vec4, index: int):
    """Return an entry of a vector, in registers: GPUs keep vectors with variable indices on the stack."""
    return wp.where(index < 2, wp.where(index == 0, values[0], values[1]), wp.where(index == 2, values[2], values[3]))


def target_of(num_allies: int, num_units: int) -> Any:
    """Build the function that returns the unit which an attack is aimed at.

    Allies count enemies in order; enemies count allies from the last one.
    """

    @wp.func(inline=True)
    def target(unit: int, action: int):
        ahead = action - MOVES
        index = wp.where(unit < num_allies, num_allies + ahead, num_allies - 1 - ahead)
        return wp.min(wp.max(index, 0), num_units - 1)  # restored states may hold other numbers

    return target
