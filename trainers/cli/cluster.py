"""The subcommand `gpu-envs tune`."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

from gpu_envs.commands import settings
from gpu_envs.errors import ConfigError
from gpu_envs.id_modules import import_option
from gpu_envs.registry import spelled
from trainers import algorithms
from trainers.arguments import Positional, UseAppendAction, device_of_cluster, parse
from trainers.cluster import search_space
from trainers.cluster.connect import ray_library
from trainers.cluster.tune import RESULTS, WHO, Plan, Tuned, resume, tune
from trainers.config import changed
from trainers.presets import preset

FREE = (
    "num_envs", "seed", "sharing", "eval_episodes", "eval_against", "patience", "deterministic", "threads", "capture",
)  # fmt: skip
"""Fields of TrainConfig that --train can set."""


@dataclass(frozen=True)
class TuneArgs:
    """Search for settings of a training with Ray Tune.

    Example: gpu-envs tune SimpleSpread-v0 --search "learner.learning_rate=loguniform(1e-4,1e-2)"
    --search "learner.entropy=choice(0,0.01,0.02)" --scheduler asha --samples 16 --total-steps 200000
    """

    id: Positional[str] = ""
    """Environment, such as SimpleSpread-v0; not needed with --resume."""
    search: UseAppendAction[tuple[str, ...]] = ()
    """NAME=SPACE, what a setting may be, in quotes; repeat it for more. NAME: learner.NAME as of gpu-envs train, or
    num_envs, seed, sharing. SPACE: loguniform(a,b), uniform(a,b), randint(a,b) with b too, choice(x,y,...), or
    grid(x,y,...), each of which is tried --samples times. Values: numbers, words, JSON such as [64,64]."""
    algorithm: str = "ppo"
    """Of the learners: see docs/guides/algorithms.md."""
    scheduler: str = "asha"
    """asha: bad trials end early; pbt: they copy good ones, and go on with changed settings; none."""
    samples: int = 16
    """Trials; with pbt the size of the population."""
    total_steps: int | None = None
    """Steps of worlds per trial; the preset's, if not given."""
    metric: str = "eval/score"
    """Column of metrics.csv by which trials are compared; by default what evaluations give."""
    mode: str = "max"
    """Whether more of it is better, max, or less, min."""
    interval: int | None = None
    """Steps between two evaluations and checkpoints of a trial; a twentieth of all, if not given."""
    grace: int | None = None
    """asha: steps before which no trial is ended; a ninth of all, if not given."""
    reduction: int = 3
    """asha: one of so many trials goes on at each rung, at grace, grace * reduction, ... steps."""
    perturb: int | None = None
    """pbt: steps between two copies; a tenth of all, if not given."""
    cpus: float | None = None
    """CPUs of a trial; computed from the cluster, if not given."""
    gpus: float | None = None
    """GPUs of a trial, such as 0.5; computed from the cluster, if not given."""
    device: str | None = None
    """"cpu" or "cuda"; cuda if there is one here."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment; repeat it for more."""
    train: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of all trials, as num_envs=128 or learner.gamma=0.95; repeat it for more."""
    address: str | None = None
    """Of a Ray cluster: "auto", or "HOST:PORT"; if not given RAY_ADDRESS, else this machine alone."""
    run_dir: Path | None = None
    """Folder of the search, which all machines see; out/tune-<id>-<time> if not given."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
    resume: Path | None = None
    """Folder of a search to continue with its recorded settings; trials that ended are not run again."""
    allow_pickle: bool = False
    """With --resume: let Ray Tune read its own files in the folder. They are pickles, which run code when they are
    read; set it only for a folder that no one else could write to."""


def tune_command(argv: list[str]) -> int:
    """Search for settings of a training with Ray Tune.

    `gpu-envs tune ID --search NAME=SPACE ...` returns 0, or 130 when it was interrupted.
    """
    args = parse(TuneArgs, "tune", argv)
    if args.resume is not None:
        own = {name: getattr(args, name) for name in ("resume", "address", "allow_import", "allow_pickle")}
        if args != dataclasses.replace(TuneArgs(), **own):
            raise ConfigError(
                "tune: --resume goes on as the search was told; only --address, --allow-import and --allow-pickle can "
                "be given with it"
            )
        ray_library(WHO)
        found = resume(args.resume, args.address, args.allow_pickle)
    else:
        found = _search(args)
    print(f"{found.table()}\n{found.command}")
    for file in (found.run_dir / RESULTS, found.checkpoint):
        print(f"  {file}")
    if not found.complete:
        option = import_option(found.config.env_id)
        print(f"interrupted; go on with: gpu-envs tune --resume {found.run_dir} --allow-pickle{option}")
        return 130
    return 0


def _search(args: TuneArgs) -> Tuned:
    if not args.id:
        raise ConfigError("tune: expected an environment, got none; name one, such as SimpleSpread-v0, or --resume DIR")
    given = {field.name: getattr(args, field.name) for field in dataclasses.fields(Plan)}
    plan, spaces = Plan(**given), search_space.parse_all(args.search)
    algorithms.find(args.algorithm).check_plays()
    env_id = spelled(args.id)
    device = device_of_cluster(args.device)
    usual = preset(env_id, device, args.algorithm)
    steps = {} if args.total_steps is None else {"total_steps": args.total_steps}
    base = dataclasses.replace(usual, device=device, env={**usual.env, **settings(args.env)}, **steps)
    config = changed(base, settings(args.train, "--train"), "--train", FREE)
    search_space.check(config, spaces)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    run_dir = args.run_dir or Path("out") / f"tune-{env_id.rpartition(':')[2]}-{stamp}"
    return tune(config, spaces, run_dir, plan, args.address, progress=True)
