"""Population-based training: weak players copy strong ones with perturbed settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import check_settings, setting
from league.game import Game
from league.leagues.builder import (
    LeagueBuilder,
    LeagueResult,
    Roster,
    check_numeric,
    players_per_role,
    uniform_matches,
)
from league.leagues.player import Change, Copy, Freeze, Match, Player
from league.leagues.self_play import MAIN


@dataclass(frozen=True)
class PopulationBasedConfig:
    """Settings of population-based training."""

    size: int = setting(4, ge=2)
    """Players per role."""
    ready_steps: int = setting(50_000, ge=1)
    """Environment steps of a player between two selections."""
    bottom: float = setting(0.25, gt=0, le=1)
    """Share of the players of a role that copy others: each of the weakest copies a player of the same share of the
    strongest."""
    perturb: Mapping[str, float] = field(default_factory=lambda: {"learning_rate": 1.2})
    """Factors of numeric learner settings: a copy multiplies or divides each setting by its factor, within its range.
    All learners have a learning rate; learners with an entropy bonus also take `{"entropy_coef": 1.2}`."""

    def __post_init__(self) -> None:
        """Raise ConfigError on the first invalid value."""
        check_settings(self)
        for name, factor in self.perturb.items():
            if not factor > 1:
                raise ConfigError(f"perturb[{name!r}]: expected a factor > 1, got {factor!r}")


class PopulationBasedBuilder(LeagueBuilder):
    """Builder of population-based training: all players of a role train at once, and weak ones copy strong ones.

    Source: Jaderberg et al. 2019, "Human-level performance in 3D multiplayer games with population-based reinforcement
    learning", and 2017, "Population based training of neural networks" (truncation selection, perturbation). Strength
    is the mean win rate against all opponents.
    """

    def __init__(self, config: PopulationBasedConfig | None = None) -> None:
        """Use the default settings if `config` is None."""
        self.config: PopulationBasedConfig = config or PopulationBasedConfig()

    def check(self, game: Game, learner: Any) -> None:
        """Raise ConfigError if the learner lacks a setting of `perturb`."""
        for name in self.config.perturb:
            check_numeric(learner, name)

    def players(self, game: Game) -> list[Player]:
        """Return `size` players of every role."""
        return players_per_role(game, MAIN, self.config.size)

    def matches(self, roster: Roster, player: Player, role: str) -> list[Match]:
        """Return all learning players of the role, except the player itself."""
        return uniform_matches([name for name in roster.learning(role, MAIN) if name != player.name])

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Select and perturb once all players of a role are ready, or each player that is, if not all have trained."""
        c, roster, changes = self.config, result.roster, []
        for role in roster.game.roles:
            names = roster.learning(role, MAIN)
            trained = [name for name in names if name in result.trained]
            if not trained or any(result.steps[name] < c.ready_steps for name in trained):
                continue
            ranked = sorted(names, key=lambda name: self.strength(roster, name))
            count = min(math.ceil(c.bottom * len(names)), len(names) // 2)
            for name in ranked[:count]:
                source = ranked[-1 - int(result.rng.integers(count))]
                up = {setting: bool(result.rng.random() < 0.5) for setting in c.perturb}
                factors = {setting: factor if up[setting] else 1 / factor for setting, factor in c.perturb.items()}
                changes.append(Copy(name, source, factors))
            changes += [Freeze(name) for name in ranked[-1:]]  # keep the strongest
        return changes

    def strength(self, roster: Roster, name: str) -> float:
        """Return the mean win rate of a player against all its opponents."""
        opponents = [other for other in roster.learning(roster.facing(roster.players[name]), MAIN) if other != name]
        return float(roster.win_rates.against(name, opponents).mean())
