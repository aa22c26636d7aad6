"""Who is to meet whom: win rates with decay, and prioritised fictitious self-play.

Source: Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement learning", and its
pseudocode `multiagent.py`, called the pseudocode here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.files import check_fields

Rates = NDArray[np.float64]  # (opponents,), in [0, 1]

WEIGHTINGS: Mapping[str, Callable[[Rates], Rates]] = {
    "variance": lambda x: x * (1 - x),
    "linear": lambda x: 1 - x,
    "linear_capped": lambda x: np.minimum(0.5, 1 - x),
    "squared": lambda x: (1 - x) ** 2,
}
"""Weight of an opponent by the win rate against it: those of one's own strength, or those that win."""


def pfsp(win_rates: Sequence[float] | Rates, weighting: str = "linear") -> Rates:
    """Probabilities of opponents by prioritised fictitious self-play; uniform where all weights vanish.

    Args:
        win_rates: Against each opponent, in [0, 1], draws as half.
        weighting: One of `WEIGHTINGS`.

    Raises:
        ConfigError: An unknown weighting.
    """
    if weighting not in WEIGHTINGS:
        raise ConfigError(f"weighting = {weighting!r}: expected one of {', '.join(WEIGHTINGS)}")
    rates = np.asarray(win_rates, np.float64)
    weights = WEIGHTINGS[weighting](rates)
    total = weights.sum()
    return np.full(len(rates), 1 / max(len(rates), 1)) if total < 1e-10 else weights / total


def without_monotonic_suffix(win_rates: Sequence[float] | Rates) -> int:
    """How many opponents, oldest first, remain without those at the end whose win rates only fall.

    Newer versions are harder, so a win rate that rises with age of the version says nothing; one that is lower for an
    older version than for a newer one means that the older one has been forgotten.
    """
    for index in range(len(win_rates) - 1, 0, -1):
        if win_rates[index - 1] < win_rates[index]:
            return index + 1
    return 0


class WinRates:
    """Games and scores of pairs of players, older games counting less.

    Every game of a pair multiplies what was counted before by `decay` (0.99 in the pseudocode). Games come in batches
    without an order among them, so a batch counts as if its wins were spread evenly over it.
    """

    def __init__(self, decay: float = 0.99) -> None:
        """`decay` in (0, 1]; 1 forgets nothing."""
        if not 0 < decay <= 1:
            raise ConfigError(f"decay = {decay}: expected a number in (0, 1]")
        self.decay = decay
        self.games: dict[tuple[str, str], float] = {}
        self.scores: dict[tuple[str, str], float] = {}

    def add(self, home: str, away: str, games: int, score: float) -> None:
        """Counts games between two players.

        Args:
            home: A player.
            away: Another; nothing is counted of games against oneself.
            games: How many.
            score: Of home, 1 for a win, 1/2 for a draw, summed.
        """
        if games <= 0 or home == away:
            return
        left = self.decay**games
        weight = float(games) if self.decay == 1 else (1 - left) / (1 - self.decay)
        for pair, rate in (((home, away), score / games), ((away, home), 1 - score / games)):
            self.games[pair] = self.games.get(pair, 0.0) * left + weight
            self.scores[pair] = self.scores.get(pair, 0.0) * left + weight * rate

    def rate(self, home: str, away: str) -> float:
        """Share of games that home wins, draws as half; 1/2 if they never met."""
        games = self.games.get((home, away), 0.0)
        return self.scores[home, away] / games if games else 0.5

    def against(self, home: str, opponents: Sequence[str]) -> Rates:
        """`rate` against each of several."""
        return np.array([self.rate(home, away) for away in opponents], np.float64)

    def forget(self, player: str) -> None:
        """Forgets all games of a player, whose name somebody else has now: one that was reset."""
        for table in (self.games, self.scores):
            for pair in [pair for pair in table if player in pair]:
                del table[pair]

    def to_json(self) -> dict[str, Any]:
        """For a run's records."""
        return {"decay": self.decay, "pairs": [[*pair, games, self.scores[pair]] for pair, games in self.games.items()]}

    @classmethod
    def from_json(cls, data: Any, where: str) -> WinRates:
        """Read what `to_json` gave; CheckpointError where it is something else."""
        check_fields(where, data, {"decay": float, "pairs": list[list[str | float]]})
        hints = {"home": str, "away": str, "games": float, "score": float}
        if not 0 < data["decay"] <= 1:
            raise CheckpointError(f"{where}: decay: expected a number in (0, 1], got {data['decay']}")
        rates = cls(data["decay"])
        for pair in data["pairs"]:
            home, away, games, score = check_fields(where, dict(zip_longest(hints, pair)), hints).values()
            if not 0 <= score <= games < math.inf:
                raise CheckpointError(f"{where}: pairs: expected 0 <= score <= games, got {score} and {games}")
            rates.games[home, away], rates.scores[home, away] = games, score
        return rates
