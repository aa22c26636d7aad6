"""What a league has to beat: self-play in its plain forms, and population-based training.

Over 7,000 runs deep reinforcement learning through fictitious play or double oracle did not beat plain policy gradients
in self-play (Rudolph et al. 2025, arXiv 2502.08938): measure yours against these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_envs.errors import ConfigError
from league.builder import (
    Change,
    Copy,
    Freeze,
    LeagueBuilder,
    LeagueResult,
    Match,
    Player,
    Roster,
    check_numeric,
    live,
    one_each,
    uniformly,
    weighted,
)
from league.game import Game
from league.matchmaking import pfsp
from trainers.settings import check_settings, setting

MAIN = "main"  # kind of the learning players


@dataclass(frozen=True)
class SelfPlayConfig:
    """Self-play against oneself and one's past."""

    opponents: str = setting("latest", ("latest", "uniform", "pfsp"))
    """"latest": as they are now (self-play); "uniform" over all frozen copies (fictitious self-play, Heinrich et al.
    2015); "pfsp": those that win are likelier (prioritised, Vinyals et al. 2019)."""
    latest: float = setting(0.2, "in [0, 1]")
    """Share of matches against the latest where opponents are of the past."""
    freeze_every: int = setting(100_000, ">= 1")
    """Steps of worlds between two copies."""
    weighting: str = "squared"
    """Of "pfsp", see `league.matchmaking.WEIGHTINGS`."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)
        pfsp([], self.weighting)


class SelfPlayBuilder(LeagueBuilder):
    """One player per role, against the other as it is or as it was."""

    def __init__(self, config: SelfPlayConfig | None = None) -> None:
        """None: plain self-play."""
        self.config = config or SelfPlayConfig()

    def players(self, game: Game) -> list[Player]:
        """`main_0`, or one per role."""
        return one_each(game, MAIN, 1)

    def frozen_at_start(self, player: Player) -> bool:
        """The past begins with the first weights."""
        return self.config.opponents != "latest"

    def matches(self, roster: Roster, player: Player) -> list[Match]:
        """The latest, and the past."""
        c, latest = self.config, live(roster, player, MAIN)
        past = roster.frozen(roster.facing(player))
        if c.opponents == "latest" or not past:
            return uniformly(latest)
        chosen = [1 / len(past)] * len(past)
        if c.opponents == "pfsp":
            chosen = pfsp(roster.win_rates.against(player.name, past), c.weighting)
        return uniformly(latest, c.latest) + weighted(past, chosen, 1 - c.latest)

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Copies at fixed intervals."""
        return [Freeze(name) for name, steps in result.steps.items() if steps >= self.config.freeze_every]


@dataclass(frozen=True)
class PopulationBasedConfig:
    """Population-based training."""

    size: int = setting(4, ">= 2")
    """Players per role."""
    ready_steps: int = setting(50_000, ">= 1")
    """Steps of worlds that a player learns for between two looks at the others."""
    bottom: float = setting(0.25, "in (0, 1]")
    """Share of the players of a role, the weakest, that copy one of as many of the strongest."""
    perturb: Mapping[str, float] = field(default_factory=lambda: {"learning_rate": 1.2})
    """Numeric settings of the learner that a copy changes: multiplied or divided by this factor, within what they
    allow. All learners have a learning rate; `{"learning_rate": 1.2, "entropy": 1.2}` is good for those with both."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self)
        for name, factor in self.perturb.items():
            if not factor > 1:
                raise ConfigError(f"perturb[{name!r}] = {factor!r}: expected a factor > 1")


class PopulationBasedBuilder(LeagueBuilder):
    """Many learn at once, against all of the other role as they are; the weak take over from the strong.

    Source: Jaderberg et al. 2019, "Human-level performance in 3D multiplayer games with population-based reinforcement
    learning", and 2017, "Population based training of neural networks" (truncation selection, perturbation). Strength
    is the mean win rate against those that are met.
    """

    def __init__(self, config: PopulationBasedConfig | None = None) -> None:
        """None: the defaults."""
        self.config = config or PopulationBasedConfig()

    def check(self, game: Game, learner: Any) -> None:
        """The learner has what is to be perturbed."""
        for name in self.config.perturb:
            check_numeric(learner, name)

    def players(self, game: Game) -> list[Player]:
        """`size` of every role."""
        return one_each(game, MAIN, self.config.size)

    def matches(self, roster: Roster, player: Player) -> list[Match]:
        """All who learn on the other side, but not oneself."""
        return uniformly([name for name in live(roster, player, MAIN) if name != player.name])

    def build_league(self, result: LeagueResult) -> list[Change]:
        """Exploit and explore, where all of a role are ready."""
        c, roster, changes = self.config, result.roster, []
        for role in roster.game.roles:
            names = roster.learning(role, MAIN)
            if any(result.steps[name] < c.ready_steps for name in names):
                continue
            ranked = sorted(names, key=lambda name: self.strength(roster, name))
            count = min(math.ceil(c.bottom * len(names)), len(names) // 2)
            for name in ranked[:count]:
                source = ranked[-1 - int(result.rng.integers(count))]
                up = {setting: bool(result.rng.random() < 0.5) for setting in c.perturb}
                factors = {setting: factor if up[setting] else 1 / factor for setting, factor in c.perturb.items()}
                changes.append(Copy(name, source, factors))
            changes += [Freeze(name) for name in ranked[-1:]]  # the best so far is kept
        return changes

    def strength(self, roster: Roster, name: str) -> float:
        """Mean win rate against all that it meets."""
        opponents = [match.opponent for match in self.matches(roster, roster.players[name])]
        return float(roster.win_rates.against(name, opponents).mean())
