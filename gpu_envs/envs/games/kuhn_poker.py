"""KuhnPoker-v0 (2 agents): Poker with one card for each player."""

import math
from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import deal
from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, index, integers
from gpu_envs.descriptions import ObservationBlock
from gpu_envs.envs.games.scene import EDGE, FELT, card, chips, seats, turn_marker
from gpu_envs.rendering.scene import DARK, RED, Scene, join
from gpu_envs.utils.settings import setting
from warp_kernels.games import kuhn_poker


@dataclass(frozen=True)
class Config:
    """Settings of KuhnPoker-v0."""

    num_players: int = setting(2, ge=2, le=10)
    """Number of players P; the deck has P + 1 cards."""


def build(config: Config) -> EnvDefinition:
    count = config.num_players
    return EnvDefinition(
        **game_roster({"player": count}, kuhn_poker.observation_width(count), spaces.Discrete(2)),
        rules=kuhn_poker.rules(count),
        params={"ante": 1.0, "bet": 1.0},
        bounds={"ante": (0.0, 1e6), "bet": (0.0, 1e6)},
        state={
            "card": index((count,), count + 1),
            "turn": integers((), 0, 2 * count - 1),
            "bets": integers((), 0, 2 ** (2 * count - 1) - 1),
            "first_bet": integers((), -1, count - 1),
        },
        zero_sum=True,
        max_episode_steps=2 * count - 1,  # the longest game
        time_limit_terminates=True,
        chance=deal("card", count + 1, count),
        draw=draw,
        render_fps=1,
    )


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    Players around a table with cards and chips; a frame marks the player to act. The highest card is the king.
    """
    count, state = core.num_agents, {name: tensor[envs] for name, tensor in core.world_state.items()}
    red, dark = (torch.tensor(color, device=core.device) for color in (RED, DARK))
    face_up = torch.ones(len(envs), dtype=torch.bool, device=core.device)
    radius = max(1.4, 1.5 * count / math.pi)
    parts, places = [], []
    assert core.to_move is not None
    for player in range(count):
        angle = 2.0 * math.pi * player / count - math.pi / 2.0
        x, y = math.cos(angle), math.sin(angle)
        seat, front = (radius * x, radius * y), ((radius - 1.1) * x, (radius - 1.1) * y)
        has_bet = ((state["bets"] >> player) | (state["bets"] >> (player + count))) & 1
        number = state["card"][:, player]
        color = torch.where((number % 2 == 0)[:, None], red, dark)
        places.append(seat)
        parts += [
            turn_marker(seat, core.to_move[envs, player]),
            card(seat, number, color, count + 1, face_up),
            chips(front, 1 + has_bet, 2, 2),
        ]
    half = radius + 0.95
    return Scene(join(*parts), (-half, -half, half, half), background=FELT, border=EDGE, agents=seats(places, envs))


def action_names(config: Config, row: int) -> list[str]:
    return ["pass", "bet"]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    players, most_actions = config.num_players, 2 * config.num_players - 1
    story = "every action of the game so far (passed, bet)"
    return [
        ObservationBlock("own seat, one-hot", width=players),
        ObservationBlock("own card, one-hot, lowest rank first", width=players + 1),
        ObservationBlock(story, width=2 * most_actions, parts=("passed", "bet")),
    ]
