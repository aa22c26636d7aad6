"""LevelBasedForaging-v0 (2 agents): Players with levels collect food with levels."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, integers, params_of, roster
from gpu_envs.descriptions import Entities, ObservationBlock
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError, shown
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Scene, boxes, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.grid.level_based_foraging import level_based_foraging

MAX_SIDE = 1000
"""Largest number of rows or columns."""
MAX_LEVEL = 1000
"""Largest level of a player or food."""


@dataclass(frozen=True)
class Config:
    """Settings of LevelBasedForaging-v0, with the names of lbforaging and the values of its Foraging-8x8-2p-2f-v3."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "num_agents": "players",
        "n_agents": "players",
        "grid_size": "field_size",
        "fov": "sight",
        "max_agent_level": "max_player_level",
        "levels": "levels have the settings min_player_level, max_player_level, min_food_level and max_food_level",
    }
    """Names of Jumanji and of other environments."""

    players: int = setting(2, ge=1)
    """Number of players."""
    min_player_level: int | tuple[int, ...] = 1
    """Lowest level of players; a list has a level per player, which every episode assigns to players at random."""
    max_player_level: int | tuple[int, ...] = 2
    """Highest level of players; a number or a list, as above."""
    min_food_level: int | tuple[int, ...] = 1
    """Lowest level of foods; a list has a level per food, which every episode assigns to foods at random."""
    max_food_level: int | tuple[int, ...] | None = None
    """Highest level of foods; None: the sum of the three lowest levels of the players of the episode."""
    field_size: tuple[int, int] = setting((8, 8), ge=3, le=MAX_SIDE)
    """Number of rows and columns."""
    max_num_food: int = setting(2, ge=1)
    """Number of foods; a field without room starts with fewer."""
    sight: int | None = setting(None, ge=0, le=MAX_SIDE)
    """Distance along an axis at which cells are observed; None: the longer side of the field, all cells. Lists have
    players of the rows and columns up to 2 * sight from the upper left cell in sight, which is farther at the edge."""
    max_episode_steps: int = setting(50, ge=1, le=MAX_INT)
    """Time limit [steps]."""
    force_coop: bool = setting(False)
    """Give every food its highest level; with max_food_level=None and several players, one of those with the three
    lowest levels is not enough to load it."""
    normalize_reward: bool = setting(True)
    """Scale rewards so that they add up to 1 over all players when all food is loaded, penalties left out."""
    grid_observation: bool = setting(False)
    """Observe layers of the cells around the player, instead of a list of foods and players."""
    observe_agent_levels: bool = setting(True)
    """Observe the levels of players."""
    penalty: float = setting(0.0, ge=0.0)
    """Penalty of players who load a food whose level exceeds theirs together."""
    time_limit: str = setting("termination", choices=("termination", "truncation"))
    """Kind of the end at max_episode_steps: a termination (as in lbforaging) or a truncation. As everywhere in this
    library, an argument max_episode_steps without an argument time_limit truncates."""
    action_mask: bool = setting(True)
    """Report which actions have an effect, as lbforaging's valid actions; the other actions are no-ops in any case."""

    def __post_init__(self) -> None:
        """Convert lists of levels to tuples, and check them and conditions that involve several fields."""
        for name in ("min_player_level", "max_player_level", "min_food_level", "max_food_level"):
            value = getattr(self, name)
            value = value.tolist() if hasattr(value, "tolist") else value
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        if len(self.field_size) != 2:
            raise ConfigError(f"field_size: expected 2 ints (rows, columns), got {shown(self.field_size)}")
        for thing, count in (("player", self.players), ("food", self.max_num_food)):
            low, high = f"min_{thing}_level", f"max_{thing}_level"
            lowest = self._levels(low, count)
            if getattr(self, high) is None and thing == "food":
                continue
            for index, (least, maximum) in enumerate(zip(lowest, self._levels(high, count), strict=True)):
                if least > maximum:
                    raise ConfigError(f"{high}: expected at least {low} = {least} of {thing} {index}, got {maximum}")
        if self.players > self.field_size[0] * self.field_size[1]:
            cells = self.field_size[0] * self.field_size[1]
            raise ConfigError(f"players: expected at most one per cell, {cells}, got {self.players}")
        if self.max_food_level is None and not self.force_coop:
            weakest = sorted(self._levels("min_player_level", self.players))[:3]
            least, team = sum(weakest), "the player" if len(weakest) == 1 else f"{len(weakest)} players"
            if max(self._levels("min_food_level", self.max_num_food)) > least:
                raise ConfigError(
                    f"min_food_level: expected at most {least}, the lowest sum of levels of {team}, "
                    f"got {shown(self.min_food_level)}; set max_food_level or force_coop=True"
                )
        if self.grid_observation and self.sight == 0:
            raise ConfigError("sight: expected at least 1 with grid_observation=True, got 0")

    def _levels(self, name: str, count: int) -> tuple[int, ...]:
        """Return a level per player or food from a setting that is a number or a list.

        Raises:
            ConfigError: The setting is neither, has another number of levels, or a level is out of range.
        """
        value = getattr(self, name)
        values = value if isinstance(value, tuple) else (value,) * count
        fits = len(values) == count and all(type(level) is int and 1 <= level <= MAX_LEVEL for level in values)
        if not fits:
            raise ConfigError(f"{name}: expected an int in [1, {MAX_LEVEL}] or a list of {count}, got {shown(value)}")
        return values

    def ranges(self, thing: str, count: int) -> np.ndarray:
        """Return the lowest and highest levels of players or foods, (count, 2) int32."""
        low = self._levels(f"min_{thing}_level", count)
        high = low if getattr(self, f"max_{thing}_level") is None else self._levels(f"max_{thing}_level", count)
        return np.array([low, high], np.int32).T

    @property
    def reach(self) -> int:
        """Distance at which cells are observed."""
        return max(self.field_size) if self.sight is None else self.sight

    @property
    def highest_food_level(self) -> int:
        """Highest level that a food can have."""
        if self.max_food_level is None:
            return sum(sorted(self._levels("max_player_level", self.players))[:3])
        return max(self._levels("max_food_level", self.max_num_food))


def original_settings(name: str) -> dict[str, int | float | tuple[int, int]]:
    """Return the settings of an environment id of lbforaging, such as "Foraging-2s-8x8-2p-2f-coop-v3".

    Raises:
        ConfigError: The id does not have the form of lbforaging's ids.
    """
    import re

    words = r"Foraging(-grid)?(?:-(\d+)s)?-(\d+)x(\d+)-(\d+)p-(\d+)f(-coop)?(-ind)?(-pen)?-v3"
    match = re.fullmatch(words, str(name))
    if match is None:
        raise ConfigError(f"name: expected an id of lbforaging such as 'Foraging-2s-8x8-2p-2f-coop-v3', got {name!r}")
    grid, sight, rows, columns, players, foods, coop, individual, penalty = match.groups()
    settings: dict[str, int | float | tuple[int, int]] = {
        "field_size": (int(rows), int(columns)),
        "players": int(players),
        "max_num_food": int(foods),
        "force_coop": coop is not None,
        "grid_observation": grid is not None,
    }
    if sight is not None:
        settings["sight"] = int(sight)
    if individual is not None:
        settings["max_food_level"] = 1
    if penalty is not None:
        settings["penalty"] = 0.1
    return settings


def build(config: Config) -> EnvDefinition:
    players, foods = config.players, config.max_num_food
    grid_sight = config.reach if config.grid_observation else 0
    levels_shown = config.observe_agent_levels
    width = level_based_foraging.observation_width(players, foods, grid_sight, levels_shown)
    counts = {"player": players}
    named = roster(counts, {"player": width}, {"player": spaces.Discrete(level_based_foraging.NUM_ACTIONS)})
    space = observation_space(config)
    named["observation_spaces"] = dict.fromkeys(named["agents"], space)
    side, level = max(MAX_SIDE - 1, MAX_LEVEL), MAX_LEVEL
    return EnvDefinition(
        **named,
        rules=level_based_foraging.rules(players, foods, grid_sight, levels_shown, config.action_mask),
        params=params_of(
            config,
            level_based_foraging.Params,
            rows=config.field_size[0],
            columns=config.field_size[1],
            sight=config.reach,
            levels_of_players=int(config.max_food_level is None),
        ),
        state={
            "player": integers((players,), 0, side),
            "food": integers((foods,), 0, max(side, 3 * MAX_LEVEL)),
            "spawned": integers((), 0, MAX_INT),
            "target": integers((players,), 0, max(side, foods)),
            "player_levels": integers((players,), 1, level),
            "food_levels": integers((foods,), 1, level),
        },
        initial={
            "player_levels": config.ranges("player", players),
            "food_levels": config.ranges("food", foods),
        },
        scratch=("target",),
        global_state_size=3 * (foods + players) + 1,
        max_episode_steps=config.max_episode_steps,
        time_limit_terminates=config.time_limit == "termination",
        bounds={"force_coop": (0, 1), "normalize_reward": (0, 1)},
        fixed_params=("rows", "columns", "sight", "levels_of_players"),
        channels_first=True,
        draw=draw,
        render_fps=5,
    )


def observation_space(config: Config) -> spaces.Box:
    """Return the observation space of a player; a grid is an image (3, height, width)."""
    rows, columns = config.field_size
    food, player = float(config.highest_food_level), float(config.ranges("player", config.players)[:, 1].max())
    player = player if config.observe_agent_levels else 1.0
    if config.grid_observation:
        side = 2 * config.reach + 1
        high = np.tile(np.array([player, food, 1.0], np.float32)[:, None, None], (1, side, side))
        return spaces.Box(np.zeros_like(high), high, dtype=np.float32)
    width = 3 if config.observe_agent_levels else 2
    low = [-1.0, -1.0, 0.0] * config.max_num_food + [-1.0, -1.0, 0.0][:width] * config.players
    top = [rows - 1.0, columns - 1.0]
    high = [*top, food] * config.max_num_food + [*top, player][:width] * config.players
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Foods are red apples and players blue figures, each with its level. Food that is gone leaves an empty cell.
    """
    rows, columns = core.config.field_size
    highest = core.config.highest_food_level
    foods, players = (core.world_state[name][envs] for name in ("food", "player"))

    def shift(places: torch.Tensor, right: float, up: float) -> torch.Tensor:
        return places + torch.tensor([right, up], device=core.device)

    def centers(things: torch.Tensor) -> torch.Tensor:
        """Return the centers of cells (W, N, 2); row 0 is at the top."""
        return torch.stack([things[..., 1] + 0.5, rows - 0.5 - things[..., 0]], -1)

    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    cells = (torch.stack([x.flatten(), y.flatten()], -1)[None] + 0.5).to(core.device).expand(len(envs), -1, -1)
    grid = boxes(cells, 0.5, GRAY, alpha=0.3, line_width=0.03)
    fruit, present = centers(foods), foods[..., 2] > 0
    apples = join(
        lines(shift(fruit, 0.0, 0.26), shift(fruit, 0.05, 0.44), 0.06, (0.42, 0.27, 0.16), present),
        circles(shift(fruit, 0.16, 0.38), 0.09, GREEN, present),
        circles(shift(fruit, -0.1, 0.02), 0.28, RED, present),
        circles(shift(fruit, 0.1, 0.02), 0.28, RED, present),
        circles(shift(fruit, 0.0, -0.12), 0.26, RED, present),
        numbers(shift(fruit, 0.0, -0.02), foods[..., 2], 0.42, 0.36, PAPER, present, largest=highest),
    )
    position = centers(players)
    together = (players[:, :, None, :2] == players[:, None, :, :2]).all(-1)  # several players may share a cell
    count, order = together.sum(-1), together.tril(-1).sum(-1)
    position = position + (order - 0.5 * (count - 1))[..., None] * torch.tensor([0.25, 0.0], device=core.device)
    bodies = boxes(shift(position, 0.0, -0.16), torch.tensor([0.27, 0.24]), BLUE)
    figures = [
        boxes(shift(position, 0.0, -0.16), torch.tensor([0.3, 0.27]), PAPER),
        bodies,
        circles(shift(position, 0.0, 0.24), 0.2, (0.96, 0.80, 0.62)),
        rings(shift(position, 0.0, 0.24), 0.2, DARK, 0.035),
        circles(shift(position, -0.07, 0.27), 0.03, DARK),
        circles(shift(position, 0.07, 0.27), 0.03, DARK),
        circles(shift(position, 0.0, -0.17), 0.2, PAPER),
        numbers(shift(position, 0.0, -0.17), players[..., 2], 0.28, 0.26, DARK),
    ]
    return Scene(
        join(grid, apples, *figures),
        (0.0, 0.0, float(columns), float(rows)),
        agents=circles(position, 0.3, BLUE),
        ground=grid.shape[1],
    )


def action_names(config: Config, row: int) -> list[str]:
    return ["none", "north", "south", "west", "east", "load"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    highest = int(config.ranges("player", config.players).max())
    if config.grid_observation:
        offsets = range(-config.reach, config.reach + 1)
        cells = [f"row {down:+d}, column {right:+d}" for down in offsets for right in offsets]
        around = "in the cells around the player, row by row"
        layers = {
            f"levels of foods {around}": config.highest_food_level,
            f"1 where a cell of the field is free, {around}": 1,
        }
        player_layer = {"levels of players": highest} if config.observe_agent_levels else {"1 where a player is": 1}
        layers = {f"{meaning} {around}": high for meaning, high in player_layer.items()} | layers
        return [ObservationBlock(meaning, "", 0, high, len(cells), cells) for meaning, high in layers.items()]
    foods = {f"food {index}": config.highest_food_level for index in range(config.max_num_food)}
    players = dict.fromkeys(
        ("the own player", *(f"other player {index}" for index in range(config.players - 1))), highest
    )
    kinds = {"food": Entities("foods", config.max_num_food), "other": Entities("other players", config.players - 1)}
    blocks = []
    for thing, high in (foods | players).items():
        words = ("", "") if thing == "the own player" else (" in sight", "; -1: none")
        entities = kinds.get(thing.split()[0])
        cell = f"{thing}{words[0]}, cell (row, column) from the upper left cell of the sight{words[1]}"
        blocks.append(ObservationBlock(cell, "cells", -1, max(config.field_size) - 1, 2, ("row", "column"), entities))
        if thing in foods or config.observe_agent_levels:
            blocks.append(ObservationBlock(f"{thing}, level", "", 0, high, entities=entities))
    return blocks
