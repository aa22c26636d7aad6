"""Every league algorithm by its name on the command line: its settings, and how a run of it is made."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpu_envs.errors import ConfigError
from league.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder
from league.baselines import PopulationBasedBuilder, PopulationBasedConfig, SelfPlayBuilder, SelfPlayConfig
from league.builder import LeagueBuilder, NoLeagueBuilder
from league.executors import Executor
from league.league import League, LeagueConfig
from league.psro import PSRO, PSROConfig
from league.store import Store
from trainers.logs import Progress


class Run(Protocol):
    """What goes on with a run, from wherever it is."""

    def run(self) -> list[dict[str, Any]]:
        """All iterations that are left; returns the summaries of all."""
        ...


@dataclass(frozen=True)
class AlphaStarLeagueConfig(LeagueConfig):
    """Settings of an AlphaStar league."""

    rules: AlphaStarConfig = field(default_factory=AlphaStarConfig)
    """Of its players."""


@dataclass(frozen=True)
class SelfPlayLeagueConfig(LeagueConfig):
    """Settings of self-play."""

    rules: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    """Of its players."""


@dataclass(frozen=True)
class FictitiousLeagueConfig(LeagueConfig):
    """Settings of fictitious self-play."""

    rules: SelfPlayConfig = field(default_factory=lambda: SelfPlayConfig(opponents="uniform"))
    """Of its players."""


@dataclass(frozen=True)
class PFSPLeagueConfig(LeagueConfig):
    """Settings of prioritised fictitious self-play."""

    rules: SelfPlayConfig = field(default_factory=lambda: SelfPlayConfig(opponents="pfsp"))
    """Of its players."""


@dataclass(frozen=True)
class PopulationBasedLeagueConfig(LeagueConfig):
    """Settings of population-based training."""

    rules: PopulationBasedConfig = field(default_factory=PopulationBasedConfig)
    """Of its players."""


@dataclass(frozen=True)
class Algorithm:
    """A way to grow populations."""

    config_type: type[Any]
    """Class of its settings."""
    make: Callable[[Store, Any, Progress | None, Executor | None], Run]
    """A run in a store, by its configuration; it tells its progress, if told to, and has its work done by an executor.
    """
    summary: str
    """One line for people."""


def _league(
    builder: Callable[[Any], LeagueBuilder],
) -> Callable[[Store, Any, Progress | None, Executor | None], Run]:
    return lambda store, config, progress, executor: League(store, config, builder(config), progress, executor)


ALGORITHMS: dict[str, Algorithm] = {
    "psro": Algorithm(PSROConfig, PSRO, "best responses to a meta-strategy over the populations"),
    "alphastar": Algorithm(
        AlphaStarLeagueConfig,
        _league(lambda config: AlphaStarLeagueBuilder(config.rules)),
        "main agents, main exploiters and league exploiters",
    ),
    "self_play": Algorithm(
        SelfPlayLeagueConfig, _league(lambda config: SelfPlayBuilder(config.rules)), "against oneself as one is"
    ),
    "fictitious": Algorithm(
        FictitiousLeagueConfig, _league(lambda config: SelfPlayBuilder(config.rules)), "against all of one's past alike"
    ),
    "pfsp": Algorithm(
        PFSPLeagueConfig, _league(lambda config: SelfPlayBuilder(config.rules)), "against what wins of one's past"
    ),
    "pbt": Algorithm(
        PopulationBasedLeagueConfig,
        _league(lambda config: PopulationBasedBuilder(config.rules)),
        "many at once, of which the weak take over from the strong",
    ),
    "independent": Algorithm(
        LeagueConfig, _league(lambda config: NoLeagueBuilder()), "one learner per role, and nobody is kept"
    ),
}
"""By name."""


def find(name: str) -> Algorithm:
    """The algorithm of a name; ConfigError where there is none."""
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    near = difflib.get_close_matches(name, ALGORITHMS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ALGORITHMS)}"
    raise ConfigError(f"algorithm = {name!r}: no league of this name; {hint}")
