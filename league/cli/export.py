"""The command `gpu-envs league export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import UseAppendAction, arg

from gpu_envs.cli.options import parse
from gpu_envs.errors import ConfigError
from league import registry
from league.cli.options import RunOptions
from league.storage.checkpoint_export import export_checkpoint, generations, latest
from league.storage.run_store import RunStore
from trainers.cli.options import policy_names

__all__ = ["LeagueExportOptions", "export_command"]


@dataclass(frozen=True, kw_only=True)
class LeagueExportOptions(RunOptions):
    """Write policies of a league as a checkpoint, for gpu-envs eval, render, export, exploit and load_policy.

    Example: gpu-envs league export out/tag --output out/tag-policies
    """

    output: Path
    """Folder to write, which must not exist or be empty."""
    policy: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SEAT=NAME")] = ()
    """Policy of a seat, named as in gpu-envs league report; repeatable. Default: the latest of each seat, of main
    players in a league with exploiters."""
    all: bool = False
    """Write one checkpoint for each copy of these players, oldest first, instead of the latest alone."""


def export_command(argv: list[str]) -> int:
    """Write policies of a league as checkpoints and return the exit code."""
    args = parse(LeagueExportOptions, "league export", argv)
    if args.output.exists() and (not args.output.is_dir() or any(args.output.iterdir())):
        raise ConfigError(f"--output {args.output}: expected a folder that does not exist or is empty; choose another")
    names = policy_names(args.policy)
    if names and args.all:
        raise ConfigError("--policy: has no effect with --all; leave one of them out")
    with RunStore.open(args.run_dir, write=False) as store:
        kind = registry.find(store.config.get("algorithm", "")).config_type
        chosen = latest(store)
        seats = {seat.name: seat for seat in store.game.seats}
        for name, policy in names.items():
            if name not in seats:
                raise ConfigError(f"--policy: no seat {name!r} in {store.game.env_id}; there are {', '.join(seats)}")
            chosen[name] = store.populations[seats[name].role].named(policy)
        selections = generations(store) if args.all else [chosen]
        for policies in selections:
            export_checkpoint(store, kind, policies, args.output, len(selections))
    print(f"{args.output}: {', '.join(f'{entry.name} as {seat}' for seat, entry in selections[-1].items())}")
    if args.all:
        print(f"{len(selections)} checkpoints")
    return 0
