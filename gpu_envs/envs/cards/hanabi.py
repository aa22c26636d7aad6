"""Hanabi-v0 (2 agents): Players see all cards but their own.

The rules are in ``warp_kernels/cards/hanabi/hanabi.py``.
"""

from dataclasses import dataclass
from typing import ClassVar

from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, any_bits, index, integers, roster
from gpu_envs.descriptions import ObservationBlock, flags
from gpu_envs.envs.cards.hanabi_table import draw
from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import setting
from warp_kernels.cards.hanabi import hanabi
from warp_kernels.cards.hanabi.binary_rows import num_words
from warp_kernels.cards.hanabi.sizes import Sizes

__all__ = [
    "COLORS",
    "MAX_TOKENS",
    "OBSERVATION_TYPES",
    "Config",
    "action_names",
    "build",
    "draw",
    "observation_blocks",
    "original_settings",
]

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
    """Build the environment definition."""
    sizes = config.sizes
    observes_knowledge = config.observation_type != "minimal"
    players, cards = sizes.players, sizes.cards
    hands = (players, sizes.hand_size)
    width = sizes.observation(observes_knowledge)
    named = roster({"player": players}, {"player": width}, {"player": spaces.Discrete(sizes.actions)}, 0.0, 1.0)
    return EnvDefinition(
        **named,
        rules=hanabi.rules(sizes, observes_knowledge, config.observation_type == "seer"),
        params={
            "random_start_player": int(config.random_start_player),
            "keep_score": int(config.keep_score),
        },
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
    """Return the names of the actions of the agent in this row."""
    sizes = config.sizes
    slots, offsets = range(sizes.hand_size), range(1, sizes.players)
    return [
        *(f"discard card {slot}" for slot in slots),
        *(f"play card {slot}" for slot in slots),
        *(f"tell player +{other} {color}" for other in offsets for color in COLORS[: sizes.colors]),
        *(f"tell player +{other} rank {rank + 1}" for other in offsets for rank in range(sizes.ranks)),
    ]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    """Return the observation blocks of the agent in this row."""
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
