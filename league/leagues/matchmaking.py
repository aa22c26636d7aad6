"""Matchmaking: win rates with decay, and prioritized fictitious self-play (PFSP).

Source: Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement learning", and its
pseudocode `multiagent.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_envs.definition.id_modules import named_object
from gpu_envs.errors import CheckpointError, ConfigError, shown
from trainers.base.serialization import check_fields

Rates = NDArray[np.float64]  # (opponents,), in [0, 1]

WEIGHTINGS: Mapping[str, Callable[[Rates], Rates]] = {
    "variance": lambda x: x * (1 - x),
    "linear": lambda x: 1 - x,
    "linear_capped": lambda x: np.minimum(0.5, 1 - x),
    "squared": lambda x: (1 - x) ** 2,
}
"""Functions that weight opponents by the win rate against them: "variance" prefers equal opponents, others strong."""


def weighting_function(name: str) -> Callable[[Rates], Rates]:
    """Return a function of `WEIGHTINGS` by its name, or by "module:NAME" one of a module that is imported already.

    Raises:
        ConfigError: The name is unknown, or is no function of the win rates (opponents,).
    """
    if ":" in name:
        return named_object("weighting", name, ["win_rates"])
    if name not in WEIGHTINGS:
        raise ConfigError(f"weighting: expected one of {', '.join(WEIGHTINGS)}, or module:NAME, got {name!r}")
    return WEIGHTINGS[name]


def pfsp(win_rates: Sequence[float] | Rates, weighting: str = "linear") -> Rates:
    """Return the probabilities of opponents by prioritized fictitious self-play, uniform if all weights are 0.

    Args:
        win_rates: Win rate against each opponent, in [0, 1]; a draw counts 1/2.
        weighting: Weights of the opponents, see `weighting_function`.

    Raises:
        ConfigError: The weighting is unknown, or its function returns other values than one weight >= 0 per opponent.
    """
    rates = np.asarray(win_rates, np.float64)
    weights = np.asarray(weighting_function(weighting)(rates))
    if weights.shape != rates.shape or not np.all((weights >= 0) & np.isfinite(weights)):
        raise ConfigError(f"weighting {weighting!r}: expected {len(rates)} numbers >= 0, got {shown(weights.tolist())}")
    total = weights.sum()
    return np.full(len(rates), 1 / max(len(rates), 1)) if total < 1e-10 else weights / total


def without_monotonic_suffix(win_rates: Sequence[float] | Rates) -> int:
    """Return how many opponents, oldest first, remain without the last ones, whose win rates decrease with age.

    Newer versions are stronger, so a higher win rate against an older version is expected. A lower win rate against an
    older version than against the next one means that the older version was forgotten.
    """
    for index in range(len(win_rates) - 1, 0, -1):
        if win_rates[index - 1] < win_rates[index]:
            return index + 1
    return 0


class WinRates:
    """Games and scores of pairs of players, with exponential decay.

    Every game of a pair multiplies the earlier counts by `decay` (0.99 in the pseudocode). A batch of games has no
    order: its wins count as if they were spread evenly over it.
    """

    def __init__(self, decay: float = 0.99) -> None:
        """Start without games; `decay` is in (0, 1], and 1 forgets nothing."""
        if not 0 < decay <= 1:
            raise ConfigError(f"decay: expected a number in (0, 1], got {decay}")
        self.decay = decay
        self.games: dict[tuple[str, str], float] = {}
        self.scores: dict[tuple[str, str], float] = {}

    def add(self, home: str, away: str, games: int, score: float) -> None:
        """Add games between two players.

        Args:
            home: Name of a player.
            away: Name of its opponent; games of a player against itself are ignored.
            games: Number of games.
            score: Sum of home's scores: 1 for a win, 1/2 for a draw.
        """
        if games <= 0 or home == away:
            return
        left = self.decay**games
        weight = float(games) if self.decay == 1 else (1 - left) / (1 - self.decay)
        for pair, rate in (((home, away), score / games), ((away, home), 1 - score / games)):
            self.games[pair] = self.games.get(pair, 0.0) * left + weight
            self.scores[pair] = self.scores.get(pair, 0.0) * left + weight * rate

    def rate(self, home: str, away: str) -> float:
        """Return home's mean score against away, 1/2 if they have not played."""
        games = self.games.get((home, away), 0.0)
        return self.scores[home, away] / games if games else 0.5

    def against(self, home: str, opponents: Sequence[str]) -> Rates:
        """Return the win rates (opponents,) of home against several opponents."""
        return np.array([self.rate(home, away) for away in opponents], np.float64)

    def forget(self, player: str) -> None:
        """Remove all games of a player, such as one that was reset."""
        for table in (self.games, self.scores):
            for pair in [pair for pair in table if player in pair]:
                del table[pair]

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {"decay": self.decay, "pairs": [[*pair, games, self.scores[pair]] for pair, games in self.games.items()]}

    @classmethod
    def from_json(cls, data: Any, context: str) -> WinRates:
        """Read the result of `to_json`.

        Raises:
            CheckpointError: A value is damaged.
        """
        check_fields(context, data, {"decay": float, "pairs": list[list[str | float]]})
        hints = {"home": str, "away": str, "games": float, "score": float}
        if not 0 < data["decay"] <= 1:
            raise CheckpointError(f"{context}: decay: expected a number in (0, 1], got {data['decay']}")
        rates = cls(data["decay"])
        for pair in data["pairs"]:
            home, away, games, score = check_fields(context, dict(zip_longest(hints, pair)), hints).values()
            if not 0 <= score <= games < math.inf:
                raise CheckpointError(f"{context}: pairs: expected 0 <= score <= games, got {score} and {games}")
            rates.games[home, away], rates.scores[home, away] = games, score
        return rates
