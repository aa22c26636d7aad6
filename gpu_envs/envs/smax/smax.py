"""SMAX-v0 (5 agents): Units fight a heuristic or each other.

The rules are in ``warp_kernels/smax/smax.py``, the drawing in ``smax_scene.py``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, any_bits, index, integers
from gpu_envs.descriptions import ANY, ObservationBlock, flags, points
from gpu_envs.envs.smax.scenarios import SCENARIOS, Sides
from gpu_envs.envs.smax.smax_scene import draw
from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.smax import observations, smax
from warp_kernels.smax.units import NUM_MOVES, NUM_STATS, SCRATCH

__all__ = [
    "STATS",
    "Config",
    "action_names",
    "action_parts",
    "build",
    "draw",
    "observation_blocks",
    "observation_space",
]

MAX_UNITS = 500
"""Most units of a side."""
MAX_WORLD_STEPS = 1000
"""Most world steps of a step, from the number of draws per unit and step."""
NO_SCENARIO = {"scenario": None}
"""Requirement of the settings of single units."""
HEURISTIC = {"enemy": "heuristic"}
"""Requirement of the settings of the heuristic."""
STATS = ("velocities", "attacks", "attack_ranges", "sight_ranges", "radiuses", "health", "weapon_cooldowns")
"""Settings ``unit_type_NAME`` in the order of the columns of State.stats."""


@dataclass(frozen=True)
class Config:
    """Settings of SMAX-v0, with the names and defaults of JaxMARL's SMAX and HeuristicEnemySMAX."""

    scenario: str | None = setting(None, choices=tuple(SCENARIOS))
    """Map by its name; None: the units of the next settings."""
    num_allies: int = setting(5, ge=1, le=MAX_UNITS, requires=NO_SCENARIO)
    """Number of allies; only without ``scenario``, as the next settings up to ``unit_types``."""
    num_enemies: int = setting(5, ge=1, le=MAX_UNITS, requires=NO_SCENARIO)
    """Number of enemies."""
    unit_types: tuple[Any, ...] | None = setting(None, requires=NO_SCENARIO)
    """Unit types of all allies, then of all enemies, as names or indices; None: the first type. This is the
    ``unit_types`` of a custom ``Scenario`` in the original."""
    smacv2_position_generation: bool = setting(False)
    """Start with one side surrounding the other, or with mirrored positions, as in SMACv2."""
    smacv2_unit_type_generation: bool = setting(False)
    """Give every ally a random unit type, and the enemies the same ones, as in SMACv2."""
    enemy: str = setting("heuristic", choices=("heuristic", "self_play"))
    """"heuristic": enemies follow the original's heuristic, as in HeuristicEnemySMAX. "self_play": enemies are agents,
    as in SMAX."""
    enemy_shoots: bool = setting(True, requires=HEURISTIC)
    """The heuristic attacks; False: it only moves."""
    attack_mode: str = setting("closest", choices=("closest", "random"), requires=HEURISTIC)
    """Unit in range that the heuristic attacks; it continues until the unit is dead or out of range."""
    map_width: float = setting(32.0, gt=0.0)
    """Width of the map."""
    map_height: float = setting(32.0, gt=0.0)
    """Height of the map."""
    world_steps_per_env_step: int = setting(8, ge=1, le=MAX_WORLD_STEPS)
    """World steps of a step: movements, attacks and deaths are computed in each."""
    time_per_step: float = setting(1.0 / 16.0, gt=0.0)
    """Duration of a world step [s]."""
    unit_type_names: tuple[str, ...] = ("marine", "marauder", "stalker", "zealot", "zergling", "hydralisk")
    """Names of the unit types; the settings ``unit_type_...`` have a value for each."""
    unit_type_velocities: tuple[float, ...] = setting((3.15, 2.25, 4.13, 3.15, 4.13, 3.15), ge=0.0)
    """Velocity [1/s]."""
    unit_type_attacks: tuple[float, ...] = setting((9.0, 10.0, 13.0, 8.0, 5.0, 12.0), ge=0.0)
    """Damage of an attack."""
    unit_type_attack_ranges: tuple[float, ...] = setting((5.0, 6.0, 6.0, 2.0, 2.0, 5.0), ge=0.0)
    """Distance up to which a unit attacks."""
    unit_type_sight_ranges: tuple[float, ...] = setting((9.0, 10.0, 10.0, 9.0, 8.0, 9.0), gt=0.0)
    """Distance up to which a unit observes others."""
    unit_type_radiuses: tuple[float, ...] = setting((0.375, 0.5625, 0.625, 0.5, 0.375, 0.625), ge=0.0)
    """Radius: units that overlap are pushed apart."""
    unit_type_health: tuple[float, ...] = setting((45.0, 125.0, 160.0, 150.0, 35.0, 80.0), gt=0.0)
    """Health at the start."""
    unit_type_weapon_cooldowns: tuple[float, ...] = setting((0.61, 1.07, 1.87, 0.86, 0.5, 0.59), gt=0.0)
    """Time between two attacks [s]; every attack adds a random time in [-1, 2] ``time_per_step``."""
    use_self_play_reward: bool = setting(False)
    """Reward only the end: ``won_battle_bonus`` for the side that wins, and minus that for the side that loses."""
    see_enemy_actions: bool = setting(True)
    """Observe the last actions of units of the other side."""
    won_battle_bonus: float = setting(1.0)
    """Reward of every agent of a side that has won."""
    walls_cause_death: bool = setting(True)
    """Units that touch the border of the map die; False: they stop there."""
    max_steps: int = setting(100, ge=1, le=MAX_INT - 1, decides=True)
    """Time limit: episodes end after ``max_steps`` + 1 steps, as in the original. ``max_episode_steps=`` truncates
    earlier."""
    time_limit: str = setting("termination", choices=("termination", "truncation"))
    """Kind of the end at ``max_steps``. The original's terminal states include it; critics on the global state need
    "termination"."""
    observation_type: str = setting("unit_list", choices=("unit_list", "conic"))
    """"unit_list": all other units in order. "conic": up to two units in each of 32 sections of a circle."""
    action_type: str = setting("discrete", choices=("discrete", "continuous"))
    """"discrete": move, stop or attack a unit. "continuous": probabilities to move and of a new target, and polar
    coordinates."""

    def __post_init__(self) -> None:
        """Check the unit types."""
        count = len(self.unit_type_names)
        for name in STATS:
            values = getattr(self, f"unit_type_{name}")
            if not count or len(values) != count:
                expected = f"a value per name of unit_type_names, {max(count, 1)}"
                raise ConfigError(f"unit_type_{name}: expected {expected}, got {len(values)}")
        if self.unit_types is not None:
            units = self.num_allies + self.num_enemies
            listed = isinstance(self.unit_types, list | tuple)
            if not listed or len(self.unit_types) != units:
                expected = f"a list with a type per ally and enemy, {units} (num_allies + num_enemies)"
                actual = len(self.unit_types) if listed else shown(self.unit_types)
                raise ConfigError(f"unit_types: expected {expected}, got {actual}")
            object.__setattr__(self, "unit_types", tuple(map(self._type_index, self.unit_types)))
        highest = max((*self.units.allies, *self.units.enemies))
        if highest >= count:
            raise ConfigError(
                f"unit_type_names: expected the {highest + 1} types of scenario={self.scenario!r} or more, got {count}"
            )

    def _type_index(self, value: Any) -> int:
        """Return the index of a unit type."""
        names = self.unit_type_names
        if value in names:
            return names.index(value)
        if type(value) is int and 0 <= value < len(names):
            return value
        expected = f"{', '.join(map(repr, names))} or an int in [0, {len(names) - 1}]"
        raise ConfigError(f"unit_types: expected {expected}, got {shown(value)}")

    @property
    def units(self) -> Sides:
        """Unit types of both sides at the start."""
        if self.scenario is not None:
            return SCENARIOS[self.scenario]
        kinds = self.unit_types or (0,) * (self.num_allies + self.num_enemies)
        return Sides(kinds[: self.num_allies], kinds[self.num_allies :])

    @property
    def stats(self) -> np.ndarray:
        """Attributes of the unit types, (N, 7) float32."""
        return np.array([getattr(self, f"unit_type_{name}") for name in STATS], np.float32).T.copy()


def observation_space(config: Config) -> spaces.Box:
    """Return the observation space of a unit: shares in [-1, 1]; its position may be outside of the map."""
    units = len(config.units.allies) + len(config.units.enemies)
    types = len(config.unit_type_names)
    width = observations.observation_width(units, types, config.observation_type == "conic")
    low, high = np.zeros(width, np.float32), np.ones(width, np.float32)
    self_column = width - types - observations.OWN
    per_unit = observations.OTHER + types
    for column in range(1, 6):  # relative position, and movement
        low[column:self_column:per_unit] = -1.0
    low[5:self_column:per_unit] = 0.0
    low[self_column + 1 : self_column + 3], high[self_column + 1 : self_column + 3] = -np.inf, np.inf
    return spaces.Box(low, high, dtype=np.float32)


def build(config: Config) -> EnvDefinition:
    """Build the environment definition."""
    scenario, self_play, types = config.units, config.enemy == "self_play", len(config.unit_type_names)
    continuous = config.action_type == "continuous"
    counts = {"ally": len(scenario.allies), "enemy": len(scenario.enemies)}
    allies, enemies = counts.values()
    units = allies + enemies
    sides = {
        side: tuple(f"{side}_{row}" for row in range(count))
        for side, count in counts.items()
        if self_play or side == "ally"
    }
    agents = tuple(agent for names in sides.values() for agent in names)
    if continuous:
        done: dict[str, spaces.Space[Any]] = dict.fromkeys(sides, spaces.Box(0.0, 1.0, (smax.CONTROLS,), np.float32))
    else:
        done = {"ally": spaces.Discrete(NUM_MOVES + enemies), "enemy": spaces.Discrete(NUM_MOVES + allies)}
    space, stats = observation_space(config), config.stats
    return EnvDefinition(
        rules=smax.rules(allies, enemies, types, self_play, continuous, config.observation_type == "conic"),
        params={
            "map_width": config.map_width,
            "map_height": config.map_height,
            "time_per_step": config.time_per_step,
            "world_steps_per_env_step": config.world_steps_per_env_step,
            "walls_cause_death": int(config.walls_cause_death),
            "use_self_play_reward": int(config.use_self_play_reward),
            "won_battle_bonus": config.won_battle_bonus,
            "see_enemy_actions": int(config.see_enemy_actions),
            "smacv2_position_generation": int(config.smacv2_position_generation or scenario.smacv2),
            "smacv2_unit_type_generation": int(config.smacv2_unit_type_generation or scenario.smacv2),
            "enemy_shoots": int(config.enemy_shoots),
            "attacks_random": int(config.attack_mode == "random"),
        },
        state={
            "pos": (units,),
            "health": (units,),
            "cooldown": (units,),
            "kind": index((units,), types),
            "move": (units,),
            "attack": integers((units,), 0, NUM_MOVES - 1 + max(allies, enemies)),
            "goal": (enemies,),
            "victim": integers((enemies,), -1, allies - 1),
            "won": index((len(agents),), 2),
            "lives": index((len(agents),), 2),
            "key": any_bits(()),
            "before": (units,),
            "damage": (units,),
            "body": (units,),
            "push": (units,),
            "stats": (types * NUM_STATS,),
            "units": index((units,), types),
        },
        initial={"stats": stats.reshape(-1), "units": np.array((*scenario.allies, *scenario.enemies), np.int32)},
        scratch=SCRATCH,
        agents=agents,
        groups={side: tuple(map(agents.index, names)) for side, names in sides.items()},
        roles={side: (side,) for side in sides} if self_play else {},
        zero_sum=self_play and config.use_self_play_reward and allies == enemies,
        observation_spaces=dict.fromkeys(agents, space),
        action_spaces={agent: done[side] for side, names in sides.items() for agent in names},
        info={"won_battle": "won", "unit_alive": "lives"},
        results=("won_battle",),
        global_state_size=observations.state_width(units, types),
        max_episode_steps=config.max_steps + 1,
        time_limit_terminates=config.time_limit == "termination",
        bounds={
            "attacks_random": (0, 1),
            **dict.fromkeys(
                (
                    *("walls_cause_death", "use_self_play_reward", "see_enemy_actions", "enemy_shoots"),
                    *("smacv2_position_generation", "smacv2_unit_type_generation"),
                ),
                (0, 1),
            ),
        },
        draw=draw,
        render_fps=8,
    )


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of the actions of the agent in this row."""
    allies, enemies = len(config.units.allies), len(config.units.enemies)
    targets = [f"enemy_{unit}" for unit in range(enemies)]
    if row >= allies:
        targets = [f"ally_{unit}" for unit in reversed(range(allies))]
    return ["north", "east", "south", "west", "stop", *(f"attack {target}" for target in targets)]


def action_parts(config: Config, row: int) -> list[str]:
    """Return the names of the components of a continuous action."""
    return ["shoot_last_enemy", "do_shoot", "coordinate_1", "coordinate_2"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
    allies, enemies = len(config.units.allies), len(config.units.enemies)
    types = [f"is a {name}" for name in config.unit_type_names]
    parts = ["health", "x", "y", "movement x", "movement y", "attack", "cooldown", *types]
    if config.observation_type == "conic":
        meaning = "two units in each of 32 sections of the circle, counterclockwise from the left"
        width = observations.NUM_SECTIONS * observations.UNITS_PER_SECTION * len(parts)
        blocks = [ObservationBlock(meaning, "shares", -1, 1, width, parts)]
    else:
        units = [*(f"ally_{unit}" for unit in range(allies)), *(f"enemy_{unit}" for unit in range(enemies))]
        neighbors = [*units[:row], *units[row + 1 :]]
        blocks = [
            ObservationBlock(f"{unit}, if it is in sight", "shares", -1, 1, len(parts), parts)
            for unit in (neighbors if row < allies else reversed(neighbors))
        ]
    return [
        *blocks,
        ObservationBlock("own health", "share"),
        points("own position (x, y)", "shares of the map", ANY),
        ObservationBlock("own cooldown", "share"),
        flags("own unit type", types),
    ]
