"""Self-play and fictitious self-play: one main player per role against current and past opponents.

These algorithms are baselines. In over 7,000 runs, deep reinforcement learning with fictitious play or double oracle
did not outperform policy gradients with plain self-play (Rudolph et al. 2025, arXiv 2502.08938).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from league.game import Game
from league.leagues.builder import (
    LeagueBuilder,
    LeagueResult,
    Roster,
    groups_across_roles,
    players_per_role,
    uniform_matches,
    weighted_matches,
)
from league.leagues.matchmaking import WEIGHTINGS, pfsp, weighting_function
from league.leagues.player import RANDOM_NAME, Change, Freeze, Match, Player
from league.leagues.training_group import TrainingGroup

MAIN = "main"  # kind of the learning players


@dataclass(frozen=True)
class SelfPlayConfig:
    """Settings of self-play against current and past opponents."""

    opponents: str = setting("latest", choices=("latest", "uniform", "pfsp"))
    """Opponents: "latest", the current players (self-play);
    "uniform", all frozen copies equally often (fictitious self-play, Heinrich et al. 2015); or
    "pfsp", stronger frozen copies more often (prioritized fictitious self-play, Vinyals et al. 2019)."""
    latest: float = setting(0.2, ge=0, le=1)
    """Share of matches against the current player with "uniform" and "pfsp".
    0 is fictitious self-play as published: with best responses, the average of the copies approaches an equilibrium of
    any two-player zero-sum game. A larger share learns sooner, but the average may stay at a distance."""
    random: float = setting(0.0, ge=0, le=1)
    """Share of matches against the random policy, so that players do not forget weak opponents."""
    freeze_every: int = setting(100_000, ge=1)
    """Environment steps between two frozen copies."""
    shared_worlds: bool = True
    """Train the players of all roles in the same worlds: when they meet, all of them learn.
    False: each trains in its own worlds, and its opponents are the policies from the start of the iteration."""
    weighting: str = setting("squared", choices=tuple(WEIGHTINGS), by_name=True)
    """Weighting of opponents by win rate for "pfsp": "variance", "linear", "linear_capped" or "squared".
    "module:NAME" is a function of your own from win rates (opponents,), oldest first, to weights."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)
        if self.opponents != "latest" and self.latest + self.random > 1:
            raise ConfigError(f"latest + random: expected at most 1, got {self.latest + self.random}")


class SelfPlayBuilder(LeagueBuilder):
    """Builder of self-play: one player per role against the current or a past opponent."""

    def __init__(self, config: SelfPlayConfig | None = None) -> None:
        """Use plain self-play if `config` is None."""
        self.config: SelfPlayConfig = config or SelfPlayConfig()
        weighting_function(self.config.weighting)  # raises an error before the league starts

    def players(self, game: Game) -> list[Player]:
        """Return one player per role, `main_0` or `main_ROLE_0`."""
        return players_per_role(game, MAIN, 1)

    def frozen_at_start(self, player: Player) -> bool:
        """Return whether past opponents are needed from the start."""
        return self.config.opponents != "latest"

    def matches(self, roster: Roster, player: Player, role: str) -> list[Match]:
        """Return matches against the current opponent and against past ones."""
        c, latest, past = self.config, roster.learning(role, MAIN), roster.frozen(role)
        random = [Match(RANDOM_NAME, c.random)] if c.random else []
        if c.opponents == "latest" or not past:
            return random + uniform_matches(latest, 1 - c.random)
        chosen = [1 / len(past)] * len(past)
        if c.opponents == "pfsp":
            chosen = pfsp(roster.win_rates.against(player.name, past), c.weighting)
        matches = uniform_matches(latest, c.latest) + weighted_matches(past, chosen, 1 - c.latest - c.random)
        return random + matches

    def training_groups(self, roster: Roster) -> list[TrainingGroup]:
        """Return the players of all roles as one group, unless `shared_worlds` is off."""
        return groups_across_roles(roster, MAIN) if self.config.shared_worlds else super().training_groups(roster)

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Freeze copies at fixed intervals."""
        return [Freeze(name) for name, steps in result.steps.items() if steps >= self.config.freeze_every]
