"""The commands `gpu-envs league train` and `gpu-envs league resume`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from tyro.conf import Positional, arg

from gpu_envs.cli.options import (
    Names,
    OptionalInt,
    OptionalPath,
    OptionalStr,
    Repeated,
    parse,
    parse_pairs,
    split_command_line,
    without_validation,
)
from gpu_envs.definition.registry import canonical_id
from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.utils.settings import setting
from league import league_algorithms
from league.cli.live_table import LiveTable
from league.cli.options import RunOptions, TrainingOptions
from league.cli.run_output import run_league
from league.game import Game
from league.psro.config import PSROConfig
from league.storage import presets
from league.storage.iteration_log import IterationLog
from league.storage.open_run import delete_empty_run, open_run
from league.storage.run_config import OVERRIDES, configuration, training
from league.storage.run_store import RunStore
from trainers.cli.config_file import TYPED_ONLY, ConfigFile, ConfigFileOptions, allow_named_modules, env_settings
from trainers.cli.options import recorded_path
from trainers.storage.config_yaml import CONFIG_FILE, format_config, read_config, write_config


@dataclass(frozen=True, kw_only=True)
class LeagueTrainOptions(ConfigFileOptions, TrainingOptions):
    """Train populations of policies that play against each other.

    The other options are the settings of the algorithm: name it to see them, as in
    gpu-envs league train --algorithm alphastar --help-all

    Example: gpu-envs league train KuhnPoker-v0 --algorithm psro --iterations 10 --run-dir out/kuhn
    """

    FIRST_OPTIONS = (
        "env_id", "algorithm", "iterations", "steps", "meta_solver", "oracle", "response_init", "variant", "roles",
        "episodes_per_matchup", "asynchronous", "train_overrides", "init_from", "seed", "device", "executor",
        "num_workers", "logger", "config", "env_arg", "run_dir",
    )  # fmt: skip

    env_id: Annotated[Positional[str], arg(metavar="[ID]", help_behavior_hint="")] = ""
    """Environment id, such as KuhnPoker-v0. The environment must declare roles."""
    algorithm: str = "psro"
    """League algorithm: psro, alphastar, self_play, fictitious_self_play, pfsp, pbt or independent.
    "module:NAME" is a builder of your own."""
    run_dir: OptionalPath = None
    """Folder of the run. A run in this folder is continued. Default: out/league-<id>-<time>."""
    env_arg: Repeated = ()
    """Environment setting, such as num_players=3. Repeat the option for several settings."""
    roles: Repeated = ()
    """A role and its groups or agents, such as even=agent_0,agent_2. Repeat the option until every agent has a role.
    "/" divides a role into several seats, whose policies are of one population: hunter=agent_0/agent_1,agent_2.
    Default: the roles that the environment declares."""
    init_from: OptionalStr = None
    """Run, checkpoint or zoo:NAME whose policies new learners begin with, by role; a single policy is for all
    roles. Exploiters return to them. The same as --train-overrides init_from=..."""
    shared_population: bool | None = None
    """Use one population for all seats. None: only if the game is symmetric."""


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(TrainingOptions, RunOptions):
    """Continue a league with its recorded settings.

    Example: gpu-envs league resume out/kuhn --iterations 20
    """

    iterations: OptionalInt = None
    """Total number of iterations, to extend the run. Default: the recorded number."""
    device: OptionalStr = None
    """Device: "cpu", "cuda" or "cuda:<i>". Default: the recorded device."""


def train_command(argv: list[str]) -> int:
    """Train populations of policies and return the exit code; 130 after an interruption."""
    file = ConfigFile.of("league train", LeagueTrainOptions, argv)
    words = split_command_line(LeagueTrainOptions, argv)
    allow_named_modules(LeagueTrainOptions, argv)
    name = words.last("algorithm") or file.get("algorithm") or "psro"
    algorithm = league_algorithms.find(name)
    kind = _options(name)
    allow_named_modules(kind, argv)  # of the algorithm's settings, too
    words = file.merge(kind, argv)
    if not words.positional:
        file.parse(kind, words)  # prints the help, or raises an error about another option
        raise ConfigError("league train: expected an environment, got none; name one, such as KuhnPoker-v0")
    env_id = canonical_id(words.positional)
    defaults = presets.psro_preset(env_id) if algorithm.config_type is PSROConfig else {}
    args: Any = file.parse(kind, words, kind(**defaults))
    game = Game.of(env_id, parse_pairs(args.env_arg), args.shared_population, roles=_roles(args))
    values = {field.name: getattr(args, field.name) for field in dataclasses.fields(algorithm.config_type)}
    values |= {option: parse_pairs(values[option], f"--{option}") for option in _pair_fields(algorithm.config_type)}
    if args.init_from is not None:
        values["train_overrides"] = {**values["train_overrides"], "init_from": recorded_path(args.init_from)}
    config = algorithm.config_type(**{**values, "device": args.device or "cpu"})  # validates before any work
    if args.print_config:
        print(format_config(_all_settings(game, config, args)), end="")
        return 0
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = args.run_dir or Path("out") / f"league-{env_id.rpartition(':')[2].replace('/', '-')}-{stamp}"
    device = args.device
    if device is None and RunStore.run_exists(path):  # a run keeps its device
        with RunStore.open(path, write=False) as store:
            device = store.config.get("device")
    with contextlib.closing(args.make_executor()) as executor:
        config = dataclasses.replace(config, device=executor.device(device))
        training(game, config.device, config.train_overrides)  # raises an error before there is a folder
        with open_run(path, game, name, config) as store:
            write_config(path, "league train", _settings(game, config, args))
            live = LiveTable(store, config.iterations)
            try:
                log = IterationLog(store, args.logger, live)
                run = algorithm.make(store, config, log, executor)
            except GpuEnvsError:
                if not store.tasks():  # nothing was computed: leave no folder
                    delete_empty_run(store)
                raise
            with log:
                return run_league(run, store, args, live, executor, config.device)


def resume_command(argv: list[str]) -> int:
    """Continue a run and return the exit code; 130 after an interruption."""
    allow_named_modules(ResumeOptions, argv)
    args = parse(ResumeOptions, "league resume", argv)
    with RunStore.open(args.run_dir) as store:
        algorithm = league_algorithms.find(store.config.get("algorithm", ""))
        config = configuration(store, algorithm.config_type)
        with contextlib.closing(args.make_executor()) as executor:
            changes = {"iterations": args.iterations, "device": args.device and executor.device(args.device)}
            config = dataclasses.replace(config, **{key: value for key, value in changes.items() if value is not None})
            live = LiveTable(store, config.iterations)
            log = IterationLog(store, args.logger, live)
            run = algorithm.make(store, config, log, executor)
            if (args.run_dir / CONFIG_FILE).exists():  # not of a run that a program started
                recorded = read_config(args.run_dir / CONFIG_FILE)
                write_config(args.run_dir, "league train", {**recorded, "iterations": config.iterations})
            with log:
                return run_league(run, store, args, live, executor, config.device)


def _roles(args: LeagueTrainOptions) -> dict[str, tuple[Any, ...]]:
    """Return the members of each role of --roles, or of each of its seats; {} without the option."""
    roles = {}
    for role, members in parse_pairs(args.roles, "--roles").items():
        if isinstance(members, str):
            seats = [tuple(seat.split(",")) for seat in members.split("/")]
            members = seats[0] if len(seats) == 1 else seats
        if not isinstance(members, list | tuple) or not all(
            isinstance(member, str | list | tuple) for member in members
        ):
            raise ConfigError(f"--roles {role}={members}: expected groups or agents, such as {role}=agent_0,agent_2")
        roles[role] = tuple(members)
    return roles


def _settings(game: Game, config: Any, args: LeagueTrainOptions) -> dict[str, Any]:
    """Return the settings of a run that its result depends on, as in a configuration file."""
    settings = {name: getattr(args, name) for name in ("algorithm", "shared_population", "num_threads")}
    if args.roles:
        settings["roles"] = {
            role: [member if isinstance(member, str) else list(member) for member in members]
            for role, members in _roles(args).items()
        }
    return {"env_id": game.env_id, "env": dict(game.env), **settings, **dataclasses.asdict(config)}


def _all_settings(game: Game, config: Any, args: LeagueTrainOptions) -> dict[str, Any]:
    """Return all settings of a run, including the environment's and the trainings' with their defaults."""
    train = training(game, config.device, config.train_overrides)
    fields = {name: getattr(train, name) for name in OVERRIDES if name != "total_steps"}
    if isinstance(config, PSROConfig) or "total_steps" in config.train_overrides:  # see LeagueConfig.train_overrides
        fields["total_steps"] = train.total_steps
    overrides = {**fields, "learner": dataclasses.asdict(train.learner)}
    names = [field.name for field in dataclasses.fields(TrainingOptions) if field.name not in (*TYPED_ONLY, "logger")]
    optional = [name for name in ("logger", "run_dir") if getattr(args, name)]
    more = {name: getattr(args, name) for name in (*names, *optional)}
    env = env_settings(game.env_id, game.env)
    return {**_settings(game, config, args), "env": env, **more, "train_overrides": overrides}


@functools.cache
def _options(algorithm: str) -> type[Any]:
    """Return the options of `gpu-envs league train` with the settings of an algorithm."""
    config_type = league_algorithms.find(algorithm).config_type
    fields: list[Any] = [(name, Repeated, dataclasses.field(default=())) for name in _pair_fields(config_type)]
    fields += [("device", OptionalStr, dataclasses.field(default=None)), ("callback", Names, setting((), by_name=True))]
    return dataclasses.make_dataclass(
        LeagueTrainOptions.__name__,
        fields,
        bases=(without_validation(config_type), LeagueTrainOptions),
        namespace={"__doc__": LeagueTrainOptions.__doc__},
        frozen=True,
        kw_only=True,
    )


def _pair_fields(config_type: type[Any]) -> list[str]:
    """Return the settings that are given as NAME=VALUE."""
    return [name for name, hint in get_type_hints(config_type).items() if get_origin(hint) is dict]
