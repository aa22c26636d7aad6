"""The commands `gpu-envs league report`, `render` and `export`, which read a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from torch import Tensor
from tyro.conf import UseAppendAction, arg

from gpu_envs.cli.options import OptionalPath, parse
from gpu_envs.cli.render import VideoOptions, render_play
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.paths import check_file, check_folder
from league import league_algorithms
from league.cli.options import ExecutorOptions, RunOptions
from league.policies.population import Population
from league.storage.checkpoint_export import export_checkpoint, generations, latest
from league.storage.run_store import RunStore
from trainers.base.random_streams import derive_seed
from trainers.cli.options import policy_names
from trainers.models.policy import PolicyProtocol
from trainers.models.policy_set import PolicyRunner


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ExecutorOptions, RunOptions):
    """Write tables and figures of a league: payoffs, ratings, exploitability, learning curves.

    The run may still be in progress.

    Example: gpu-envs league report out/kuhn --output-dir out/kuhn-report
    """

    output_dir: OptionalPath = None
    """Folder for report.html, report.json and the figures. Default: report/ in the folder of the run."""
    opponents: OptionalPath = None
    """Another run of the same two-player zero-sum game, to compute the relative population performance."""
    best_response_steps: int = 0
    """Environment steps of a best response per role, for a lower bound of exploitability; 0 for no bound."""


def report_command(argv: list[str]) -> int:
    """Write the report of a run, print its tables and return the exit code."""
    from league.analysis.compare import compare_runs
    from league.analysis.report_tables import format_report
    from league.report import build_report

    args = parse(ReportOptions, "league report", argv)
    if args.output_dir is not None:
        check_folder(args.output_dir)
    if args.opponents is not None:
        RunStore.open(args.opponents, write=False).close()
    with contextlib.closing(args.make_executor()) as executor:
        report = build_report(args.run_dir, args.output_dir, args.best_response_steps, executor=executor)
    print(format_report(report))
    for file in report.files:
        print(f"  {file}")
    if args.opponents is not None:
        with RunStore.open(args.run_dir, write=False) as first, RunStore.open(args.opponents, write=False) as second:
            performance = compare_runs(first, second)
        print(
            f"relative population performance against {args.opponents}, above 0 if this run is stronger: {performance}"
        )
    return 0


@dataclass(frozen=True, kw_only=True)
class LeagueRenderOptions(VideoOptions, RunOptions):
    """Render policies of a league to a video or a picture.

    Example: gpu-envs league render out/kuhn --num-envs 16 --output out/kuhn.mp4
    """

    policy: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="SEAT=NAME")] = ()
    """Policy of a seat, named as in gpu-envs league report; repeatable. Default: the latest of each seat."""


def render_command(argv: list[str]) -> int:
    """Render policies of a run and return the exit code."""
    args = parse(LeagueRenderOptions, "league render", argv)
    check_file(args.output)
    with RunStore.open(args.run_dir, write=False) as store:
        device = str(resolve_device(args.device))
        core, act, words = load_players(store, policy_names(args.policy), args.num_envs, device, args.seed)
    print(f"playing: {words}")
    return render_play(args, core, lambda obs, info: act(obs, info, args.greedy))


def load_players(
    store: RunStore, names: Mapping[str, str], worlds: int, device: str, seed: int
) -> tuple[Core, Callable[..., Tensor], str]:
    """Load policies of a league and make its environment.

    Args:
        store: Store of the run.
        names: Policy name by seat; the latest policy for the other seats.
        worlds: Number of environments, E.
        device: Device of the environments and the policies.
        seed: Random seed of the environments and the actions.

    Returns:
        A core with autoreset "next_step", a function `act(obs, info, greedy=False)` that returns the actions of all
        agents, (E, A) or (E, A, K), and a description of the policies.

    Raises:
        ConfigError: A seat or policy is unknown, or a seat has no policy yet.
        CheckpointError: A policy file is damaged.
    """
    game = store.game
    if unknown := names.keys() - {seat.name for seat in game.seats}:
        seats = ", ".join(seat.name for seat in game.seats)
        raise ConfigError(f"--policy: no seat {min(unknown)!r} in {game.env_id}; there are {seats}")
    core = game.core(worlds, device, seed, autoreset="next_step")
    players: dict[str, PolicyProtocol | None] = {}
    descriptions = []
    for index, seat in enumerate(game.seats):
        stored = store.populations[seat.role]
        if not stored.entries:
            raise ConfigError(f"{store.path}: {seat.role}: no policy yet; wait until the run has trained one")
        population = Population(seat.role, stored.folder, device)  # one per seat: seeds differ
        population.replace(stored.entries)
        entry = population.named(names[seat.name]) if seat.name in names else population.entries[-1]
        policy = population.policy(entry.index)
        policy.seed(derive_seed(seed, index))
        players |= dict.fromkeys(seat.members, policy)
        descriptions.append(f"{entry.name} as {seat.name}")
    return core, PolicyRunner(core, players).act, f"{', '.join(descriptions)}, of {store.path}"


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
        kind = league_algorithms.find(store.config.get("algorithm", "")).config_type
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
