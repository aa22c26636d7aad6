"""SMAX-v0 (5 agents): Units fight a heuristic or each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, params_of
from gpu_envs.descriptions import ANY, Entities, ObservationBlock, flags, points
from gpu_envs.errors import ConfigError, shown
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Color, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.smax import observations, smax
from warp_kernels.smax.units import ATTACK_RANGE, HEALTH, NUM_MOVES, NUM_STATS, RADIUS, SCRATCH

_MARINE, _STALKER, _ZEALOT, _HYDRALISK = 0, 2, 3, 5  # indices of the default unit types


@dataclass(frozen=True)
class Sides:
    """Units of a map."""

    allies: tuple[int, ...]
    """Unit type of every ally."""
    enemies: tuple[int, ...]
    """Unit type of every enemy."""
    smacv2: bool = False
    """Positions and unit types are random, as in SMACv2."""


def _marines(allies: int, enemies: int | None = None, smacv2: bool = False) -> Sides:
    """Return sides of marines; by default both sides have equally many."""
    return Sides((_MARINE,) * allies, (_MARINE,) * (allies if enemies is None else enemies), smacv2)


def _stalkers_and_zealots(stalkers: int, zealots: int) -> tuple[int, ...]:
    return (_STALKER,) * stalkers + (_ZEALOT,) * zealots


SCENARIOS: dict[str, Sides] = {
    "3m": _marines(3),
    "2s3z": Sides(_stalkers_and_zealots(2, 3), _stalkers_and_zealots(2, 3)),
    "25m": _marines(25),
    "3s5z": Sides(_stalkers_and_zealots(3, 5), _stalkers_and_zealots(3, 5)),
    "8m": _marines(8),
    "5m_vs_6m": _marines(5, 6),
    "10m_vs_11m": _marines(10, 11),
    "27m_vs_30m": _marines(27, 30),
    "3s5z_vs_3s6z": Sides(_stalkers_and_zealots(3, 5), _stalkers_and_zealots(3, 6)),
    "3s_vs_5z": Sides((_STALKER,) * 3, (_ZEALOT,) * 5),
    "6h_vs_8z": Sides((_HYDRALISK,) * 6, (_ZEALOT,) * 8),
    "smacv2_5_units": _marines(5, smacv2=True),
    "smacv2_10_units": _marines(10, smacv2=True),
    "smacv2_20_units": _marines(20, smacv2=True),
}
"""Maps of the original by name."""


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
        params=params_of(
            config,
            smax.Params,
            smacv2_position_generation=int(config.smacv2_position_generation or scenario.smacv2),
            smacv2_unit_type_generation=int(config.smacv2_unit_type_generation or scenario.smacv2),
            attacks_random=int(config.attack_mode == "random"),
        ),
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
    allies, enemies = len(config.units.allies), len(config.units.enemies)
    targets = [f"enemy_{unit}" for unit in range(enemies)]
    if row >= allies:
        targets = [f"ally_{unit}" for unit in reversed(range(allies))]
    return ["north", "east", "south", "west", "stop", *(f"attack {target}" for target in targets)]


def action_parts(config: Config, row: int) -> list[str]:
    return ["shoot_last_enemy", "do_shoot", "coordinate_1", "coordinate_2"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    allies, enemies = len(config.units.allies), len(config.units.enemies)
    types = [f"is a {name}" for name in config.unit_type_names]
    parts = ["health", "x", "y", "movement x", "movement y", "attack", "cooldown", *types]
    if config.observation_type == "conic":
        meaning = "two units in each of 32 sections of the circle, counterclockwise from the left"
        count = observations.NUM_SECTIONS * observations.UNITS_PER_SECTION
        blocks = [ObservationBlock(meaning, "shares", -1, 1, count * len(parts), parts, Entities("units", count))]
    else:
        units = [*(f"ally_{unit}" for unit in range(allies)), *(f"enemy_{unit}" for unit in range(enemies))]
        neighbors = [*units[:row], *units[row + 1 :]] if row < allies else [*units[:row], *units[row + 1 :]][::-1]
        peers = (allies if row < allies else enemies) - 1
        attacks = NUM_MOVES if config.action_type == "discrete" else None
        own_side = Entities("own side", peers)
        other_side = Entities("other side", len(neighbors) - peers, first_action=attacks)
        blocks = [
            ObservationBlock(
                f"{unit}, if it is in sight",
                "shares",
                -1,
                1,
                len(parts),
                parts,
                own_side if slot < peers else other_side,
            )
            for slot, unit in enumerate(neighbors)
        ]
    return [
        *blocks,
        ObservationBlock("own health", "share"),
        points("own position (x, y)", "shares of the map", ANY),
        ObservationBlock("own cooldown", "share"),
        flags("own unit type", types),
    ]


_GRASS, _FURROW, _ROCK = (0.80, 0.84, 0.72), (0.74, 0.78, 0.65), (0.45, 0.42, 0.38)
_BLADE, _FLASH, _BONE = (0.25, 0.85, 0.98), (1.0, 0.80, 0.20), (0.93, 0.90, 0.78)
_FIELDS = 8  # in a row of the meadow
_CLOSE = 5.0
"""Half the side of the smallest frame [map unit]."""
_SCALE, _LARGEST = 1.05, 1.7
"""Drawn size of units, in their radii, in the smallest frame, and of those in large ones."""
_MELEE = 3.0  # units with a shorter range strike instead of shooting
_Point = tuple[float, float]


class _Body:
    """Helper that paints units around their positions (W, U, 2), ahead and to their left, in their radii."""

    def __init__(
        self, pos: torch.Tensor, front: torch.Tensor, radius: torch.Tensor, color: torch.Tensor, present: torch.Tensor
    ) -> None:
        self.pos, self.radius, self.present = pos, radius, present.float()
        self.front, self.side = front, torch.stack([-front[..., 1], front[..., 0]], -1)
        self.color, self.dark = color, 0.55 * color

    def at(self, ahead: float, left: float) -> torch.Tensor:
        return self.pos + self.radius[..., None] * (ahead * self.front + left * self.side)

    def disc(self, ahead: float, left: float, radius: float, color: Color) -> torch.Tensor:
        return circles(self.at(ahead, left), radius * self.radius, color, self.present)

    def line(self, start: _Point, end: _Point, width: float, color: Color) -> torch.Tensor:
        return lines(self.at(*start), self.at(*end), width * self.radius, color, self.present)

    def edged(self, start: _Point, end: _Point, width: float) -> list[torch.Tensor]:
        """Return a thick line in the color of the side, with a dark edge."""
        return [self.line(start, end, width + 0.24, self.dark), self.line(start, end, width, self.color)]

    def mirrored(self, start: _Point, end: _Point, width: float, color: Color) -> list[torch.Tensor]:
        """Return a line and its mirror image."""
        return [self.line((start[0], sign * start[1]), (end[0], sign * end[1]), width, color) for sign in (-1.0, 1.0)]


def _marine(body: _Body) -> list[torch.Tensor]:
    return [
        body.line((0.0, -0.5), (1.7, -0.5), 0.36, DARK),
        *body.edged((0.0, -0.5), (0.0, 0.5), 0.8),
        body.disc(0.12, 0.0, 0.5, body.dark),
        body.line((0.36, -0.2), (0.36, 0.2), 0.24, _FLASH),
    ]


def _marauder(body: _Body) -> list[torch.Tensor]:
    return [
        *body.mirrored((0.1, 0.8), (1.4, 0.8), 0.5, DARK),
        *body.edged((0.0, -0.5), (0.0, 0.5), 1.1),
        *body.mirrored((-0.1, 0.8), (0.2, 0.8), 0.8, body.dark),
        body.disc(0.2, 0.0, 0.36, body.dark),
        body.line((0.36, -0.14), (0.36, 0.14), 0.2, _FLASH),
    ]


def _stalker(body: _Body) -> list[torch.Tensor]:
    knees, feet = ((0.6, 0.75), (-0.6, 0.75)), ((1.0, 1.0), (-1.0, 1.0))
    return [
        *[leg for knee in knees for leg in body.mirrored((0.0, 0.0), knee, 0.3, body.dark)],
        *[leg for knee, foot in zip(knees, feet, strict=True) for leg in body.mirrored(knee, foot, 0.2, DARK)],
        *body.edged((-0.25, 0.0), (0.2, 0.0), 0.95),
        body.disc(0.25, 0.0, 0.32, DARK),
        body.disc(0.25, 0.0, 0.22, _BLADE),
    ]


def _zealot(body: _Body) -> list[torch.Tensor]:
    return [
        *body.mirrored((0.2, 0.75), (1.7, 0.5), 0.26, _BLADE),
        *body.edged((0.0, -0.5), (0.0, 0.5), 0.8),
        *[body.disc(0.0, left, 0.24, _FLASH) for left in (-0.75, 0.75)],
        body.line((-0.5, 0.0), (0.1, 0.0), 0.44, body.dark),
        body.line((-0.3, 0.0), (0.3, 0.0), 0.16, _FLASH),
    ]


def _zergling(body: _Body) -> list[torch.Tensor]:
    return [
        body.line((-0.6, 0.0), (-1.6, 0.0), 0.18, body.dark),
        *body.mirrored((-0.1, 0.2), (-1.0, 0.95), 0.34, body.dark),
        *body.mirrored((0.3, 0.2), (0.8, 0.9), 0.22, body.dark),
        *body.mirrored((0.8, 0.9), (1.6, 0.45), 0.2, _BONE),
        *body.edged((-0.6, 0.0), (0.5, 0.0), 0.6),
        body.disc(0.65, -0.15, 0.1, _FLASH),
        body.disc(0.65, 0.15, 0.1, _FLASH),
    ]


def _hydralisk(body: _Body) -> list[torch.Tensor]:
    return [
        body.line((-0.9, 0.4), (-1.7, 0.0), 0.3, body.dark),
        *body.edged((-0.1, 0.0), (-0.9, 0.4), 0.5),
        *body.mirrored((0.0, 0.5), (0.7, 1.1), 0.24, body.dark),
        *body.mirrored((0.7, 1.1), (1.5, 0.7), 0.2, _BONE),
        body.disc(0.05, 0.0, 0.62, body.color),
        *body.mirrored((0.75, 0.0), (-0.35, 0.75), 0.34, body.dark),
        body.disc(0.4, 0.0, 0.2, _BONE),
    ]


_TYPES: tuple[Callable[[_Body], list[torch.Tensor]], ...] = (
    _marine,
    _marauder,
    _stalker,
    _zealot,
    _zergling,
    _hydralisk,
)
"""Drawings of the default unit types; further types repeat them."""


def _ground(width: float, height: float, count: int, device: torch.device) -> torch.Tensor:
    """Return a meadow with furrows and a wall around it, (W, N, 10)."""
    middle = torch.tensor([[0.5 * width, 0.5 * height]], device=device)
    corners = torch.tensor([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]], device=device)
    corners = corners[None].expand(count, -1, -1)
    walls = corners, corners.roll(-1, 1)
    share = torch.linspace(0.0, 1.0, _FIELDS + 1, device=device)[1:-1]
    low, size = torch.zeros_like(share), max(width, height)
    rows = [torch.stack([x * width + low, share * height], -1)[None].expand(count, -1, -1) for x in (0.0, 1.0)]
    columns = [torch.stack([share * width, y * height + low], -1)[None].expand(count, -1, -1) for y in (0.0, 1.0)]
    return join(
        boxes(middle.expand(count, 1, 2), middle, _GRASS),
        lines(rows[0], rows[1], 0.12, _FURROW),
        lines(columns[0], columns[1], 0.12, _FURROW),
        lines(*walls, 0.03 * size, _ROCK),
        lines(*walls, 0.012 * size, GRAY),
    )


def _half_frame(pos: torch.Tensor, width: float, height: float) -> torch.Tensor:
    """Return half the side of the frame around the middle of the map that shows all units, (W,)."""
    far = (pos - 0.5 * torch.tensor([width, height], device=pos.device)).abs().amax((1, 2))
    largest = 0.5 * max(width, height)
    # In whole units, so that the camera is calm; beyond the map is room for the bar of a unit at its border.
    return (far + 1.5).ceil().clamp(min(_CLOSE, largest), largest + 1.0)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds; the camera zooms in as far as all units are visible.

    Allies blue and enemies red on a meadow with a wall around it. Every unit type has its shape: marines have a rifle,
    marauders two launchers, stalkers four legs and an eye, zealots two shining blades, zerglings and hydralisks claws.
    A bar above a unit shows its health, a cross a fallen one.
    """
    state = {name: core.world_state[name][envs] for name in ("pos", "health", "kind", "move", "attack", "stats")}
    params, config, device = core.get_params(envs), core.config, core.device
    width, height = float(params["map_width"].max()), float(params["map_height"].max())
    allies, pos = len(config.units.allies), state["pos"]
    worlds, units = pos.shape[:2]
    kind = state["kind"].long()
    stats = state["stats"].view(worlds, -1, NUM_STATS).gather(1, kind[..., None].expand(-1, -1, NUM_STATS))
    half = _half_frame(pos, width, height)
    zoom = (_SCALE * half / _CLOSE).clamp(_SCALE, _LARGEST)[:, None]
    radius, alive = zoom * stats[..., RADIUS].clamp_min(0.2), state["health"] > 0.0
    opacity, index = alive.float(), torch.arange(units, device=device)
    is_ally = index < allies

    ahead = state["attack"].long() - NUM_MOVES
    victim = torch.where(is_ally, allies + ahead, allies - 1 - ahead).clamp(0, units - 1)
    goal = pos.gather(1, victim[..., None].expand(-1, -1, 2))
    way = goal - pos
    reach = way.norm(dim=-1)
    attacks = (ahead >= 0) & alive & (reach < stats[..., ATTACK_RANGE] + 1.0)
    home = torch.stack([torch.where(is_ally, 1.0, -1.0), torch.zeros(units, device=device)], -1)
    moves = state["move"].norm(dim=-1, keepdim=True)
    front = torch.where(moves > 1e-3, state["move"] / moves.clamp_min(1e-6), home)
    front = torch.where(attacks[..., None], way / reach.clamp_min(1e-6)[..., None], front)
    colors = torch.where(is_ally[:, None], *(torch.tensor(paint, device=device) for paint in (BLUE, RED)))

    size, all_units = radius[..., None], _Body(pos, front, radius, colors, alive)
    has_gun = (stats[..., ATTACK_RANGE] > _MELEE) & alive
    shoots, strikes = (attacks & has_gun).float(), (attacks & ~has_gun).float()
    fallen, cross = 1.0 - opacity, 0.6 * size
    tall, wide = torch.tensor([0.0, 1.0], device=device), torch.tensor([1.0, 0.0], device=device)
    share = (state["health"] / stats[..., HEALTH]).clamp(0.0, 1.0)
    left = pos + size * (1.4 * tall - 0.8 * wide)
    muzzle = all_units.at(1.5, 0.0)
    cuts = [0.55 * size * (sign * all_units.side - front) for sign in (-1.0, 1.0)]
    ground = _ground(width, height, worlds, device)
    present = {*config.units.allies, *config.units.enemies}
    if core.get_params()["smacv2_unit_type_generation"].any():
        present = {*range(len(config.unit_type_names))}
    scene = join(
        ground,
        lines(pos - cross * (tall + wide), pos + cross * (tall + wide), 0.25 * radius, DARK, fallen),
        lines(pos - cross * (tall - wide), pos + cross * (tall - wide), 0.25 * radius, DARK, fallen),
        *[
            part
            for shape in sorted({shape % len(_TYPES) for shape in present})
            for part in _TYPES[shape](_Body(pos, front, radius, colors, alive & (kind % len(_TYPES) == shape)))
        ],
        lines(muzzle, goal, 0.15 * radius, _FLASH, shoots),
        circles(muzzle, 0.28 * radius, _FLASH, shoots),
        circles(goal, 0.3 * radius, _FLASH, shoots),
        *(lines(goal + cut, goal - cut, 0.14 * radius, _FLASH, strikes) for cut in cuts),
        lines(left, left + 1.6 * size * wide, 0.36 * radius, DARK, opacity),
        lines(left, left + 1.6 * size * wide * share[..., None], 0.22 * radius, GREEN, opacity),
    )
    agents = circles(pos, radius, colors)[:, : core.num_agents]  # the dead, too: their agents stay in the game
    middle = 0.5 * torch.tensor([width, height], device=device)
    bounds = torch.cat([middle - half[:, None], middle + half[:, None]], 1)
    return Scene(scene, bounds, 0.05, agents=agents, ground=ground.shape[1])
