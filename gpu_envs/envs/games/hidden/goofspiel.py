"""Goofspiel-v0 (2 agents): All players bid cards for point cards."""

import math
from dataclasses import dataclass

import torch
from gymnasium import spaces

from gpu_envs.definition.chance import Chance, deal
from gpu_envs.definition.environment import EnvDefinition, WorldView, game_roster, index, integers
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import BACK, EDGE, FELT, GOLD, PAPER, seats
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import DARK, ORANGE, Scene, boxes, circles, join
from gpu_envs.utils.settings import setting
from warp_kernels.games.hidden import goofspiel

AS_CARDS = -1  # value of num_turns for a turn per card


@dataclass(frozen=True)
class Config:
    """Settings of Goofspiel-v0, with the names and defaults of OpenSpiel."""

    players: int = setting(2, ge=2, le=10)
    """Number of players."""
    num_cards: int = setting(13, ge=2, le=goofspiel.MOST_CARDS)
    """Number of cards of each player, and of point cards."""
    num_turns: int = setting(AS_CARDS, ge=AS_CARDS, le=goofspiel.MOST_CARDS)
    """Number of turns; -1 for a turn per card."""
    points_order: str = setting("random", choices=("random", "descending", "ascending"))
    """Order of the point cards."""
    returns_type: str = setting("win_loss", choices=("win_loss", "point_difference", "total_points"))
    """Return of a player. "win_loss": the winners share 1 and the others -1. "point_difference": its points minus the
    mean. "total_points": its points."""
    imp_info: bool = False
    """Hide the bids of the other players: only the winner of each turn is shown. Observations have perfect recall."""
    egocentric: bool = False
    """With `imp_info`, count the winners of turns from the observing player on instead of from player 0."""


def sizes_of(config: Config) -> goofspiel.Sizes:
    """Return the constants of the rules.

    Raises:
        ConfigError: There are more turns than cards, or none.
    """
    turns = config.num_cards if config.num_turns == AS_CARDS else config.num_turns
    if not 1 <= turns <= config.num_cards:
        raise ConfigError(
            f"num_turns: expected {AS_CARDS} or 1 to num_cards = {config.num_cards}, "
            f"got {config.num_turns}; use fewer turns or more cards"
        )
    return goofspiel.Sizes(
        players=config.players,
        num_cards=config.num_cards,
        num_turns=turns,
        points_order=config.points_order,
        returns_type=config.returns_type,
        hidden=config.imp_info,
        egocentric=config.imp_info and config.egocentric,
    )


def build(config: Config) -> EnvDefinition:
    """Build the environment definition.

    Raises:
        ConfigError: The number of turns does not fit the cards.
    """
    s = sizes_of(config)
    return EnvDefinition(
        **game_roster({"player": s.players}, goofspiel.observation_width(s), spaces.Discrete(s.num_cards)),
        rules=goofspiel.rules(s),
        params={"win_reward": 1.0},
        bounds={"win_reward": (0.0, 1e6)},
        state={
            "order": index((s.num_turns,), s.num_cards),
            "hand": integers((s.players,), 0, 2**s.num_cards - 1),
            "points": integers((s.players,), 0, s.num_cards * (s.num_cards + 1) // 2),
            "bid": integers((s.players, s.num_turns), -1, s.num_cards - 1),
            "winner": integers((s.num_turns,), -1, s.players - 1),
            "turn": integers((), 0, s.num_turns),
        },
        # a winner that is counted from player 0 tells the seat
        symmetric=s.egocentric or not s.hidden,
        zero_sum=config.returns_type != "total_points",
        max_episode_steps=s.num_turns - (s.num_turns == s.num_cards),  # the last card is no choice
        time_limit_terminates=True,
        chance=_chance(s),
        draw=draw,
        render_fps=1,
    )


def _chance(s: goofspiel.Sizes) -> Chance:
    """Return the chance of the order of the point cards."""
    is_random = s.points_order == "random"
    histories = math.perm(s.num_cards, s.num_turns) ** (s.players + is_random)  # a player has as many orders of cards
    return deal("order", s.num_cards, s.num_turns, histories) if is_random else Chance(histories=histories)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds.

    The point cards are on top, the current one framed, and below them the cards of each player, player 0's at the
    bottom; played cards are pale. To the right are the points and the last bid, framed if it won. Many players are in
    several columns, row by row from the left.
    """
    s, state = sizes_of(core.config), {name: tensor[envs] for name, tensor in core.world_state.items()}
    cards, turns = (torch.arange(count, device=core.device) for count in (s.num_cards, s.num_turns))
    turn, numbers = state["turn"][:, None], cards.expand(len(envs), -1) + 1
    last, has_bids = (turn - 1).clamp(min=0).long(), turn > 0
    won = state["winner"].gather(1, last)
    across, high = min(s.num_cards, ACROSS), ROW * rows_of(s.num_cards) + 0.5
    wide, above = across + 3.45, ROW * rows_of(s.num_turns)
    # the number of columns with the smallest square picture
    columns = min(range(1, s.players + 1), key=lambda count: max(wide * count, high * -(-s.players // count) + above))
    places, parts = [], []
    for player in range(s.players):
        x, y = wide * (player % columns), high * (player // columns + 1) - ROW
        in_hand = ((state["hand"][:, player, None] >> cards) & 1).bool()
        bids = state["bid"][:, player].gather(1, last)
        seat = (x + across + 0.4, y - 0.5 * ROW * (rows_of(s.num_cards) - 1))
        parts += [
            hand((x, y), numbers, in_hand, torch.ones_like(in_hand)),
            points((seat[0] + 1.35, seat[1]), state["points"][:, player], s.num_cards * (s.num_cards + 1) // 2),
            single(seat, bids + 1, s.num_cards, has_bids, has_bids & (won == player)),
        ]
        places.append(seat)
    top = high * -(-s.players // columns) + above - ROW + 0.2
    parts.append(hand((0.0, top), state["order"] + 1, turns >= turn, turns <= turn, framed=turns == turn))
    bounds = (-0.9, -0.95, wide * columns - 0.9, top + 0.95)
    return Scene(join(*parts), bounds, background=FELT, border=EDGE, agents=seats(places, envs))


def action_names(config: Config, row: int) -> list[str]:
    return [f"bid {card + 1}" for card in range(config.num_cards)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    s = sizes_of(config)
    cards = [str(card + 1) for card in range(s.num_cards)]
    points = [str(value) for value in range(s.num_cards * (s.num_cards + 1) // 2 + 1)]
    opponents = [f"opponent {number}" if s.players > 2 else "opponent's" for number in range(1, s.players)]

    def by_turn(meaning: str, parts: list[str]) -> ObservationBlock:
        return ObservationBlock(meaning, width=s.num_turns * len(parts), parts=parts)

    scores = [flags(f"{owner} points, one-hot", points) for owner in ("own", *opponents)]
    order, hand = by_turn("point cards so far by turn, one-hot", cards), flags("own cards in hand", cards)
    if not s.hidden:
        return [*scores, order, hand, *(flags(f"{owner} cards in hand", cards) for owner in opponents)]
    counted = "counted from the observing player" if s.egocentric else "by row"
    players = [f"player {number}" for number in range(s.players)]
    winners = by_turn(f"winner of each turn, one-hot {counted}; zeros for a tie", players)
    return [*scores, hand, winners, order, by_turn("own bids by turn, one-hot", cards)]


ACROSS = 7
"""Most cards side by side; longer hands have several rows."""

ROW = 1.35
"""Distance of two rows [world units]."""
_HALF = (0.41, 0.6)  # half the width and height of a card
_PALE = 0.22  # opacity of a played card


def rows_of(count: int) -> int:
    """Return the number of rows of a hand."""
    return math.ceil(count / ACROSS)


def hand(
    first: tuple[float, float],
    values: torch.Tensor,
    in_hand: torch.Tensor,
    face_up: torch.Tensor,
    framed: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return cards in rows of up to `ACROSS`, one world unit apart.

    Args:
        first: Center of the first card, the left one of the upper row [world units].
        values: Number on each card, (W, N).
        in_hand: Whether a card is still to be played; played ones are pale, (W, N) bool.
        face_up: Whether a card is face up, (W, N) bool.
        framed: Whether a card has a golden frame, (W, N) bool; None for no frames.
    """
    count, device = values.shape[1], values.device
    slot = torch.arange(count, device=device)
    centers = torch.stack([first[0] + slot % ACROSS, first[1] - ROW * (slot // ACROSS)], -1)
    centers = centers.expand(len(values), -1, -1)
    solid = torch.where(in_hand, 1.0, _PALE)
    half = torch.tensor(_HALF)
    parts = [
        boxes(centers, half + 0.03, EDGE, solid),
        boxes(centers, half, PAPER, solid),
        numbers(centers, values.float(), 0.62, 0.55, DARK, solid * face_up),
        boxes(centers, half - 0.07, BACK, solid * ~face_up),
    ]
    if framed is not None:
        parts.append(boxes(centers, half + 0.12, GOLD, framed, 0.12))
    return join(*parts)


def single(
    position: tuple[float, float], value: torch.Tensor, largest: int, present: torch.Tensor, framed: torch.Tensor
) -> torch.Tensor:
    """Return one card with a number, all (W, 1).

    Args:
        position: Center of the card [world units].
        value: Number on the card.
        largest: Largest number of a card.
        present: Whether there is a card, bool.
        framed: Whether it has a golden frame, bool.
    """
    center = torch.tensor(position, device=value.device).expand(len(value), 1, 2)
    half, visible = torch.tensor(_HALF), present.float()
    return join(
        boxes(center, half + 0.03, EDGE, visible),
        boxes(center, half, PAPER, visible),
        numbers(center, value.float(), 0.62, 0.55, DARK, visible, largest=largest),
        boxes(center, half + 0.12, GOLD, framed, 0.12),
    )


def points(position: tuple[float, float], value: torch.Tensor, largest: int) -> torch.Tensor:
    """Return a chip with the points of a player, (W,), of which there are at most `largest`."""
    center = torch.tensor(position, device=value.device).expand(len(value), 1, 2)
    return join(
        circles(center, 0.58, ORANGE), numbers(center, value[:, None].float(), 0.85, 0.5, PAPER, largest=largest)
    )
