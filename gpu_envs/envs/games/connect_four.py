"""ConnectFour-v0 (2 agents): Four discs in a row."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, integers
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import GOLD, cells, marked, nowhere, turn_border
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import RED, Scene, circles, join, rings
from gpu_envs.utils.settings import setting
from warp_kernels.games import connect_four


@dataclass(frozen=True)
class Config:
    """Settings of ConnectFour-v0, with the names and defaults of OpenSpiel."""

    rows: int = setting(6, ge=1, le=61)
    """Number of rows; (rows + 1) * columns is at most 63."""
    columns: int = setting(7, ge=1)
    """Number of columns."""
    x_in_row: int = setting(4, ge=2)
    """Number of discs in a line that wins."""

    def __post_init__(self) -> None:
        """Check conditions that involve several fields."""
        bits = (self.rows + 1) * self.columns
        if bits > 63:
            actual = f"({self.rows} + 1) * {self.columns} = {bits}"
            raise ConfigError(
                f"a board is one 64-bit number: (rows + 1) * columns: expected a value <= 63, got {actual}"
            )
        if self.x_in_row > max(self.rows, self.columns):
            board = f"{self.rows} x {self.columns}"
            raise ConfigError(f"x_in_row must fit on the board of {board}, got {self.x_in_row}")


def build(config: Config) -> EnvDefinition:
    cells = config.rows * config.columns
    return EnvDefinition(
        **game_roster({"player": 2}, 2 * cells + 1, spaces.Discrete(config.columns)),
        rules=connect_four.rules(config.rows, config.columns, config.x_in_row),
        params={"win_reward": 1.0},
        bounds={"win_reward": (0.0, 1e6)},
        state={"marks": integers((2,), 0, 2 ** ((config.rows + 1) * config.columns) - 1), "mover": integers((), -1, 1)},
        zero_sum=True,
        max_episode_steps=cells,  # the number of cells
        time_limit_terminates=True,
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    A blue board, player 0's discs red, player 1's yellow; the border shows the player to act.
    """
    rows, columns = core.config.rows, core.config.columns
    discs = marked(core.world_state["marks"][envs], rows, columns)
    places = cells(rows, columns, core.device).expand(len(envs), -1, -1)
    parts = [circles(places, 0.41, (0.93, 0.95, 0.97))]
    for player, (color, rim) in enumerate(((RED, (0.66, 0.16, 0.10)), (GOLD, (0.85, 0.60, 0.12)))):
        parts += [
            circles(places, 0.41, color, alpha=discs[:, player]),
            rings(places, 0.28, rim, 0.05, alpha=discs[:, player]),
        ]
    board = (0.14, 0.36, 0.66)
    bounds = (0.0, 0.0, float(columns), float(rows))
    parts.append(turn_border(core, envs, bounds, (RED, GOLD)))
    return Scene(join(*parts), bounds, background=board, border=board, agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    return [f"column {column}" for column in range(config.columns)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    cells = [f"row {y}, column {x}" for y in range(config.rows) for x in range(config.columns)]
    order = "row by row from the bottom: 1 where present, else 0"
    return [
        flags(f"own discs, {order}", cells),
        flags(f"the opponent's discs, {order}", cells),
        ObservationBlock("1 if it is the agent's turn, else 0"),
    ]
