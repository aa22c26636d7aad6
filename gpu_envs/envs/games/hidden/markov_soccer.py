"""MarkovSoccer-v0 (2 agents): Soccer of two players on a grid."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, game_roster, index, integers
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, RED, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.games.hidden import markov_soccer

GROUPS = ("a", "b")  # of player 0 and player 1
MOST_CELLS = 4096  # largest number of cells of a grid


@dataclass(frozen=True)
class Config:
    """Settings of MarkovSoccer-v0, with the names and defaults of OpenSpiel."""

    horizon: int = setting(1000, ge=2, le=MAX_INT, decides=True)
    """Moves after which the game is a draw; placing the ball is one of them."""
    grid: str = ".....\n..OB.\n.AO..\n....."
    """Rows of the field as text, separated by newlines or "|": "A" and "B" are the first cells of player 0 and
    player 1, "O" the possible first cells of the ball, "." other cells."""


def sizes_of(config: Config) -> markov_soccer.Sizes:
    """Return the constants of the rules.

    Raises:
        ConfigError: The text is not a grid with one A, one B and at least one O.
    """
    lines = config.grid.replace("|", "\n").rstrip("\n").split("\n")
    text, columns = "".join(lines), len(lines[0])
    hint = 'use a text such as "A.O.B|.....|....."'
    if not columns or any(len(line) != columns for line in lines) or len(text) > MOST_CELLS:
        actual = "x".join(str(len(line)) for line in lines)
        raise ConfigError(
            f"grid: expected lines of equal length with at most {MOST_CELLS} cells, got lengths {actual:.80}; {hint}"
        )
    if set(text) - set("ABO.") or text.count("A") != 1 or text.count("B") != 1 or "O" not in text:
        actual = ", ".join(f"{text.count(letter)} {letter!r}" for letter in sorted(set(text) | set("ABO")))
        raise ConfigError(f"grid: expected one 'A', one 'B', some 'O' and '.', got {actual:.80}; {hint}")
    balls = tuple(cell for cell, letter in enumerate(text) if letter == "O")
    return markov_soccer.Sizes(len(lines), columns, (text.index("A"), text.index("B")), balls)


def build(config: Config) -> EnvDefinition:
    """Build the environment definition.

    Raises:
        ConfigError: The grid is not valid.
    """
    s = sizes_of(config)
    cells = s.rows * s.columns
    return EnvDefinition(
        **game_roster(dict.fromkeys(GROUPS, 1), markov_soccer.PLANES * cells, spaces.Discrete(markov_soccer.ACTIONS)),
        rules=markov_soccer.rules(s),
        params={"win_reward": 1.0, "horizon": config.horizon},
        bounds={"win_reward": (0.0, 1e6)},
        state={
            "cell": index((2,), cells),
            "holder": integers((), -1, 1),
            "ball": index((), cells),
            "scorer": integers((), -1, 1),
            "key": any_bits(()),
            "first": index((), 2),
        },
        zero_sum=True,
        max_episode_steps=config.horizon - 1,  # the ball is placed by the first of the moves
        time_limit_terminates=True,
        fixed_params=("horizon",),
        draw=draw,
        render_fps=4,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The pitch with a goal on either side, player 0 in red, who scores on the right, and player 1 in blue. The ball is
    white with dark spots, next to the player that has it. Row 0 is on top.
    """
    s, state = sizes_of(core.config), {name: tensor[envs] for name, tensor in core.world_state.items()}
    worlds, device, rows, columns = len(envs), core.device, s.rows, s.columns
    green, light, white = (0.27, 0.58, 0.30), (0.33, 0.65, 0.35), (1.0, 1.0, 1.0)

    def fixed(values: list[list[float]]) -> torch.Tensor:
        return torch.tensor(values, device=device).expand(worlds, -1, -1)

    def middle(cell: torch.Tensor) -> torch.Tensor:
        return torch.stack([cell % columns + 0.5, rows - 0.5 - cell // columns], -1)

    stripes = [[column + 0.5, 0.5 * rows] for column in range(0, columns, 2)]
    center, half = [[0.5 * columns, 0.5 * rows]], torch.tensor([0.5 * columns, 0.5 * rows])
    parts = [
        boxes(fixed(center), half, green),
        boxes(fixed(stripes), torch.tensor([0.5, 0.5 * rows]), light),
        boxes(fixed(center), half, white, line_width=0.06),
        lines(fixed([[0.5 * columns, 0.0]]), fixed([[0.5 * columns, float(rows)]]), 0.05, white),
        circles(fixed(center), min(0.6, 0.4 * rows, 0.4 * columns), white, line_width=0.05),
    ]
    goal_rows = [row for row in (1, 2) if row < rows]
    if goal_rows:
        y, high = rows - 0.5 * (goal_rows[0] + goal_rows[-1] + 1), 0.5 * len(goal_rows)
        for x, tint in ((-0.28, RED), (columns + 0.28, BLUE)):
            parts += [
                boxes(fixed([[x, y]]), torch.tensor([0.25, high]), (0.90, 0.91, 0.92)),
                boxes(fixed([[x, y]]), torch.tensor([0.25, high]), tint, line_width=0.08),
            ]
    places = middle(state["cell"])
    visible = state["scorer"][:, None] != torch.arange(2, device=device)
    tints = torch.tensor((RED, BLUE), device=device)
    agents = circles(places, 0.34, tints, visible)
    parts += [agents, circles(places, 0.34, DARK, visible, line_width=0.05)]
    parts.append(circles(places + torch.tensor([0.0, 0.05], device=device), 0.16, (0.95, 0.78, 0.62), visible))
    holder = state["holder"].clamp(min=0).long()
    feet = torch.tensor([[0.27, -0.24], [-0.27, -0.24]], device=device)[holder]
    carried = places[torch.arange(worlds, device=device), holder] + feet
    goal = torch.tensor([columns + 0.28, -0.28], device=device)[state["scorer"].clamp(min=0).long()]
    scored = torch.stack([goal, carried[:, 1] + 0.24], -1)
    ball = torch.where((state["holder"] < 0)[:, None], middle(state["ball"]), carried)
    ball = torch.where((state["scorer"] >= 0)[:, None], scored, ball)[:, None]
    parts += [circles(ball, 0.17, white), circles(ball, 0.17, DARK, line_width=0.035), circles(ball, 0.06, DARK)]
    bounds = (-0.65, -0.15, columns + 0.65, rows + 0.15)
    return Scene(join(*parts), bounds, background=(0.20, 0.46, 0.24), border=None, agents=agents)


def action_names(config: Config, row: int) -> list[str]:
    return ["up", "down", "left", "right", "stand"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    s = sizes_of(config)
    cells = [f"row {y}, column {x}" for y in range(s.rows) for x in range(s.columns)]
    pieces = [f"player {player} {word} the ball" for player in range(2) for word in ("without", "with")]
    return [flags(f"cells with {piece}, row by row", cells) for piece in (*pieces, "the ball alone", "nothing")]
