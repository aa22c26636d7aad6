"""OshiZumo-v0 (2 agents): Bids of coins push a wrestler."""

from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, integers, params_of
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import EDGE, GOLD, PAPER, nowhere
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, ORANGE, RED, Scene, boxes, circles, join, lines
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.games.hidden import oshi_zumo

GROUPS = ("left", "right")  # of player 0 and player 1


@dataclass(frozen=True)
class Config:
    """Settings of OshiZumo-v0, with the names and defaults of OpenSpiel."""

    coins: int = setting(50, ge=1, le=10_000)
    """Coins of each player at the start."""
    size: int = setting(3, ge=0, le=1_000)
    """Number of positions on each side of the middle of the field."""
    horizon: int = setting(1000, ge=1, le=MAX_INT, decides=True)
    """Steps after which the game ends."""
    min_bid: int = setting(0, ge=0, le=10_000)
    """Lowest bid. A player with fewer coins bids all of them."""
    alesia: bool = False
    """The game is a draw unless the wrestler is outside the field at the end, as in Alesia."""


def build(config: Config) -> EnvDefinition:
    """Build the environment definition.

    Raises:
        ConfigError: The lowest bid is higher than the number of coins.
    """
    coins, size = config.coins, config.size
    if config.min_bid > coins:
        raise ConfigError(f"min_bid: expected at most coins = {coins}, got {config.min_bid}; lower min_bid")
    width = oshi_zumo.observation_width(coins, size)
    return EnvDefinition(
        **game_roster(dict.fromkeys(GROUPS, 1), width, spaces.Discrete(coins + 1)),
        rules=oshi_zumo.rules(coins, size),
        params=params_of(
            config,
            oshi_zumo.Params,
            win_reward=1.0,
        ),
        bounds={"win_reward": (0.0, 1e6), "alesia": (0, 1)},
        state={
            "coins": integers((2,), 0, coins),
            "position": integers((), 0, 2 * size + 2),
            "bid": integers((2,), -1, coins),
        },
        zero_sum=True,
        max_episode_steps=config.horizon,
        time_limit_terminates=True,
        fixed_params=("horizon",),
        draw=draw,
        render_fps=2,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    A wrestler on the field, whose red and blue ends are outside. Above it are the coins of player 0 (red, pushes to
    the right) and player 1 (blue), below it their last bids.
    """
    config, state = core.config, {name: tensor[envs] for name, tensor in core.world_state.items()}
    count, device, worlds = 2 * config.size + 3, core.device, len(envs)

    def at(x: float, y: float) -> torch.Tensor:
        return torch.tensor([[[x, y]]], device=device).expand(worlds, 1, 2)

    column = torch.arange(count, device=device)
    cells = torch.stack([column + 0.5, torch.zeros(count, device=device)], -1).expand(worlds, -1, -1)
    sand, ends = (0.93, 0.83, 0.62), torch.tensor([RED, BLUE], device=device)
    tints = torch.tensor(sand, device=device).repeat(count, 1)
    tints[[0, -1]] = ends
    parts = [boxes(at(0.5 * count, 0.0), torch.tensor([0.5 * count + 0.08, 0.58]), EDGE), boxes(cells, 0.47, tints)]
    feet = torch.stack([state["position"] + 0.5, torch.zeros(worlds, device=device)], -1)[:, None]
    skin = (0.95, 0.72, 0.53)

    def body(x: float, y: float) -> torch.Tensor:
        return feet + torch.tensor([x, y], device=device)

    for side in (-1.0, 1.0):
        parts.append(lines(body(0.22 * side, 0.1), body(0.3 * side, -0.3), 0.26, skin))
        parts.append(lines(body(0.3 * side, 0.55), body(0.62 * side, 0.3), 0.2, skin))
    parts += [
        circles(body(0.0, 0.4), 0.46, skin),
        lines(body(-0.36, 0.12), body(0.36, 0.12), 0.2, DARK),
        circles(body(0.0, 1.0), 0.28, skin),
        circles(body(0.0, 1.28), 0.13, DARK),
    ]
    wide = 0.5 * count - 0.25
    for player, tint in enumerate((RED, BLUE)):
        x = 0.25 * count if player == 0 else 0.75 * count
        share = state["coins"][:, player, None] / config.coins
        left = x - 0.5 * wide
        bar = torch.stack([left + 0.5 * wide * share, torch.full_like(share, 2.15)], -1)
        half = torch.stack([0.5 * wide * share, torch.full_like(share, 0.2)], -1)
        bids = state["bid"][:, player, None]
        parts += [
            boxes(at(x, 2.15), torch.tensor([0.5 * wide, 0.2]), PAPER),
            boxes(bar, half, GOLD),
            circles(at(x, 3.1), 0.62, ORANGE),
            circles(at(x, 3.1), 0.62, tint, line_width=0.12),
            numbers(at(x, 3.1), state["coins"][:, player, None].float(), 0.85, 0.55, PAPER, largest=config.coins),
            boxes(at(x, -1.5), torch.tensor([0.75, 0.6]), tint, bids >= 0),
            boxes(at(x, -1.5), torch.tensor([0.66, 0.51]), PAPER, bids >= 0),
            numbers(at(x, -1.5), bids.clamp(min=0).float(), 1.0, 0.6, DARK, (bids >= 0).float(), largest=config.coins),
        ]
    bounds = (-0.3, -2.4, count + 0.3, 4.0)
    return Scene(join(*parts), bounds, background=(0.96, 0.95, 0.91), agents=nowhere(2, envs))


def action_names(config: Config, row: int) -> list[str]:
    return [f"bid {bid}" for bid in range(config.coins + 1)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    counts, positions = (
        [str(number) for number in range(length)] for length in (config.coins + 1, 2 * config.size + 3)
    )
    return [
        *(flags(f"coins of player {player}, one-hot", counts) for player in range(2)),
        flags("position of the wrestler, one-hot", positions),
    ]
