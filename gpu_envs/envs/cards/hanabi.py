"""Hanabi-v0 (2 agents): Players see all cards but their own."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, any_bits, index, integers, params_of, roster
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.games.scene import BACK, GOLD, PAPER
from gpu_envs.envs.games.seven_segment import numbers
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import Scene, boxes, circles, join, lines, rings
from gpu_envs.utils.settings import setting
from warp_kernels.cards.hanabi import hanabi
from warp_kernels.cards.hanabi.binary_rows import num_words
from warp_kernels.cards.hanabi.sizes import Sizes

OBSERVATION_TYPES = ("minimal", "card_knowledge", "seer")
"""Types of observations, in the order of the numbers of the Hanabi Learning Environment."""
MAX_TOKENS = 100
"""Largest number of information or life tokens."""
_NAMES: dict[str, dict[str, int | str]] = {
    "Hanabi-Full": {},
    "Hanabi-Full-CardKnowledge": {},
    "Hanabi-Full-Minimal": {"observation_type": "minimal"},
    "Hanabi-Small": {"colors": 2, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1},
    "Hanabi-Very-Small": {"colors": 1, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1},
}
COLORS = ("red", "yellow", "green", "white", "blue")
"""Names of the colors."""


@dataclass(frozen=True)
class Config:
    """Settings of Hanabi-v0, with the names and defaults of the Hanabi Learning Environment."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "num_agents": "players",
        "max_info_tokens": "max_information_tokens",
    }
    """Names of JaxMARL."""

    players: int = setting(2, ge=2, le=5)
    """Number of players."""
    colors: int = setting(5, ge=1, le=5)
    """Number of colors."""
    ranks: int = setting(5, ge=1, le=5)
    """Number of ranks."""
    hand_size: int | None = setting(None, ge=1, le=8)
    """Number of cards of a full hand; None: 5 for two or three players, 4 for more."""
    max_information_tokens: int = setting(8, ge=0, le=MAX_TOKENS)
    """Information tokens at the start, and the most that there can be."""
    max_life_tokens: int = setting(3, ge=1, le=MAX_TOKENS)
    """Life tokens at the start."""
    observation_type: str = setting("card_knowledge", choices=OBSERVATION_TYPES)
    """Knowledge of cards in observations: none, what hints tell, or the identity of every card, own cards too."""
    random_start_player: bool = setting(False)
    """Start with a random player instead of player 0."""
    keep_score: bool = setting(False)
    """Keep the score when the last life token is lost; otherwise it becomes 0, as in the original."""

    def __post_init__(self) -> None:
        """Check that the deck suffices for the hands."""
        sizes = self.sizes
        if sizes.drawn < 0:
            raise ConfigError(
                f"hand_size: expected at most {sizes.deck // sizes.players} with {sizes.players} players and a deck of "
                f"{sizes.deck} cards, got {sizes.hand_size}"
            )

    @property
    def sizes(self) -> Sizes:
        """Sizes of the game."""
        hand_size = (5 if self.players < 4 else 4) if self.hand_size is None else self.hand_size
        return Sizes(
            self.players, self.colors, self.ranks, hand_size, self.max_information_tokens, self.max_life_tokens
        )


def original_settings(name: str) -> dict[str, int | str]:
    """Return the settings of a name of the Hanabi Learning Environment, such as "Hanabi-Small".

    Raises:
        ConfigError: The original has no environment of this name.
    """
    if name not in _NAMES:
        raise ConfigError(f"name: expected one of {', '.join(_NAMES)}, got {name!r}")
    return dict(_NAMES[name])


def build(config: Config) -> EnvDefinition:
    sizes = config.sizes
    observes_knowledge = config.observation_type != "minimal"
    players, cards = sizes.players, sizes.cards
    hands = (players, sizes.hand_size)
    width = sizes.observation(observes_knowledge)
    named = roster({"player": players}, {"player": width}, {"player": spaces.Discrete(sizes.actions)}, 0.0, 1.0)
    return EnvDefinition(
        **named,
        rules=hanabi.rules(sizes, observes_knowledge, config.observation_type == "seer"),
        params=params_of(config, hanabi.Params),
        bounds={"random_start_player": (0, 1), "keep_score": (0, 1)},
        state={
            "deck": index((sizes.deck,), cards),
            "dealt": integers((), 0, sizes.deck),
            "hand": integers(hands, -1, cards - 1),
            "plausible": integers(hands, 0, 2**cards - 1),
            "revealed": integers(hands, 0, 2 ** (sizes.colors + sizes.ranks) - 1),
            "fireworks": integers((sizes.colors,), 0, sizes.ranks),
            "discards": integers((sizes.colors,), 0, 2**sizes.per_color - 1),
            "information": integers((), 0, sizes.information_tokens),
            "lives": integers((), 0, sizes.life_tokens),
            "turns": integers((), 0, players),
            "mover": index((), players),
            "last_player": integers((), -1, players - 1),
            "last_action": index((), sizes.actions),
            "last_card": integers((), -1, cards - 1),
            "last_hinted": integers((), 0, 2**sizes.hand_size - 1),
            "last_result": integers((), 0, 3),
            "seen": any_bits((players, num_words(width))),
            "is_blank": index((players,), 2),
        },
        global_state_size=sizes.global_state,
        max_episode_steps=sizes.most_turns,  # no game is longer
        time_limit_terminates=True,
        draw=draw,
        render_fps=1,
    )


def action_names(config: Config, row: int) -> list[str]:
    sizes = config.sizes
    slots, offsets = range(sizes.hand_size), range(1, sizes.players)
    return [
        *(f"discard card {slot}" for slot in slots),
        *(f"play card {slot}" for slot in slots),
        *(f"tell player +{other} {color}" for other in offsets for color in COLORS[: sizes.colors]),
        *(f"tell player +{other} rank {rank + 1}" for other in offsets for rank in range(sizes.ranks)),
    ]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    sizes = config.sizes
    colors, ranks = COLORS[: sizes.colors], range(sizes.ranks)
    cards = [f"{color} {rank + 1}" for color in colors for rank in ranks]
    copies = [f"{color} {rank + 1}" for color in colors for rank in ranks for _ in range(sizes.copies(rank))]
    hints = [*colors, *(str(rank + 1) for rank in ranks)]
    slots = [f"card {slot}" for slot in range(sizes.hand_size)]
    seats = ["own", *(f"player +{offset}" for offset in range(1, sizes.players))]
    blocks = [
        *(
            ObservationBlock(f"hand of {seat}: each card, one-hot", width=sizes.hand_size * sizes.cards, parts=cards)
            for seat in seats[1:]
        ),
        flags("1 for a player with fewer cards than a full hand", seats),
        ObservationBlock("cards left in the deck, in unary", width=sizes.drawn),
        flags("highest card of each color's fireworks, one-hot; zeros without one", cards),
        ObservationBlock("information tokens, in unary", width=sizes.information_tokens),
        ObservationBlock("life tokens, in unary", width=sizes.life_tokens),
        flags("discarded cards, in unary for each card", copies),
        flags("last action: its player, one-hot; zeros before the first action", seats),
        flags("last action: its kind, one-hot", ("play", "discard", "color hint", "rank hint")),
        flags("last action, a hint: the player who received it, one-hot", seats),
        flags("last action, a hint: its color or rank, one-hot", hints),
        flags("last action, a hint: the cards that match", slots),
        flags("last action, a play or discard: place of the card, one-hot", slots),
        flags("last action, a play or discard: the card, one-hot", cards),
        flags("last action, a play: it scored, it returned an information token", ("scored", "token")),
    ]
    if config.observation_type == "minimal":
        return blocks
    entries = (*(f"{card} possible" for card in cards), *(f"{hint} hinted" for hint in hints))
    for owner in ("own cards", *(f"cards of {seat}" for seat in seats[1:])):
        meaning = f"knowledge of the {owner}: possible cards by the hints, then the color and the rank hinted"
        blocks.append(ObservationBlock(meaning, width=sizes.hand_size * sizes.card_knowledge, parts=entries))
    return blocks


_PAINTS = ((0.87, 0.25, 0.20), (0.97, 0.81, 0.22), (0.20, 0.66, 0.38), (0.95, 0.95, 0.95), (0.22, 0.50, 0.88))
"""Red, yellow, green, white and blue, the order of the original."""
_NIGHT, _SHADE, _INK = (0.07, 0.09, 0.17), (0.13, 0.16, 0.27), (0.12, 0.13, 0.18)
SIDE = 12.0
"""Width and height of the picture [world units]."""
RAYS = 12
"""Rays of a firework."""


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds, as a spectator sees them, who knows all cards.

    At the top are the fireworks with a burst per card, deck and tokens: blue for information, red for life. Below are
    the hands, player 0 first, and the discards on the right. A golden frame marks the player to act. Below a card are
    the color and the rank that were hinted.
    """
    sizes, device = core.config.sizes, core.device
    state = {name: tensor[envs] for name, tensor in core.world_state.items()}
    worlds, colors, ranks = len(envs), sizes.colors, sizes.ranks
    paints = torch.tensor(_PAINTS, device=device)[:colors]
    inks = torch.tensor([PAPER if index in (0, 2, 4) else _INK for index in range(colors)], device=device)

    def at(points: list[tuple[float, float]]) -> torch.Tensor:
        return torch.tensor(points, device=device).reshape(-1, 2).expand(worlds, -1, -1)

    def cards_at(
        centers: torch.Tensor, color: torch.Tensor, rank: torch.Tensor, height: float, visible: torch.Tensor
    ) -> torch.Tensor:
        """Return cards (W, N) with their numbers, 0.7 * height wide."""
        half = torch.tensor([0.35, 0.5], device=device) * height
        return join(
            boxes(centers, half + 0.05, _INK, visible),
            boxes(centers, half, paints[color], visible),
            numbers(centers, rank + 1, 0.5 * height, 0.55 * height, inks[color], visible, largest=ranks),
        )

    # Fireworks: a slot, the highest card of the color, and bursts above it.
    x = [4.4 + 1.6 * (color - (colors - 1) / 2) for color in range(colors)]
    height = state["fireworks"]
    slots = at([(column, 8.9) for column in x])
    order = torch.arange(colors, device=device).expand(worlds, -1)
    parts = [
        boxes(slots, torch.tensor([0.56, 0.79]), _SHADE),
        cards_at(slots, order, height.clamp(min=1) - 1, 1.5, height > 0),
    ]
    heads = at([(column, 10.75) for column in x])
    angles = torch.arange(RAYS, device=device) * (2 * math.pi / RAYS)
    rays = torch.stack([angles.cos(), angles.sin()], -1)
    for step in range(ranks):
        lit = (height > step).repeat_interleave(RAYS, 1)
        inner, outer = 0.17 + 0.6 * step / ranks, 0.17 + 0.6 * (step + 0.75) / ranks
        starts, ends = ((heads[:, :, None] + radius * rays).flatten(1, 2) for radius in (inner, outer))
        parts.append(lines(starts, ends, 0.07, paints.repeat_interleave(RAYS, 0), lit))

    # Deck, information tokens and life tokens.
    deck, left = at([(9.6, 10.6)]), sizes.deck - state["dealt"][:, None]
    parts += [
        boxes(deck, torch.tensor([0.62, 0.85]), PAPER, left > 0),
        boxes(deck, torch.tensor([0.54, 0.77]), BACK, left > 0),
        numbers(deck, left, 0.9, 0.6, PAPER, largest=sizes.deck),
    ]
    for name, limit, top, color in (
        ("information", sizes.information_tokens, 9.25, _PAINTS[4]),
        ("lives", sizes.life_tokens, 8.2, _PAINTS[0]),
    ):
        radius = min(0.2, 1.6 / max(limit, 8))
        gap = 2.6 * radius
        places = at([(9.0 + gap * (index % 6), top - gap * (index // 6)) for index in range(limit)])
        present = torch.arange(limit, device=device) < state[name][:, None]
        parts += [rings(places, radius, color, 0.05, alpha=0.5), circles(places, radius, color, present)]

    # Hands.
    row_height = 7.2 / sizes.players
    tall = min(1.5, 0.62 * row_height, 7.2 / sizes.hand_size / 0.8)
    gap = min(1.45, 7.0 / sizes.hand_size)
    seats = []
    assert core.to_move is not None
    for player in range(sizes.players):
        y = 7.45 - row_height * (player + 0.5)
        seats.append((0.65, y))
        middle = 1.55 + 0.5 * gap * sizes.hand_size
        frame = torch.tensor([0.5 * gap * sizes.hand_size + 0.1, 0.47 * row_height])
        center = at([(middle, y)])
        moves = core.to_move[envs, player, None]
        parts.append(boxes(center, frame, _SHADE))
        parts.append(boxes(center, frame, GOLD, moves, line_width=0.1))
        card, revealed = state["hand"][:, player], state["revealed"][:, player]
        present, face = card >= 0, card.clamp(min=0)
        color, rank = face // ranks, face % ranks
        lift, drop = 0.14 * row_height, 0.36 * row_height
        centers = at([(1.55 + gap * (slot + 0.5), y + lift) for slot in range(sizes.hand_size)])
        parts.append(cards_at(centers, color, rank, tall, present))
        hinted = [((revealed >> bit) & 1).bool() & present for bit in (color, colors + rank)]
        left_of, right_of = (
            at([(1.55 + gap * (slot + 0.5) + way * 0.2 * tall, y - drop) for slot in range(sizes.hand_size)])
            for way in (-1, 1)
        )
        parts.append(boxes(left_of, 0.11 * tall, paints[color], hinted[0]))
        parts.append(numbers(right_of, rank + 1, 0.3 * tall, 0.26 * tall, PAPER, hinted[1], largest=ranks))
    agents = circles(at(seats), 0.36, BACK)
    number = torch.arange(sizes.players, device=device).expand(worlds, -1)
    parts += [agents, numbers(at(seats), number, 0.5, 0.36, PAPER)]

    # Discards: a column for each color, a place for each card.
    rank_of = [rank for rank in range(ranks) for _copy in range(sizes.copies(rank))]
    places, color_of = [], []
    for color in range(colors):
        for copy in range(sizes.per_color):
            places.append((9.2 + 0.56 * color, 6.95 - 0.66 * copy))
            color_of.append(color)
    bits = torch.arange(sizes.per_color, device=device)
    gone = ((state["discards"][:, :, None] >> bits) & 1).bool().flatten(1)
    tint = torch.tensor(color_of, device=device).expand(worlds, -1)
    rank = torch.tensor(rank_of * colors, device=device).expand(worlds, -1)
    parts.append(boxes(at(places), torch.tensor([0.2, 0.27]), _SHADE))
    parts.append(cards_at(at(places), tint, rank, 0.56, gone))
    return Scene(join(*parts), (0.0, 0.0, SIDE, SIDE), background=_NIGHT, border=_INK, agents=agents)
