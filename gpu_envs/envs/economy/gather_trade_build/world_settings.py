"""Settings of the world of GatherTradeBuild-v0: its scenario, its layout, and the tables of random layouts."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gpu_envs.errors import ConfigError, shown
from gpu_envs.utils.settings import MAX_INT, Bounds, setting
from warp_kernels.economy.gather_trade_build.economy_types import MAX_UNITS, PRESENT, RANDOM_SCENARIOS

MAX_SIDE = 64
"""Largest number of rows or columns."""
KINDS = " SW@"
"""Characters of land, a source of stone, a source of wood, and water, by number."""
LAYOUTS: dict[str, str] = {
    "closed_quadrant_25x25_20each_30clump.txt": (
        "WWWWW  W    @ W          |WW W        @ W      W WW| W          @         W W|SW S S      @            |"
        "            @   W      W | SS         @            | S          @            |            @            |"
        "            @            |S      S    @            |            @            |            @            |"
        "@@@@@@@@@@@@@@@@@@@@@@@@@| S          @            |S S         @            |   S        @            |"
        "SS          @            | SS         @            |SS          @            |  S         @            |"
        "            @            |            @            |            @            |            @            |"
        "S           @            "
    ),
    "env-pure_and_mixed-15x15.txt": (
        "WWW    @       |WSS    @       |WWW    @       |WWW    @       |WSS            |SWS            |"
        "       @       |@@@@  @@@@  @@@|       @       |WWW    @    S  | WW         SS |WWW          SS|"
        "W W    @       |W      @       |       @     S "
    ),
    "env-pure_and_mixed-25x25.txt": (
        " WW W       @            | SWWW       @            |SSWW        @            |WSSSW       @            |"
        "WSSWW                    |WS WS                    |  WWS                    |SWW S       @            |"
        "  S W       @            | WS W       @            |            @            |            @            |"
        "@@@@   @@@@@@@@@@@@   @@@|            @            |            @            |  W         @       SSSSS|"
        " WW         @       SSS  |            @        S SS| WW W       @       SSS S|W WW                SSSS |"
        "WWW                 S  SS| WWWW                S S |WW  W       @       S    |    W       @          S |"
        "   W        @       S SSS"
    ),
    "env-pure_and_mixed-40x40.txt": (
        "   W  WW                                |         W                              |"
        " W  W     W                             |      W                                 |"
        "   W        W                           |  W    W W                              |"
        "       W W                              |      WW                                |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                          SS       W    |                                WW     W|"
        "                                        |                             S      S  S|"
        "                               W  WW S  |                              S  S  W   |"
        "                           W   WS   S S |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |   S                                    |"
        "S   S                                   |                                        |"
        "   SS                                   |                                        |"
        "     S  SS  S                           |   SS S  S                              |"
        "S SS    S   S                           |SSSS S  SS                              "
    ),
    "quadrant_25x25_20each_30clump.txt": (
        "WWWWW  W    @ W          |WW W        @ W      W WW| W          @         W W|SW S S      @            |"
        "            @   W      W | SS                      | S                       |                         |"
        "                         |S      S    @            |            @            |            @            |"
        "@@@@@    @@@@@@@    @@@@@| S          @            |S S         @            |   S        @            |"
        "SS                       | SS                      |SS                       |  S                      |"
        "            @            |            @            |            @            |            @            |"
        "S           @            "
    ),
    "quadrant_25x25_20each_30clump_no_water.txt": (
        "WWWWW  W      W          |WW W          W      W WW| W                    W W|SW S S                   |"
        "                W      W | SS                      | S                       |                         |"
        "                         |S      S                 |                         |                         |"
        "                         | S                       |S S                      |   S                     |"
        "SS                       | SS                      |SS                       |  S                      |"
        "                         |                         |                         |                         |"
        "S                        "
    ),
    "quadrant_40x40_50each.txt": (
        "WWWWWWWW   WW      @@ WW                |WWWWWWWW   WW      @@ WW                |"
        "WWW  W             @@ WW          W  WWW|  W                @@              WW WW|"
        "  W                @@              WW WW|SSW  S  SS         @@                   |"
        "                   @@     W          W  |                   @@     W          W  |"
        "  SSS                                   |  SSS                                   |"
        "  S                                     |                                        |"
        "                                        |                                        |"
        "SS         SS      @@                   |SS         SS      @@                   |"
        "                   @@                   |                   @@                   |"
        "                   @@                   |@@@@@@@@      @@@@@@@@@@@@      @@@@@@@@|"
        "@@@@@@@@      @@@@@@@@@@@@      @@@@@@@@|  S                @@                   |"
        "SS SS              @@                   |SS SS              @@                   |"
        "     S             @@                   |     S             @@                   |"
        "SSS                                     |  SSS                                   |"
        "  SSS                                   |SSS                                     |"
        "   SS                                   |   SS                                   |"
        "                   @@                   |                   @@                   |"
        "                   @@                   |                   @@                   |"
        "                   @@                   |                   @@                   |"
        "SS                 @@                   |SS                 @@                   "
    ),
    "quadrant_40x40_50each_no_water.txt": (
        "WWWWWWWW   WW         WW                |WWWWWWWW   WW         WW                |"
        "WWW  W                WW          W  WWW|  W                                WW WW|"
        "  W                                WW WW|SSW  S  SS                              |"
        "                          W          W  |                          W          W  |"
        "  SSS                                   |  SSS                                   |"
        "  S                                     |                                        |"
        "                                        |                                        |"
        "SS         SS                           |SS         SS                           |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |  S                                     |"
        "SS SS                                   |SS SS                                   |"
        "     S                                  |     S                                  |"
        "SSS                                     |  SSS                                   |"
        "  SSS                                   |SSS                                     |"
        "   SS                                   |   SS                                   |"
        "                                        |                                        |"
        "                                        |                                        |"
        "                                        |                                        |"
        "SS                                      |SS                                      "
    ),
    "quadrant_8x8_4each_8clump.txt": (  # the file has 9 rows and columns
        "WWWW@WW W| WW @ WWW|SW S@ S  |S   @    |@@ @@@ @@| S  @    |S S @    |S   @    |   S@    "
    ),
    "top_wood_bottom_stone_14x14.txt": (
        "  WW       W  |      WW      |WW W   W      |              |              |              |              |"
        "              |              |              |              |       SS    S|S   S        S|S     S   S   "
    ),
    "uniform_25x25_25each_65clump.txt": (
        "                    SSSSS|                SS   SSSS|                  SS SSSS|                   S SSSS|"
        "                      SS |                         |                         |                         |"
        "                         |                         |                         |                         |"
        "                         |                         |                         |                         |"
        "                         |                         |                         |                         |"
        "                        W|                 W     WW|                      WW |W     WW W          W WWW|"
        "WWWWW WW       W    WWWWW"
    ),
}
"""Rows of the layouts by the names of their files in the original; "|" ends a row."""


class Layout:
    """Numbers of a layout; cells are numbered row by row.

    Attributes:
        height: Number of rows.
        width: Number of columns.
        terrain: Cells at the start, ``warp_kernels.economy.gather_trade_build.economy_types.State.cell``.
        sources: Cells where a resource grows.
        land: Cells without water.

    Args:
        rows: Checked rows of text.
    """

    def __init__(self, rows: tuple[str, ...]) -> None:
        self.height, self.width = len(rows), len(rows[0])
        kinds = np.array([KINDS.index(character) for character in "".join(rows)], np.int32)
        grows = (kinds == 1) | (kinds == 2)
        self.terrain: np.ndarray = kinds + np.int32(PRESENT) * grows
        self.sources: np.ndarray = np.flatnonzero(grows).astype(np.int32)
        self.land: np.ndarray = np.flatnonzero(kinds != 3).astype(np.int32)


def read_layout(layout: Any, num_agents: int) -> tuple[str, ...]:
    """Return the rows of a layout, after checks.

    Args:
        layout: Rows of text as a list, or as one string with rows separated by newlines, ";" or "|".
        num_agents: Number of agents that must find a cell.

    Raises:
        ConfigError: Rows differ in length, a character is unknown, or there is too little land.
    """
    rows = layout.replace(";", "|").replace("\n", "|").strip("|").split("|") if isinstance(layout, str) else layout
    if not isinstance(rows, tuple | list) or not rows or not all(isinstance(row, str) for row in rows):
        raise ConfigError(f"env_layout: expected rows of text such as 'W  S|  @ |S  W', got {shown(layout)}")
    width = len(rows[0])
    if any(len(row) != width for row in rows) or not 2 <= width <= MAX_SIDE or not 2 <= len(rows) <= MAX_SIDE:
        sizes = f"2 to {MAX_SIDE} rows of equal lengths from 2 to {MAX_SIDE}"
        raise ConfigError(f"env_layout: expected {sizes}, got lengths {[len(row) for row in rows]}")
    unknown = sorted(set("".join(rows)) - set(KINDS))
    if unknown:
        raise ConfigError(f"env_layout: expected the characters 'S', 'W', '@' and spaces, got {unknown[0]!r}")
    land = sum(character != "@" for character in "".join(rows))
    if land < num_agents:
        raise ConfigError(f"env_layout: expected a cell without water for each of {num_agents} agents, got {land}")
    return tuple(rows)


MAX_AGENTS = 29
"""Largest number of agents; the original estimates the Gini index of more agents in another way."""
SCENARIOS = ("layout_from_file", "split_layout", *RANDOM_SCENARIOS)
"""First parts of the names of the scenarios of the original."""
# Scenarios that obey a setting.
_GIVEN = {"scenario_name": Bounds(choices=("layout_from_file", "split_layout"))}
_SPLIT = {"scenario_name": "split_layout"}
_RANDOM = {"scenario_name": Bounds(choices=RANDOM_SCENARIOS)}
_GRADIENT = {"scenario_name": Bounds(choices=("uniform", "quadrant"))}
_ZONES = {"scenario_name": "multi_zone"}


@dataclass(frozen=True)
class WorldSettings:
    """Settings of the world, with the names of ai-economist."""

    n_agents: int = setting(4, ge=2, le=MAX_AGENTS)
    """Number of mobile agents."""
    episode_length: int = setting(1000, ge=1, le=MAX_INT)
    """Time limit [steps]."""
    scenario_name: str = setting("layout_from_file", choices=SCENARIOS)
    """Scenario of the original, without "/simple_wood_and_stone". The first two have given layouts, of which
    "split_layout" has a row of water between agents. The others have a random layout in every episode."""
    env_layout_file: str = setting(
        "quadrant_25x25_20each_30clump.txt", choices=tuple(LAYOUTS), requires={**_GIVEN, "env_layout": None}
    )
    """Layout of the original; only without ``env_layout``. It sets the size of the world."""
    env_layout: Any = setting(None, requires=_GIVEN)
    """Layout of your own as rows of text, "W  S|  @ |S  W" or a list: W and S sources of wood and stone, @ water, space
    land."""
    resource_regen_prob: float = setting(0.01, ge=0.0, le=1.0, requires=_GIVEN)
    """Probability that an empty source of a given layout grows in a step."""
    water_row: int | None = setting(None, ge=1, le=MAX_SIDE, requires=_SPLIT)
    """Row of water of "split_layout"; None: half of the height."""
    skill_rank_of_top_agents: tuple[int, ...] = setting((0,), ge=0, le=MAX_AGENTS - 1, requires=_SPLIT)
    """Ranks of building skill, 0 the highest, of the agents that start above the water of "split_layout"."""
    world_size: tuple[int, ...] = setting((25, 25), ge=2, le=MAX_SIDE, requires=_RANDOM)
    """Rows and columns of random layouts."""
    starting_wood_coverage: float = setting(0.025, gt=0.0, le=MAX_SIDE**2, requires=_RANDOM)
    """Sources of wood of random layouts: below 1 as a share of the cells, otherwise their number."""
    starting_stone_coverage: float = setting(0.025, gt=0.0, le=MAX_SIDE**2, requires=_RANDOM)
    """The same of stone."""
    wood_clumpiness: float = setting(0.35, ge=0.0, le=1.0, requires=_RANDOM)
    """Share of the sources of wood that spread from first ones, in random layouts."""
    stone_clumpiness: float = setting(0.5, ge=0.0, le=1.0, requires=_RANDOM)
    """The same of stone."""
    gradient_steepness: float = setting(8.0, ge=1.0, le=100.0, requires=_GRADIENT)
    """Steepness with which first sources become rare away from their side of the world."""
    checker_source_blocks: bool = setting(False, requires=_RANDOM)
    """Place twice as many sources, and keep those on every second cell, in random layouts."""
    wood_regen_halfwidth: int = setting(0, ge=0, le=3, requires=_RANDOM)
    """Distance at which wood lets sources of wood grow, in random layouts [cells]."""
    wood_regen_weight: float = setting(0.01, ge=0.0, le=1.0, requires=_RANDOM)
    """Probability that wood grows, per unit in that distance, divided by the number of cells in it."""
    wood_max_health: int = setting(1, ge=1, le=MAX_UNITS, requires=_RANDOM)
    """Units of wood on a source, in random layouts."""
    stone_regen_halfwidth: int = setting(0, ge=0, le=3, requires=_RANDOM)
    """Distance at which stone lets sources of stone grow, in random layouts [cells]."""
    stone_regen_weight: float = setting(0.01, ge=0.0, le=1.0, requires=_RANDOM)
    """Probability that stone grows, as for wood."""
    stone_max_health: int = setting(1, ge=1, le=MAX_UNITS, requires=_RANDOM)
    """Units of stone on a source, in random layouts."""
    num_partitions_row: int = setting(8, ge=1, le=MAX_SIDE, requires=_ZONES)
    """Zones from top to bottom of "multi_zone"."""
    num_partitions_col: int = setting(8, ge=1, le=MAX_SIDE, requires=_ZONES)
    """Zones from left to right."""
    num_wood_zones: int = setting(6, ge=0, le=MAX_SIDE**2, requires=_ZONES)
    """Zones with wood only."""
    num_stone_zones: int = setting(6, ge=0, le=MAX_SIDE**2, requires=_ZONES)
    """Zones with stone only."""
    num_wood_and_stone_zones: int = setting(4, ge=0, le=MAX_SIDE**2, requires=_ZONES)
    """Zones with wood and stone."""

    @property
    def is_random(self) -> bool:
        """Whether every episode has a random layout."""
        return self.scenario_name in RANDOM_SCENARIOS

    @property
    def layout(self) -> Layout:
        """Numbers of the layout; in a random one those of its water and land."""
        return _layout(self._rows())

    @property
    def row_of_water(self) -> int:
        """Row of water of "split_layout", otherwise -1."""
        if self.scenario_name != "split_layout":
            return -1
        return len(self._given_rows()) // 2 if self.water_row is None else self.water_row

    @property
    def zones(self) -> tuple[int, ...]:
        """Rows and columns of zones of "multi_zone", and the numbers of those with wood, stone and both."""
        if self.scenario_name != "multi_zone":
            return ()
        counts = (self.num_wood_zones, self.num_stone_zones, self.num_wood_and_stone_zones)
        return (self.num_partitions_row, self.num_partitions_col, *counts)

    def _given_rows(self) -> tuple[str, ...]:
        return self.env_layout or read_layout(LAYOUTS[self.env_layout_file], self.n_agents)

    def _rows(self) -> tuple[str, ...]:
        """Return the rows of the layout as text."""
        if not self.is_random:
            rows = self._given_rows()
            return tuple("@" * len(row) if y == self.row_of_water else row for y, row in enumerate(rows))
        water = np.zeros(self.world_size, bool)
        if self.scenario_name == "quadrant":
            height, width = self.world_size
            water[:, height // 2], water[width // 2, :] = _is_barrier(height), _is_barrier(width)
        return tuple("".join("@" if wet else " " for wet in row) for row in water)

    def check_world(self) -> None:
        """Check the layout.

        Raises:
            ConfigError: A setting leaves no room.
        """
        if self.env_layout is not None:
            object.__setattr__(self, "env_layout", read_layout(self.env_layout, self.n_agents))
        if self.is_random:
            self._check_random()
        land = self.layout.land
        if len(land) < self.n_agents:
            raise ConfigError(
                f"world_size: expected a cell of land for each of {self.n_agents} agents, got {len(land)}"
            )
        if self.scenario_name == "split_layout":
            self._check_split(land)

    def _check_random(self) -> None:
        if len(self.world_size) != 2:
            raise ConfigError(f"world_size: expected 2 numbers, rows and columns, got {len(self.world_size)}")
        height, width = self.world_size
        if self.scenario_name == "quadrant" and (height // 2 >= width or width // 2 >= height):
            raise ConfigError(
                f"world_size: expected less than twice as many rows as columns, and the reverse, with "
                f"scenario_name='quadrant', got {height} and {width}"
            )
        shares = _shares(self)
        if sum(shares) >= 0.5:
            raise ConfigError(
                f"starting_wood_coverage: expected sources on less than half of the cells, got {sum(shares):.3g}"
            )
        if self.zones:
            rows, columns, wood, stone, dual = self.zones
            if wood + stone + dual > rows * columns:
                raise ConfigError(
                    f"num_wood_zones: expected at most {rows * columns} zones, got {wood + stone + dual} with resources"
                )
            if not wood + dual or not stone + dual:
                raise ConfigError("num_wood_and_stone_zones: expected zones with wood and zones with stone, got none")

    def _check_split(self, land: np.ndarray) -> None:
        height, width, row = self.layout.height, self.layout.width, self.row_of_water
        if not 0 < row < height - 1:
            raise ConfigError(f"water_row: expected a row from 1 to {height - 2}, got {row}")
        ranks = set(self.skill_rank_of_top_agents)
        if not 0 < len(ranks) < self.n_agents or max(ranks) >= self.n_agents:
            raise ConfigError(
                f"skill_rank_of_top_agents: expected 1 to {self.n_agents - 1} ranks below {self.n_agents}, "
                f"got {self.skill_rank_of_top_agents}"
            )
        above = int((land < row * width).sum())
        if above < len(ranks) or len(land) - above < self.n_agents - len(ranks):
            raise ConfigError(
                f"water_row: expected a cell of land for each agent on its side, got {above} above and "
                f"{len(land) - above} below for {len(ranks)} and {self.n_agents - len(ranks)} agents"
            )


@cache
def _layout(rows: tuple[str, ...]) -> Layout:
    return Layout(rows)


def _is_barrier(count: int) -> np.ndarray:
    """Return where the water of quadrants has no gap, (count,): gaps reach from 20 % to 35 % of each end."""
    at = (0.5 + np.arange(count)) / count
    return ((at < 0.2) | (at > 0.35)) & ((at < 1 - 0.35) | (at > 1 - 0.2))


def _shares(config: WorldSettings) -> tuple[float, float]:
    """Return the shares of cells with sources of wood and of stone."""
    cells = int(np.prod(config.world_size))
    coverage = (config.starting_wood_coverage, config.starting_stone_coverage)
    wood, stone = (share / cells if share >= 1 else share for share in coverage)
    return wood, stone


def _clumps(config: WorldSettings) -> tuple[float, float]:
    """Return the shares of the sources of wood and of stone that are first ones."""
    return 1 - min(config.wood_clumpiness, 0.99), 1 - min(config.stone_clumpiness, 0.99)


def first_chances(config: WorldSettings) -> np.ndarray:
    """Return the probability of a first source of wood, then of stone: by cell, (2 C,), or in zones, (2,).

    With zones it is the chance for zones that cover the world.
    """
    height, width = config.world_size
    # The original takes the coverage of wood for both resources.
    share = _shares(config)[0] * (1 + config.checker_source_blocks)
    if config.scenario_name == "multi_zone":
        maps = [np.full(1, share)] * 2
    elif config.scenario_name == "uniform":
        rows = np.arange(height)[:, None].repeat(width, axis=1) ** config.gradient_steepness
        wood = rows / rows.mean() * share
        maps = [wood, wood[::-1]]
    else:
        half = config.gradient_steepness / 2
        wood = (np.arange(height)[:, None].repeat(width, axis=1) ** half)[::-1]
        stone = (np.arange(width)[None].repeat(height, axis=0) ** half)[:, ::-1]
        dry = (config.layout.terrain & 3).reshape(height, width) == 0
        maps = [chance * (wood + stone) for chance in (wood, stone)]
        maps = [chance / chance.sum() * dry for chance in maps]
        maps = [chance / chance.sum() for chance in maps]
    return np.concatenate([0.1 * clump * chance.ravel() for clump, chance in zip(_clumps(config), maps, strict=True)])


def source_counts(config: WorldSettings) -> np.ndarray:
    """Return the numbers of first and of all sources, and the fewest and most of them: of wood, then of stone, (8,)."""
    cells = int(np.prod(config.world_size))
    shares = np.arange(cells + 1) / cells
    counts = []
    for share, clump in zip(_shares(config), _clumps(config), strict=True):
        target = share * (1 + config.checker_source_blocks)
        near = np.flatnonzero((shares / target >= 1 / 1.4) & (shares / target <= 1.4))
        counts += [int((shares < target * clump).sum()), int((shares < target).sum())]
        counts += [int(near[0]), int(near[-1])] if len(near) else [1, 0]
    return np.array(counts, np.int32)
