"""CommonsHarvest-v0 (7 agents): Agents share apples that regrow slowly."""

import colorsys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.errors import ConfigError, shown
from gpu_envs.rendering.scene import DARK, GRAY, GREEN, RED, Scene, boxes, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.grid import commons_harvest
from warp_kernels.grid.commons_harvest import LAYERS, VIEW

_ORCHARD = (
    "AAA    A      A    AAA|AA    AAA    AAA    AA|A    AAAAA  AAAAA    A|      AAA    AAA      |"
    "       A      A       |  A                A  | AAA  Q        Q  AAA |AAAAA            AAAAA|"
    " AAA              AAA |  A                A  "
)
_GATE = (
    " AAA  WWWWWWWWWW  AAA |  A       WW       A  |WWWWWWWWW WW WWWWWWWWW|          WW          |"
    "  WWWWWWWWWWWWWWWWWW  |  P P P P P P P P P   | P P P P P P P P P P  |                      "
)
LAYOUTS = {
    "open": (
        f"{_ORCHARD}|                      |                      |                      |"
        "  PPPPPPPPPPPPPPPPPP  | PPPPPPPPPPPPPPPPPPPP |PPPPPPPPPPPPPPPPPPPPPP"
    ),
    "closed": (
        "AAA    A  WW  A    AAA|AA    AAA WW AAA    AA|A    AAAAAWWAAAAA    A|      AAA WW AAA      |"
        "       A  WW  A       |  A       WW       A  | AAA  Q   WW   Q  AAA |AAAAA     WW     AAAAA|"
        f"{_GATE}"
    ),
    "partnership": (
        "AAA    A      A    AAA|AA    AAA    AAA    AA|A    AAAAA  AAAAA    A|      AAA    AAA      |"
        "       A      A       |  A                A  | AAA  Q   WW   Q  AAA |AAAAA            AAAAA|"
        f"{_GATE}"
    ),
}
"""Layouts of SocialJax: W are walls, A apples, Q cells of the first agents, P cells of the others and after a hit."""
MAX_SIDE = 64
"""Largest number of rows or columns."""


def read_rows(grid: Any) -> tuple[str, ...]:
    """Return the rows of a layout, given as a list or as one string with rows separated by newlines or "|".

    Raises:
        ConfigError: It is no text, or its rows have other lengths or characters.
    """
    rows = grid.replace("|", "\n").split("\n") if isinstance(grid, str) else grid
    if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
        raise ConfigError(f"layout_grid: expected rows of text such as 'AAA|Q  |PPP', got {shown(grid)}")
    lengths = sorted({len(row) for row in rows})
    if len(lengths) != 1 or not 3 <= len(rows) <= MAX_SIDE or not 3 <= lengths[0] <= MAX_SIDE:
        raise ConfigError(
            f"layout_grid: expected 3 to {MAX_SIDE} rows of equal lengths from 3 to {MAX_SIDE}, "
            f"got {len(rows)} rows of lengths {lengths}"
        )
    unknown = sorted(set("".join(rows)) - set(" WAPQ"))
    if unknown:
        raise ConfigError(f"layout_grid: expected the characters W, A, P, Q and spaces, got {unknown[0]!r}")
    return tuple(rows)


@dataclass(frozen=True)
class Config:
    """Settings of CommonsHarvest-v0, with the names and defaults of SocialJax's harvest_common_open."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "map_ASCII": "layout_grid",
        "grid_size": "layout_grid has the rows of the map",
        "num_outer_steps": "an episode is one of SocialJax's inner episodes; num_inner_steps is its length",
        "max_steps": "num_inner_steps",
    }
    """Names of SocialJax."""

    num_agents: int = setting(7, ge=2)
    """Number of agents."""
    num_inner_steps: int = setting(1000, ge=1, le=MAX_INT)
    """Length of an episode [steps]."""
    layout: str = setting("open", choices=tuple(LAYOUTS), requires={"layout_grid": None})
    """Layout of SocialJax; only without ``layout_grid``."""
    layout_grid: Any = None
    """Rows of text instead of a layout, as a list, or as a string with rows separated by newlines or "|": W are walls,
    A apples, Q cells where the first agents start, P cells where the others start and all agents return after a hit."""
    shared_rewards: bool = setting(True)
    """Every agent gets 1 for each apple that any agent eats; otherwise the one that eats it gets ``num_agents``."""
    time_limit: str = setting("truncation", choices=("termination", "truncation"))
    """Kind of the end at ``num_inner_steps``. SocialJax has one flag for both, and the game has no terminal states."""
    cnn: bool = setting(False)
    """Observe an image of 15 channels, for `--learner.network cnn`, instead of a vector."""

    def __post_init__(self) -> None:
        if self.layout_grid is not None:
            object.__setattr__(self, "layout_grid", read_rows(self.layout_grid))
        name = "layout" if self.layout_grid is None else "layout_grid"
        if not len(self.cells("A")):
            raise ConfigError(f"{name}: expected at least one apple A, got none; add one")
        if len(self.cells("P")) < self.num_agents:
            expected = f"at most {len(self.cells('P'))}, the number of cells P of the layout"
            raise ConfigError(f"num_agents: expected {expected}, got {self.num_agents}")

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """Rows of the layout."""
        return read_rows(LAYOUTS[self.layout] if self.layout_grid is None else self.layout_grid)

    def cells(self, character: str) -> np.ndarray:
        """Return rows and columns of the cells with a character, (n, 2) int32, row by row."""
        return np.argwhere(np.array([list(row) for row in self.rows]) == character).astype(np.int32)


def build(config: Config) -> EnvDefinition:
    agents, rows, columns = config.num_agents, len(config.rows), len(config.rows[0])
    walls, apples, inner, spawns = (config.cells(character) for character in "WAQP")
    start = np.zeros((rows, columns), np.int32)
    start[tuple(walls.T)] = commons_harvest.WALL
    start[tuple(apples.T)] = commons_harvest.APPLE
    sizes = len(apples), len(inner), len(spawns)
    side = max(rows, columns)
    width = VIEW * VIEW * int(LAYERS)
    named = roster({"agent": agents}, {"agent": width}, {"agent": spaces.Discrete(commons_harvest.NUM_ACTIONS)})
    shape = (int(LAYERS), VIEW, VIEW) if config.cnn else (width,)
    space = spaces.Box(0.0, float(config.num_inner_steps), shape, np.float32)
    named["observation_spaces"] = dict.fromkeys(named["agents"], space)
    measures = ("efficiency", "equality", "sustainability", "peace", "apples_left")
    return EnvDefinition(
        **named,
        rules=commons_harvest.rules(agents, rows, columns, sizes, config.cnn),
        params=params_of(config, commons_harvest.Params),
        state={
            "grid": integers((rows, columns), 0, int(commons_harvest.AGENT) + agents - 1),
            "position": index((agents,), side),
            "heading": index((agents,), 4),
            "next_position": index((agents,), side),
            "next_heading": index((agents,), 4),
            "destination": index((agents,), side),
            "moving": integers((agents,), 0, 2),
            "priority": any_bits((agents,)),
            "zapped": integers((agents,), 0, 1),
            "apples": integers((agents,), 0, MAX_INT),
            "apple_steps": integers((agents,), 0, MAX_INT),
            "hits": integers((agents,), 0, MAX_INT),
            "apples_left": integers((agents,), 0, len(apples)),
            "efficiency": (agents,),
            "equality": (agents,),
            "sustainability": (agents,),
            "peace": (agents,),
            "key": any_bits(()),
            "start": integers((rows, columns), 0, int(commons_harvest.APPLE)),
            "apple_cell": index((len(apples),), side),
            "inner_spawn": index((max(1, len(inner)),), side),
            "spawn": index((len(spawns),), side),
        },
        initial={
            "start": start,
            "apple_cell": apples,
            "inner_spawn": inner if len(inner) else spawns[:1],
            "spawn": spawns,
        },
        scratch=("destination", "moving", "priority", "zapped"),
        roles={} if config.shared_rewards else {agent: (agent,) for agent in named["agents"]},
        max_episode_steps=config.num_inner_steps,
        time_limit_terminates=config.time_limit == "termination",
        channels_first=True,
        info={"apples": "apples", "hits": "hits", **{name: name for name in measures}},
        results=measures,
        bounds={"shared_rewards": (0, 1)},
        fixed_params=("num_inner_steps",),
        draw=draw,
        render_fps=8,
    )


def _colors(count: int) -> torch.Tensor:
    """Return a color per agent (A, 3)."""
    return torch.tensor([colorsys.hls_to_rgb((0.58 + index / count) % 1.0, 0.45, 0.62) for index in range(count)])


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds as SocialJax draws it: row 0 at the bottom, column 0 on the right."""
    grid, positions, headings = (core.world_state[name][envs] for name in ("grid", "position", "heading"))
    rows, columns = grid.shape[1:]
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    cells = torch.stack([columns - 0.5 - x.flatten(), y.flatten() + 0.5], -1)[None].to(core.device)
    cells, values = cells.expand(len(envs), -1, -1), grid.flatten(1)
    centers = torch.stack([columns - 0.5 - positions[..., 1], positions[..., 0] + 0.5], -1)
    ways = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [1.0, 0.0]], device=core.device)
    tips = centers + 0.3 * ways[headings.long()]
    apples = cells + torch.tensor([0.0, -0.05], device=core.device)
    stems = apples + torch.tensor([0.06, 0.36], device=core.device)
    is_apple = values == commons_harvest.APPLE
    colors = _colors(positions.shape[1]).to(core.device)
    ground = boxes(cells, 0.5, GRAY, alpha=0.25, line_width=0.03)
    shapes = join(
        ground,
        boxes(cells, 0.5, GRAY, alpha=values == commons_harvest.WALL),
        boxes(cells, 0.5, (0.95, 0.85, 0.35), alpha=values == commons_harvest.BEAM),
        lines(apples, stems, 0.05, GREEN, alpha=is_apple),
        circles(apples, 0.27, RED, alpha=is_apple),
        circles(centers, 0.42, colors),
        rings(centers, 0.42, DARK, 0.04),
        lines(centers, tips, 0.08, DARK),
    )
    return Scene(
        shapes,
        (0.0, 0.0, float(columns), float(rows)),
        agents=circles(centers, 0.42, colors),
        ground=ground.shape[1],
    )


def action_names(config: Config, row: int) -> list[str]:
    moves = ("left, +column", "right, -column", "up, +row", "down, -row")
    return ["turn left", "turn right", *moves, "stay", "zap"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    cells = tuple(f"row {y}, column {x} of the view" for y in range(VIEW) for x in range(VIEW))
    names = (
        *("wall", "beam", "apple", "always 0", "always 0"),
        "agent with the next index (last agent: itself)",
        "another agent",
        *(f"another agent, turned left by {90 * turns} degrees" for turns in range(4)),
        "an agent that has eaten",
        "apples the agent has eaten, where layer 5 is 1 (last agent: apples of the previous one)",
        *("the same", "always 0"),
    )
    high = config.num_inner_steps
    if config.cnn:
        return [
            ObservationBlock(name, "", 0, high if layer in (12, 13) else 1, len(cells), cells)
            for layer, name in enumerate(names)
        ]
    return [ObservationBlock(f"layers of the cell in {cell}", "", 0, high, len(names), names) for cell in cells]
