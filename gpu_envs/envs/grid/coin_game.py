"""CoinGame-v0 (2 agents): Two players take coins of two colors."""

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, box, integers, params_of
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import PAPER
from gpu_envs.errors import ConfigError, shown
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, RED, Scene, boxes, circles, join, lines, rings
from gpu_envs.utils.settings import MAX_FLOAT, MAX_INT, MAX_SIZE, setting
from warp_kernels.grid import coin_game

AGENTS = ("player_0", "player_1")  # red, blue
PAYOFF = ((1.0, 1.0, -2.0), (1.0, 1.0, -2.0))
"""Default payoff matrix."""


@dataclass(frozen=True)
class Config:
    """Settings of CoinGame-v0, with the names and defaults of JaxMARL."""

    num_inner_steps: int = setting(10, ge=1, le=MAX_INT)
    """Length of an inner episode [steps]; at its end players and coins get new cells."""
    num_outer_steps: int = setting(10, ge=1, le=MAX_SIZE)
    """Number of inner episodes in an episode."""
    cnn: bool = setting(False)
    """Observe an image of 4 channels, 3 rows and 3 columns, for `--learner.network cnn`."""
    egocentric: bool = setting(False)
    """Observe cells relative to the own one, which is in the middle, instead of absolute cells."""
    shared_rewards: bool = setting(False)
    """Both players get the sum of both rewards."""
    payoff_matrix: tuple[tuple[float, ...], ...] = PAYOFF
    """Rewards of red for a red coin, for a blue coin, and if blue takes a red coin; then of blue for a red coin,
    for a blue coin, and if red takes a blue coin."""

    def __post_init__(self) -> None:
        matrix = self.payoff_matrix
        if not isinstance(matrix, list | tuple) or len(matrix) != 2 or not all(map(_is_payoff_row, matrix)):
            raise ConfigError(f"payoff_matrix: expected two rows of three finite numbers, got {shown(matrix)}")
        rows = tuple(tuple(map(float, row)) for row in matrix)  # a configuration file gives lists
        object.__setattr__(self, "payoff_matrix", rows)
        if self.num_inner_steps * self.num_outer_steps > MAX_INT:
            expected = f"num_inner_steps * num_outer_steps <= {MAX_INT}"
            raise ConfigError(f"num_outer_steps: expected {expected}, got {self.num_outer_steps}; use shorter episodes")


def _is_payoff_row(row: object) -> bool:
    """Return whether a value is a row of three finite numbers."""
    if not isinstance(row, list | tuple) or len(row) != 3:
        return False
    return all(type(value) in (int, float) and abs(value) <= MAX_FLOAT for value in row)


def build(config: Config) -> EnvDefinition:
    red, blue = config.payoff_matrix
    inner = config.num_outer_steps
    steps = config.num_inner_steps * inner
    space = spaces.Box(0.0, 1.0, (4, 3, 3), np.float32) if config.cnn else box(coin_game.OBSERVATION, 0.0, 1.0)
    return EnvDefinition(
        rules=coin_game.rules(inner, config.egocentric, config.cnn),
        params=params_of(
            config,
            coin_game.Params,
            red_own_reward=red[0],
            red_other_reward=red[1],
            red_penalty=red[2],
            blue_other_reward=blue[0],
            blue_own_reward=blue[1],
            blue_penalty=blue[2],
        ),
        state={
            "player": integers((2,), 0, int(coin_game.SIDE) - 1),
            "coin": integers((2,), 0, int(coin_game.SIDE) - 1),
            "own_coins": integers((2, inner), 0, MAX_INT),
            "other_coins": integers((2, inner), 0, MAX_INT),
            "own_total": integers((2,), 0, MAX_INT),
            "other_total": integers((2,), 0, MAX_INT),
            "convention": integers((2,), 0, 2),
            "convention_steps": integers((coin_game.CONVENTIONS,), 0, MAX_INT),
            "convention_own": integers((2, coin_game.CONVENTIONS), 0, MAX_INT),
            "key": any_bits(()),
            "inner_done": integers((2,), 0, 1),
        },
        agents=AGENTS,
        groups={"player": (0, 1)},
        roles={} if config.shared_rewards else {agent: (agent,) for agent in AGENTS},
        symmetric=(red[0], red[1], red[2]) == (blue[1], blue[0], blue[2]),
        observation_spaces=dict.fromkeys(AGENTS, space),
        channels_first=True,
        action_spaces={agent: spaces.Discrete(coin_game.NUM_ACTIONS) for agent in AGENTS},
        max_episode_steps=steps,
        time_limit_terminates=True,
        info={
            "own_coins": "own_coins",
            "other_coins": "other_coins",
            "own_coins_total": "own_total",
            "other_coins_total": "other_total",
            "inner_episode_done": "inner_done",
        },
        results=("own_coins_total", "other_coins_total"),
        bounds={"shared_rewards": (0, 1)},
        fixed_params=("num_inner_steps",),
        draw=draw,
        render_fps=3,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: a red and a blue figure, and a coin of each color with a shining edge."""
    players, coins = (core.world_state[name][envs].float() + 0.5 for name in ("player", "coin"))
    players, coins = players.flip(-1), coins.flip(-1)  # x is the column

    def shift(places: torch.Tensor, right: float, up: float) -> torch.Tensor:
        return places + torch.tensor([right, up], device=core.device)

    y, x = torch.meshgrid(torch.arange(3), torch.arange(3), indexing="ij")
    cells = (torch.stack([x.flatten(), y.flatten()], -1)[None] + 0.5).to(core.device).expand(len(envs), -1, -1)
    colors = torch.tensor([RED, BLUE], device=core.device)
    pale = 0.55 * colors + 0.45
    offsets = torch.tensor([[-0.25, 0.0], [0.25, 0.0]], device=core.device)
    meet = (players[:, :1] == players[:, 1:]).all(-1, keepdim=True)
    body = shift(players, 0.0, -0.1) + 0.9 * offsets * meet
    overlap = (coins[:, :1] == coins[:, 1:]).all(-1, keepdim=True)
    gold = shift(coins, 0.0, 0.24) + offsets * overlap
    grid = boxes(cells, 0.5, GRAY, alpha=0.4, line_width=0.03)
    shapes = join(
        grid,
        boxes(shift(body, 0.0, -0.13), torch.tensor([0.2, 0.2]), PAPER),
        boxes(shift(body, 0.0, -0.13), torch.tensor([0.17, 0.17]), colors),
        circles(shift(body, 0.0, 0.15), 0.15, (0.96, 0.80, 0.62)),
        rings(shift(body, 0.0, 0.15), 0.15, DARK, 0.025),
        circles(shift(body, -0.05, 0.17), 0.022, DARK),
        circles(shift(body, 0.05, 0.17), 0.022, DARK),
        circles(gold, 0.18, (0.93, 0.72, 0.2)),
        circles(gold, 0.14, colors),
        lines(shift(gold, 0.0, -0.06), shift(gold, 0.0, 0.06), 0.045, pale),
        rings(gold, 0.18, DARK, 0.02),
    )
    return Scene(shapes, (0.0, 0.0, 3.0, 3.0), agents=circles(body, 0.2, colors), ground=grid.shape[1])


def action_names(config: Config, row: int) -> list[str]:
    return ["right", "left", "up", "down", "stay"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    layers = ("own player", "other player", "coin of the own color", "coin of the other color")
    cells = [f"row {y}, column {x}" for y in range(3) for x in range(3)]
    origin = "relative to the own cell, which is row 1, column 1" if config.egocentric else "row 0 is at the bottom"
    if config.cnn:
        return [flags(f"1 in the cell of the {layer}; {origin}", cells) for layer in layers]
    return [flags(f"1 if a thing is in {cell}; {origin}", layers) for cell in cells]
