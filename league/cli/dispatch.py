"""The subcommands `gpu-envs league train`, `resume` and `report`; `render` stands in a file of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from gpu_envs.commands import settings
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.id_modules import import_option
from gpu_envs.paths import check_folder
from gpu_envs.registry import spelled
from league import algorithms, executors, presets
from league.executors import Executor
from league.game import Game
from league.live import LiveTable, table
from league.psro import PSROConfig
from league.render import render
from league.run import SUMMARY, configuration, discard, opened, training, write_summary
from league.store import Store
from trainers.arguments import Positional, UseAppendAction, given, parse

USAGE = """usage: gpu-envs league COMMAND ...

Grow populations of policies that play against each other.

  gpu-envs league train ID --algorithm psro --run-dir DIR    grow populations of policies
  gpu-envs league resume DIR                                  go on with a run that ended, or was killed
  gpu-envs league report DIR                                  measures and pictures of a run
  gpu-envs league render DIR                                  a video of its policies at play

example: gpu-envs league train KuhnPoker-v0 --algorithm psro"""
"""What `gpu-envs league --help` says."""


@dataclass(frozen=True, kw_only=True)
class Where:
    """Who does the work; the run comes out the same."""

    executor: str = "local"
    """local: this process; process: others of this machine; ray: the workers of a Ray cluster."""
    workers: int | None = None
    """Of "process": how many; one per core, if not given."""
    cluster: str | None = None
    """Of "ray": its address; that of RAY_ADDRESS, or the one on this machine, if not given."""
    gpus_per_learner: float | None = None
    """Of "ray": what a learner has of a GPU; computed from the cluster, if not given."""
    threads: int = 1
    """Threads of torch in this process and in each worker. Sums of floats depend on their number, and so does the run;
    raise it for networks so large that several cores speed them up."""

    def made(self) -> Executor:
        """Return the executor; raise ConfigError if there is none of this name."""
        if self.threads < 1:
            raise ConfigError(f"--threads {self.threads}: expected at least 1")
        if self.executor not in EXECUTORS:
            raise ConfigError(f"--executor {self.executor}: expected one of {', '.join(EXECUTORS)}")
        for name, owner in (("workers", "process"), ("gpus_per_learner", "ray"), ("cluster", "ray")):
            if getattr(self, name) is not None and self.executor != owner:
                option = name.replace("_", "-")
                raise ConfigError(f"--{option}: has no effect on --executor {self.executor}, only on {owner}")
        if self.executor == "ray":
            return executors.RayExecutor(self.cluster or "auto", self.gpus_per_learner, self.threads)
        return (
            executors.ProcessExecutor(self.workers, self.threads)
            if self.executor == "process"
            else executors.LocalExecutor()
        )

    def words(self) -> str:
        """Return the options that are not as by default, as they are typed."""
        given = [(field.name, getattr(self, field.name)) for field in fields(Where)]
        changed = [(name, value) for name, value in given if value != getattr(Where, name)]
        return "".join(f" --{name.replace('_', '-')} {value}" for name, value in changed)


EXECUTORS = ("local", "process", "ray")  # values of --executor


@dataclass(frozen=True)
class TrainArgs:
    """Grow populations of policies that play against each other.

    Example: gpu-envs league train KuhnPoker-v0 --algorithm psro --iterations 10 --run-dir out/kuhn
    """

    id: Positional[str] = ""
    """Environment, such as KuhnPoker-v0; it has to declare roles."""
    algorithm: str = "psro"
    """psro, alphastar, self_play, fictitious, pfsp, pbt or independent; the other options are its settings."""
    run_dir: Path | None = None
    """Folder of the run; out/league-<id>-<time> if not given. A run that is there already goes on."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment; repeat it for more."""
    shared: bool | None = None
    """One population for all seats, whose policies play all of them; where the game is symmetric, if not given."""


@dataclass(frozen=True)
class ResumeArgs(Where):
    """Go on with a run, with the settings that it began with.

    Example: gpu-envs league resume out/kuhn --iterations 20
    """

    run_dir: Positional[Path]
    """Its folder."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
    iterations: int | None = None
    """Make it longer: its iterations in all."""
    device: str | None = None
    """Where it goes on; where it began, if not given."""


@dataclass(frozen=True)
class ReportArgs(Where):
    """Measures and pictures of a run, which may still be going on.

    Example: gpu-envs league report out/kuhn --out out/kuhn-report
    """

    run_dir: Positional[Path]
    """Its folder."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
    out: Path | None = None
    """Folder for report.html, report.json and the pictures; report/ in the run's folder if not given."""
    against: Path | None = None
    """Another run of the same game: the relative performance of the two, in games of two seats that sum to 0."""
    exploit_steps: int = 0
    """Steps of worlds per learned best response, for a lower bound of the exploitability where the game is too large
    to know it; 0: none."""


def league_command(argv: list[str]) -> int:
    """Grow populations of policies against each other, go on with them, report on them, see them play.

    `gpu-envs league COMMAND ...` returns 0, or 130 when it was interrupted.
    """
    commands: dict[str, Callable[[list[str]], int]] = {
        "train": train,
        "resume": resume,
        "report": report,
        "render": render,
    }
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if argv else 2
    if argv[0] not in commands:
        raise ConfigError(f"league: no command named {argv[0]!r}; there are {', '.join(commands)}")
    return commands[argv[0]](argv[1:])


def train(argv: list[str]) -> int:
    """`gpu-envs league train ID ...`."""
    name = given(argv, "--algorithm") or "psro"
    algorithm = algorithms.find(name)
    kind, words = options(name), [word for word in argv if word not in ("-h", "--help")]
    first: Any = parse(kind, "league train", words)  # for the environment, which decides about defaults
    if not first.id:
        parse(kind, "league train", argv)  # --help ends here
        raise ConfigError("league train: expected an environment, got none; name one, such as KuhnPoker-v0")
    env_id = spelled(first.id)
    usual = presets.psro(env_id) if algorithm.config_type is PSROConfig else {}
    args: Any = parse(kind, "league train", argv, kind(id=env_id, **usual))
    game = Game.of(env_id, settings(args.env), args.shared)
    values = {field.name: getattr(args, field.name) for field in dataclasses.fields(algorithm.config_type)}
    values |= {name: settings(values[name], f"--{name}") for name in pairs(algorithm.config_type)}
    config = algorithm.config_type(**{**values, "device": args.device or "cpu"})  # what is wrong is said at once
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = args.run_dir or Path("out") / f"league-{env_id.rpartition(':')[2]}-{stamp}"
    asked = args.device
    if asked is None and Store.begun(path):  # what the run began on, whatever is there now
        with Store.open(path, write=False) as store:
            asked = store.config.get("device")
    with contextlib.closing(args.made()) as executor:
        config = dataclasses.replace(config, device=executor.device(asked))
        training(game, config.device, config.train)  # before there is a folder
        with opened(path, game, name, config) as store:
            try:
                run, live = _begin(store, name, config, executor)
            except GpuEnvsError:
                if not store.tasks():  # what is wrong is said before there is anything; the folder is free again
                    discard(store)
                raise
            return _go_on(store, run, live, args)


def resume(argv: list[str]) -> int:
    """`gpu-envs league resume DIR ...`."""
    args = parse(ResumeArgs, "league resume", argv)
    with Store.open(args.run_dir) as store:
        name = store.config.get("algorithm", "")
        config = configuration(store, algorithms.find(name).config_type)
        with contextlib.closing(args.made()) as executor:
            changes = {"iterations": args.iterations, "device": args.device and executor.device(args.device)}
            config = dataclasses.replace(config, **{key: value for key, value in changes.items() if value is not None})
            return _go_on(store, *_begin(store, name, config, executor), args)


def report(argv: list[str]) -> int:
    """`gpu-envs league report DIR ...`."""
    from league.compare import compare
    from league.report import report as make

    args = parse(ReportArgs, "league report", argv)
    if args.out is not None:
        check_folder(args.out)
    if args.against is not None:
        Store.open(args.against, write=False).close()
    with contextlib.closing(args.made()) as executor:
        found = make(args.run_dir, args.out, args.exploit_steps, executor=executor)
    print(found.text())
    for file in found.files:
        print(f"  {file}")
    if args.against is not None:
        with Store.open(args.run_dir, write=False) as first, Store.open(args.against, write=False) as second:
            told = compare(first, second)
        print(f"relative population performance against {args.against}, above 0 if this run is stronger: {told}")
    return 0


def _begin(store: Store, name: str, config: Any, executor: Executor) -> tuple[algorithms.Run, LiveTable]:
    """A run and the table that it shows."""
    live = LiveTable(store, config.iterations)
    return algorithms.find(name).make(store, config, live, executor), live


def _go_on(store: Store, run: algorithms.Run, live: LiveTable, executor: Where) -> int:
    """Runs what is left, under a live table, and prints what came of it."""
    import torch

    torch.set_num_threads(executor.threads)
    where = executor.words()
    name, device, option = store.config["algorithm"], store.config["device"], import_option(store.game.env_id)
    told = f"{name} on {store.game.env_id}: populations of {', '.join(store.game.roles)}"
    print(f"{told}, on {device}{f' ({where.strip()})' if where else ''}, {store.path}/", flush=True)
    began = time.perf_counter()
    try:
        with live:
            rows = run.run()
    except KeyboardInterrupt:
        print(f"interrupted; continue with: gpu-envs league resume {store.path}{where}{option}", file=sys.stderr)
        return 130
    write_summary(store)
    print(table(rows))
    print(f"{len(rows) - 1} iterations, {time.perf_counter() - began:.1f} s in this process")
    for file in (store.path / SUMMARY, store.file):
        print(f"  {file}")
    print(f"  gpu-envs league report {store.path}{option}")
    print(f"  gpu-envs watch {store.path}{option}")
    return 0


@functools.cache
def options(algorithm: str) -> type[Any]:
    """The options of `train` with the settings of an algorithm.

    They are checked after parsing: an error is one line then, and not a box of tyro's.
    """
    settings_type = algorithms.find(algorithm).config_type
    fields: list[Any] = [
        (name, UseAppendAction[tuple[str, ...]], dataclasses.field(default=())) for name in pairs(settings_type)
    ]
    fields.append(("device", str | None, dataclasses.field(default=None)))
    return dataclasses.make_dataclass(
        "TrainArgs",
        fields,
        bases=(_bare(settings_type), Where, TrainArgs),
        namespace={"__doc__": TrainArgs.__doc__},
        frozen=True,
    )


def pairs(kind: type[Any]) -> list[str]:
    """Settings that are given as NAME=VALUE."""
    return [name for name, hint in get_type_hints(kind).items() if getattr(hint, "__origin__", None) is dict]


@functools.cache
def _bare(kind: type[Any]) -> type[Any]:
    """Settings without their check."""
    return type(kind.__name__, (kind,), {"__post_init__": lambda self: None})
