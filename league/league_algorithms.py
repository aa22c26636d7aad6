"""League algorithms by their names on the command line: settings, and how a run is made."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from gpu_envs.definition.id_modules import named_object, named_settings, split_id
from gpu_envs.errors import ConfigError
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.suggestions import unknown_name_message
from league.executors.tasks import Executor
from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder
from league.leagues.async_league import AsyncLeague
from league.leagues.builder import LeagueBuilder, NoLeagueBuilder
from league.leagues.league import League, LeagueConfig
from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.psro.config import PSROConfig
from league.psro.psro import PSRO
from league.storage.run_store import RunStore


@dataclass(frozen=True)
class AlphaStarLeagueConfig(LeagueConfig):
    """Settings of an AlphaStar league."""

    rules: AlphaStarConfig = field(default_factory=AlphaStarConfig)
    """Rules of the players: matches, freezing and resets."""


@dataclass(frozen=True)
class SelfPlayLeagueConfig(LeagueConfig):
    """Settings of self-play."""

    rules: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    """Rules of the players: opponents and freezing."""


@dataclass(frozen=True)
class FictitiousSelfPlayLeagueConfig(LeagueConfig):
    """Settings of fictitious self-play."""

    rules: SelfPlayConfig = field(default_factory=lambda: SelfPlayConfig(opponents="uniform"))
    """Rules of the players: opponents and freezing."""


@dataclass(frozen=True)
class PFSPLeagueConfig(LeagueConfig):
    """Settings of prioritized fictitious self-play."""

    rules: SelfPlayConfig = field(default_factory=lambda: SelfPlayConfig(opponents="pfsp"))
    """Rules of the players: opponents and freezing."""


@dataclass(frozen=True)
class PopulationBasedLeagueConfig(LeagueConfig):
    """Settings of population-based training."""

    rules: PopulationBasedConfig = field(default_factory=PopulationBasedConfig)
    """Rules of the players: selection and perturbation."""


@dataclass(frozen=True)
class LeagueAlgorithmSpec:
    """A league algorithm: its settings and its constructor."""

    config_type: type[Any]
    """Class of the settings."""
    make: Callable[[RunStore, Any, Progress | None, Executor | None], PSRO | League]
    """Function (store, config, progress, executor) that makes a run."""


def _league(config_type: type[Any], make_builder: Callable[[Any], LeagueBuilder]) -> LeagueAlgorithmSpec:
    """Return the league of a builder, which is made of the run's configuration."""

    def make(store: RunStore, config: LeagueConfig, progress: Progress | None, executor: Executor | None) -> League:
        kind = AsyncLeague if config.asynchronous else League
        return kind(store, config, make_builder(config), progress, executor)

    return LeagueAlgorithmSpec(config_type, make)


ALGORITHMS: dict[str, LeagueAlgorithmSpec] = {
    "psro": LeagueAlgorithmSpec(PSROConfig, PSRO),
    "alphastar": _league(AlphaStarLeagueConfig, lambda config: AlphaStarLeagueBuilder(config.rules)),
    "self_play": _league(SelfPlayLeagueConfig, lambda config: SelfPlayBuilder(config.rules)),
    "fictitious_self_play": _league(FictitiousSelfPlayLeagueConfig, lambda config: SelfPlayBuilder(config.rules)),
    "pfsp": _league(PFSPLeagueConfig, lambda config: SelfPlayBuilder(config.rules)),
    "pbt": _league(PopulationBasedLeagueConfig, lambda config: PopulationBasedBuilder(config.rules)),
    "independent": _league(LeagueConfig, lambda config: NoLeagueBuilder()),
}
"""League algorithms by name."""


def _user_algorithm(name: str) -> LeagueAlgorithmSpec:
    """Return the league algorithm of a builder "module:Builder"."""
    module, builder = split_id(name)
    kind = cast("Callable[..., LeagueBuilder]", named_object("algorithm", name, LeagueBuilder))
    if not hasattr(sys.modules[module], f"{builder}Config"):
        return _league(LeagueConfig, lambda config: kind())
    settings = named_settings("algorithm", name)
    return _league(_with_rules(settings), lambda config: kind(config.rules))


@functools.cache
def _with_rules(settings: type[Any]) -> type[Any]:
    """Return the settings of a league whose builder has these settings."""
    return dataclasses.make_dataclass(
        settings.__name__.removesuffix("Config") + "LeagueConfig",
        [("rules", settings, field(default_factory=settings))],
        bases=(LeagueConfig,),
        namespace={"__doc__": "Settings of a league."},
        frozen=True,
    )


def find(name: str) -> LeagueAlgorithmSpec:
    """Return a league algorithm by its name, or by "module:Builder" a builder of a module that is imported already.

    If the same module has a dataclass `BuilderConfig`, its instance is the argument of the builder and the group of
    settings `rules`.

    Raises:
        ConfigError: The name is unknown, or a module is not imported, because names may come from files, or has no
            such builder.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if ":" in name:
        return _user_algorithm(name)
    raise ConfigError(unknown_name_message("league algorithm", name, ALGORITHMS))
