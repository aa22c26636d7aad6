"""Leagues: populations of policies that learn against each other, by PSRO or as in AlphaStar.

Public names are imported at their first use. Meta-solvers are in `league.solvers`.
"""

import importlib.util
from typing import TYPE_CHECKING

from gpu_envs.errors import MissingExtraError, packages
from gpu_envs.utils.lazy_exports import lazy_exports

for _name in ("scipy", "safetensors"):
    if importlib.util.find_spec(_name) is None:
        raise MissingExtraError(f"leagues need {_name}: pip install {packages('league')}")

if TYPE_CHECKING:
    from league import solvers
    from league.analysis.compare import compare_runs
    from league.analysis.report_tables import format_report
    from league.executors.process import ProcessExecutor
    from league.executors.ray import RayExecutor
    from league.executors.tasks import LocalExecutor
    from league.game import Game, Seat
    from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder
    from league.leagues.async_league import AsyncLeague
    from league.leagues.builder import LeagueBuilder, LeagueResult, NoLeagueBuilder, Roster
    from league.leagues.league import League, LeagueConfig
    from league.leagues.player import Copy, Enter, Freeze, Match, Player, Reset, Retire
    from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
    from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
    from league.psro.config import PSROConfig
    from league.psro.psro import PSRO
    from league.report import build_report
    from league.storage.open_run import open_run
    from league.storage.run_store import RunStore

__all__ = [
    "PSRO",
    "AlphaStarConfig",
    "AlphaStarLeagueBuilder",
    "AsyncLeague",
    "Copy",
    "Enter",
    "Freeze",
    "Game",
    "League",
    "LeagueBuilder",
    "LeagueConfig",
    "LeagueResult",
    "LocalExecutor",
    "Match",
    "NoLeagueBuilder",
    "PSROConfig",
    "Player",
    "PopulationBasedBuilder",
    "PopulationBasedConfig",
    "ProcessExecutor",
    "RayExecutor",
    "Reset",
    "Retire",
    "Roster",
    "RunStore",
    "Seat",
    "SelfPlayBuilder",
    "SelfPlayConfig",
    "build_report",
    "compare_runs",
    "format_report",
    "open_run",
    "solvers",
]

__getattr__, __dir__ = lazy_exports(__name__)
