"""Builders of a user, named by "own_builder:NAME" in tests of configuration files."""

from dataclasses import dataclass

from gpu_envs.utils.settings import check_settings, setting
from league.leagues.builder import LeagueBuilder, players_per_role, uniform_matches
from league.leagues.player import RANDOM_NAME, Freeze, Match


@dataclass(frozen=True)
class FreezingConfig:
    """Settings of a builder that freezes all players in some iterations."""

    every: int = setting(1, ge=1)
    """Iterations between two frozen copies."""

    def __post_init__(self):
        """Raise ConfigError on the first invalid value."""
        check_settings(self)


class Freezing(LeagueBuilder):
    """Builder that freezes all players in some iterations."""

    def __init__(self, config):
        """Use the settings."""
        self.config = config

    def players(self, game):
        """Return one player per role."""
        return players_per_role(game, "main", 1)

    def matches(self, roster, player, role):
        """Return matches against past players, or against the random policy without any."""
        past = roster.frozen(role)
        return uniform_matches(past, 1.0) if past else [Match(RANDOM_NAME, 1.0)]

    def build_league(self, result):
        """Freeze all players every few iterations."""
        roles = result.roster.game.roles if result.iteration % self.config.every == 0 else ()
        return [Freeze(name) for role in roles for name in result.roster.learning(role)]


class Plain(Freezing):
    """Builder without settings."""

    def __init__(self):
        """Freeze in every iteration."""
        super().__init__(FreezingConfig())
