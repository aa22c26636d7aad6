"""Sizes of Hanabi: its cards, its actions and the sections of an observation, as plain numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Sizes of a game. A card is color * ranks + rank; both start at 0."""

    players: int
    """Number of players P."""
    colors: int
    """Number of colors C."""
    ranks: int
    """Number of ranks R."""
    hand_size: int
    """Number of cards of a full hand H."""
    information_tokens: int
    """Largest number of information tokens."""
    life_tokens: int
    """Life tokens at the start."""

    @property
    def cards(self) -> int:
        """Number of different cards."""
        return self.colors * self.ranks

    def copies(self, rank: int) -> int:
        """Return the number of copies of a card of this rank: three of the lowest, one of the highest."""
        return 3 if rank == 0 else (1 if rank == self.ranks - 1 else 2)

    @property
    def per_color(self) -> int:
        """Number of cards of a color in the deck."""
        return sum(map(self.copies, range(self.ranks)))

    @property
    def deck(self) -> int:
        """Number of cards of the whole deck D."""
        return self.colors * self.per_color

    @property
    def drawn(self) -> int:
        """Number of cards that are in the deck after the hands are dealt."""
        return self.deck - self.players * self.hand_size

    @property
    def actions(self) -> int:
        """Number of actions: discard and play each place, give each color and each rank to each other player."""
        return 2 * self.hand_size + (self.players - 1) * (self.colors + self.ranks)

    @property
    def most_turns(self) -> int:
        """Upper bound of the length of a game [steps].

        Before the deck is empty, every card is drawn after a discard or play. Each of them returns at most one token,
        and each hint costs one. Then every player has one more turn.
        """
        return 2 * self.drawn + self.information_tokens + self.players

    # ---------------------------------------------------------------- sections of an observation

    @property
    def other_hands(self) -> int:
        """Width of the cards of the other players."""
        return (self.players - 1) * self.hand_size * self.cards

    @property
    def board(self) -> int:
        """Width of deck size, fireworks and tokens."""
        return self.drawn + self.cards + self.information_tokens + self.life_tokens

    @property
    def last_action(self) -> int:
        """Width of the last action."""
        return 2 * self.players + 4 + self.colors + self.ranks + 2 * self.hand_size + self.cards + 2

    @property
    def card_knowledge(self) -> int:
        """Width of the knowledge of one card: possible cards, hinted color, hinted rank."""
        return self.cards + self.colors + self.ranks

    @property
    def knowledge(self) -> int:
        """Width of the knowledge of all cards."""
        return self.players * self.hand_size * self.card_knowledge

    def observation(self, knowledge: bool) -> int:
        """Return the width of an observation, with or without card knowledge."""
        width = self.other_hands + self.players + self.board + self.deck + self.last_action
        return width + (self.knowledge if knowledge else 0)

    @property
    def global_state(self) -> int:
        """Width of the global state: an observation with the hands of all players, and the player to act."""
        return self.observation(True) + self.hand_size * self.cards + self.players
