"""The command `gpu-envs tune`."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, UseAppendAction, arg

from gpu_envs.cli.options import (
    OptionalInt,
    OptionalPath,
    OptionalStr,
    Repeated,
    parse_pairs,
)
from gpu_envs.definition.registry import canonical_id
from gpu_envs.errors import ConfigError
from trainers.algorithms import algorithm_specs
from trainers.cli.config_file import ConfigFile, ConfigFileOptions, allow_named_modules, env_settings
from trainers.cli.options import device_of_cluster
from trainers.cluster import search_space
from trainers.cluster.connect import ray_library
from trainers.cluster.search_space import Space
from trainers.cluster.tune_results import COMMAND, RESULTS, resume_command, search_settings
from trainers.cluster.tune_search import resume, tune
from trainers.cluster.tune_trial import TuneConfig
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig, changed
from trainers.storage.config_yaml import CONFIG_FILE, format_config


@dataclass(frozen=True, kw_only=True)
class TuneOptions(ConfigFileOptions, TuneConfig):
    """Search for training settings with Ray Tune.

    Write a search space NAME=SPACE in quotes. NAME is learner.NAME as in gpu-envs train, or num_envs, seed, sharing.
    SPACE is loguniform(a,b), uniform(a,b), randint(a,b), choice(x,y,...) or grid(x,y,...).

    Example: gpu-envs tune SimpleSpread-v0 --search "learner.learning_rate=loguniform(1e-4,1e-2)"
    --search "learner.entropy_coef=choice(0,0.01,0.02)" --scheduler asha --num-samples 16 --total-steps 200000
    """

    env_id: Annotated[Positional[str], arg(metavar="[ID]", help_behavior_hint="")] = ""
    """Environment id, such as SimpleSpread-v0; `gpu-envs list` prints all ids. Not needed with --resume."""
    search: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=SPACE")] = ()
    """Search space of a setting. Repeat the option for several settings."""
    algorithm: str = "ppo"
    """Learning algorithm; docs/guides/algorithms.md lists all."""
    total_steps: OptionalInt = None
    """Environment steps per trial. Default: the preset of the environment."""
    device: OptionalStr = None
    """Device of the trials: "cpu" or "cuda". Default: "cuda" if a GPU is available here, else "cpu"."""
    env_arg: Repeated = ()
    """Environment setting, such as num_good=2. Repeat the option for several settings."""
    train_overrides: Repeated = ()
    """Training setting of all trials, such as num_envs=128 or learner.gamma=0.95. Repeat the option for several."""
    ray_address: OptionalStr = None
    """Ray cluster: "auto", "local" or HOST:PORT. Default: RAY_ADDRESS, else this machine alone."""
    run_dir: OptionalPath = None
    """Folder of the search, which all machines share. Default: out/tune-<id>-<time>."""
    resume: OptionalPath = None
    """Folder of a search to continue with its recorded settings. Finished trials are not repeated."""
    allow_pickle: bool = False
    """Let Ray Tune read its pickle files with --resume. Pickles run code: use only folders that you trust."""

    def __post_init__(self) -> None:
        """Leave validation to the `TuneConfig` that is made of these options."""


def tune_command(argv: list[str]) -> int:
    """Search for training settings with Ray Tune."""
    file = ConfigFile.of("tune", TuneOptions, argv)
    words = file.merge(TuneOptions, argv)
    allow_named_modules(TuneOptions, argv)
    args = file.parse(TuneOptions, words)
    if args.resume is not None:
        allowed = {name: getattr(args, name) for name in ("resume", "ray_address", "allow_import", "allow_pickle")}
        if args != TuneOptions(**allowed):
            raise ConfigError(
                "tune: --resume continues with the recorded settings; only --ray-address, --allow-import and "
                "--allow-pickle can be given with it"
            )
        ray_library(COMMAND)
        result = resume(args.resume, args.ray_address, args.allow_pickle)
    else:
        config, spaces, plan = _search(args)
        if args.print_config:
            run_dir = {} if args.run_dir is None else {"run_dir": args.run_dir}
            env = env_settings(config.env_id, config.env)
            print(format_config({**search_settings(config, spaces, plan), "env": env, **run_dir}), end="")
            return 0
        stamp = time.strftime("%Y%m%d-%H%M%S")
        run_dir = args.run_dir or Path("out") / f"tune-{config.env_id.rpartition(':')[2]}-{stamp}"
        result = tune(config, spaces, run_dir, plan, args.ray_address, progress=True)
    print(f"{result.table()}\n{result.command}")
    for written in (result.run_dir / RESULTS, result.run_dir / CONFIG_FILE, result.checkpoint):
        print(f"  {written}")
    if not result.complete:
        print(f"interrupted; continue with:\n  {resume_command(result.run_dir, result.config)}")
        return 130
    return 0


def _search(args: TuneOptions) -> tuple[TrainConfig, dict[str, Space], TuneConfig]:
    """Return the settings of the trials, the search space, and the settings of the search."""
    if not args.env_id:
        raise ConfigError("tune: expected an environment, got none; name one, such as SimpleSpread-v0, or --resume DIR")
    settings = {field.name: getattr(args, field.name) for field in dataclasses.fields(TuneConfig)}
    plan, spaces = TuneConfig(**settings), search_space.parse_all(args.search)
    algorithm_specs.find(args.algorithm).check_plays()
    env_id = canonical_id(args.env_id)
    device = device_of_cluster(args.device)
    usual = preset(env_id, device, args.algorithm)
    steps = {} if args.total_steps is None else {"total_steps": args.total_steps}
    base = dataclasses.replace(usual, device=device, env={**usual.env, **parse_pairs(args.env_arg)}, **steps)
    overrides = parse_pairs(args.train_overrides, "--train-overrides")
    config = changed(base, overrides, "--train-overrides", search_space.ALLOWED_OVERRIDES)
    search_space.check(config, spaces)
    return config, spaces, plan
