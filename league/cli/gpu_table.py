"""The GPUs that each training of a run gets, for the start of its output."""

from __future__ import annotations

from league.executors import Executor
from league.executors.gpu_shares import format_plan
from league.executors.ray import RayExecutor
from league.leagues import builder_validation
from league.leagues.builder import Roster
from league.leagues.league import League
from league.leagues.matchmaking import WinRates
from league.leagues.training_group import group_key
from league.psro.psro import PSRO
from league.psro.variants.pipeline import PipelineVariant
from league.registry import AlgorithmRun

__all__ = ["gpu_table", "trainings_of"]


def gpu_table(executor: Executor, run: AlgorithmRun, device: str) -> str:
    """Return the GPUs of a Ray cluster and of each training as a table; "" if there is nothing to divide.

    Args:
        executor: Executor of the run.
        run: The run.
        device: Device on which its tasks compute.
    """
    names = trainings_of(run)
    if not isinstance(executor, RayExecutor) or not device.startswith("cuda") or not names:
        return ""
    return format_plan(executor.nodes, executor.plan(len(names)), names)


def trainings_of(run: AlgorithmRun) -> list[str]:
    """Return the names of the trainings that begin together in the next iteration, as far as they are known."""
    if isinstance(run, League):
        return list(map(group_key, _groups(run)))
    if not isinstance(run, PSRO) or run.train is None:
        return []
    if isinstance(run.variant, PipelineVariant):
        return [f"{role} level {level}" for role in run.game.roles for level in range(run.variant.depth)]
    return list(run.game.roles)


def _groups(run: League) -> list[tuple[str, ...]]:
    if run.finished >= 0:
        return builder_validation.training_groups(run.builder, run.state)
    roster = Roster(run.game, WinRates(run.config.decay))
    for player in builder_validation.first_players(run.builder, run.game):
        roster.add(player)
    return list(run.builder.training_groups(roster))
