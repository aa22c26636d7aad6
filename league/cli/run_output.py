"""Output of `gpu-envs league train` and `resume` about a run: its start, its progress, and its result or interrupt."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gpu_envs.definition.id_modules import import_words
from gpu_envs.utils.terminal import shell_command, terminal_width
from league.cli.live_table import LiveTable, table
from league.cli.options import ExecutorOptions
from league.executors.gpu_shares import format_plan
from league.executors.ray import RayExecutor
from league.executors.tasks import Executor
from league.leagues import builder_validation
from league.leagues.builder import Roster
from league.leagues.league import League
from league.leagues.matchmaking import WinRates
from league.leagues.training_group import group_key
from league.psro.psro import PSRO
from league.psro.variants.pipeline import PipelineVariant
from league.storage.run_config import SUMMARY_FILE, write_summary
from league.storage.run_store import RunStore
from trainers.runner.signals import interrupts
from trainers.storage.config_yaml import CONFIG_FILE


def run_league(
    run: PSRO | League, store: RunStore, options: ExecutorOptions, live: LiveTable, executor: Executor, device: str
) -> int:
    """Run a league, print its start, its progress, and its result or how to continue it, and return the exit code.

    Args:
        run: The run, whose progress is the table.
        store: Store of the run.
        options: Options of the processes that train and evaluate.
        live: Table of the run.
        executor: Executor of the run.
        device: Device on which the run continues.
    """
    import torch

    torch.set_num_threads(options.num_threads)
    words, name, game = shell_command(*options.words()), store.config["algorithm"], store.game
    populations = f"{name} on {game.env_id}: populations of {', '.join(game.roles)}"
    print(f"{populations}, on {device}{f' ({words})' if words else ''}, {store.path}/", flush=True)
    if gpus := gpu_table(executor, run, device):
        print(gpus, flush=True)
    began = time.perf_counter()
    imports = import_words(game.env_id, store.config)
    try:
        with live, interrupts():
            run.run()
    except KeyboardInterrupt:
        if rows := list(store.iterations().values()):
            print(table(rows, terminal_width(sys.stdout)), flush=True)
        command = shell_command("gpu-envs", "league", "resume", store.path, *options.words(), *imports)
        print(f"interrupted; continue with:\n  {command}", file=sys.stderr)
        return 130
    seconds = time.perf_counter() - began
    write_summary(store)
    rows = list(store.iterations().values())
    print(table(rows, terminal_width(sys.stdout)))
    print(f"{len(rows) - 1} iterations, {seconds:.1f} s in this process")
    files = [store.path / SUMMARY_FILE, store.file, store.path / CONFIG_FILE]
    for file in filter(Path.exists, files):  # a run that a program started has no configuration file
        print(f"  {file}")
    print(f"  {shell_command('gpu-envs', 'league', 'report', store.path, *imports)}")
    print(f"  {shell_command('gpu-envs', 'watch', store.path, *imports)}")
    return 0


def gpu_table(executor: Executor, run: PSRO | League, device: str) -> str:
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


def trainings_of(run: PSRO | League) -> list[str]:
    """Return the names of the trainings that begin together in the next iteration, as far as they are known."""
    if isinstance(run, League):
        if run.finished >= 0:
            return list(map(group_key, builder_validation.training_groups(run.builder, run.state)))
        roster = Roster(run.game, WinRates(run.config.decay))
        for player in builder_validation.first_players(run.builder, run.game):
            roster.add(player)
        return list(map(group_key, run.builder.training_groups(roster)))
    if run.train is None:
        return []
    if isinstance(run.variant, PipelineVariant):
        return [f"{role} level {level}" for role in run.game.roles for level in range(run.variant.depth)]
    return list(run.game.roles)
