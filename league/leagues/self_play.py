"""Self-play and fictitious self-play: one main player per role against current and past opponents.

These algorithms are baselines. In over 7,000 runs, deep reinforcement learning with fictitious play or double oracle
did not outperform policy gradients with plain self-play (Rudolph et al. 2025, arXiv 2502.08938).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_envs.utils.settings import check_settings, setting
from league.game import Game
from league.leagues.builder import (
    LeagueBuilder,
    LeagueResult,
    Roster,
    learning_opponents,
    players_per_role,
    uniform_matches,
    weighted_matches,
)
from league.leagues.matchmaking import pfsp
from league.leagues.player import Match, Player
from league.leagues.transitions import Change, Freeze

__all__ = ["MAIN", "SelfPlayBuilder", "SelfPlayConfig"]

MAIN = "main"  # kind of the learning players


@dataclass(frozen=True)
class SelfPlayConfig:
    """Settings of self-play against current and past opponents."""

    opponents: str = setting("latest", choices=("latest", "uniform", "pfsp"))
    """Opponents: "latest", the current players (self-play);
    "uniform", all frozen copies equally often (fictitious self-play, Heinrich et al. 2015); or
    "pfsp", stronger frozen copies more often (prioritized fictitious self-play, Vinyals et al. 2019)."""
    latest: float = setting(0.2, ge=0, le=1)
    """Share of matches against the current player with "uniform" and "pfsp"."""
    freeze_every: int = setting(100_000, ge=1)
    """Environment steps between two frozen copies."""
    weighting: str = "squared"
    """Weighting of opponents by win rate for "pfsp": "variance", "linear", "linear_capped" or "squared"."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)
        pfsp([], self.weighting)


class SelfPlayBuilder(LeagueBuilder):
    """Builder of self-play: one player per role against the current or a past opponent."""

    def __init__(self, config: SelfPlayConfig | None = None) -> None:
        """Use plain self-play if `config` is None."""
        self.config = config or SelfPlayConfig()

    def players(self, game: Game) -> list[Player]:
        """Return one player per role, `main_0` or `main_ROLE_0`."""
        return players_per_role(game, MAIN, 1)

    def frozen_at_start(self, player: Player) -> bool:
        """Return whether past opponents are needed from the start."""
        return self.config.opponents != "latest"

    def matches(self, roster: Roster, player: Player) -> list[Match]:
        """Return matches against the current opponent and against past ones."""
        c, latest = self.config, learning_opponents(roster, player, MAIN)
        past = roster.frozen(roster.facing(player))
        if c.opponents == "latest" or not past:
            return uniform_matches(latest)
        chosen = [1 / len(past)] * len(past)
        if c.opponents == "pfsp":
            chosen = pfsp(roster.win_rates.against(player.name, past), c.weighting)
        return uniform_matches(latest, c.latest) + weighted_matches(past, chosen, 1 - c.latest)

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Freeze copies at fixed intervals."""
        return [Freeze(name) for name, steps in result.steps.items() if steps >= self.config.freeze_every]
