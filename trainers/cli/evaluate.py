"""The command `gpu-envs eval`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_envs.cli.options import DeviceOptions, Names, OptionalPath, Repeated, parse, parse_pairs
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.paths import check_file
from gpu_envs.utils.settings import setting
from gpu_envs.utils.terminal import terminal_width
from trainers.base.learner_spec import ENGINES
from trainers.base.random_streams import SEEDS
from trainers.base.serialization import write_json
from trainers.cli.config_file import allow_named_modules
from trainers.cli.options import SavedPolicyOptions, check_id
from trainers.config.train_config import TrainConfig, make_eval_core
from trainers.evaluation.cross_play import Results, as_json, play, runs_as_json, table, table_of_runs
from trainers.evaluation.policy_evaluation import (
    EpisodeMetric,
    by_member,
    find_metrics,
    load_opponents,
    trained_policies,
)
from trainers.evaluation.scripted_policies import SCRIPTED, scripted_policies_of
from trainers.models.policy_set import Players
from trainers.runner.training_evaluator import FINAL_SEED
from trainers.storage import checkpoint
from trainers.storage.run_folder import run_kind, runs_to_play


@dataclass(frozen=True, kw_only=True)
class EvalOptions(DeviceOptions, SavedPolicyOptions):
    """Evaluate trained policies against random policies and, if given, against other opponents.

    Print one row per matchup with the mean return of each group and its 95 % confidence interval. For the folder of
    several seeds, print a row per run and the mean over the runs.

    Example: gpu-envs eval out/mine --opponents out/other --episodes 1000
    """

    opponents: OptionalPath = None
    """Opponents in addition to random policies: a run or checkpoint of the same environment, or "scripted"."""
    env_arg: Repeated = ()
    """Environment setting that replaces the recorded one. Repeat the option for several settings."""
    episodes: int = setting(256, ge=2)
    """Number of episodes per matchup. All are played at once, one per environment."""
    seed: int = setting(FINAL_SEED, ge=0, lt=SEEDS)
    """Random seed of the environments and the actions."""
    metric: Names = setting((), by_name=True)
    """Measure that adds a column: a function from `trainers.FinishedEpisodes` to one number per episode (E,). Repeat
    the option for several."""
    greedy: bool = False
    """Take the most probable action of each policy instead of a sample."""
    engine: str = setting("auto", choices=ENGINES)
    """Engine of the matchups: "kernel" plays inside the kernels if all policies are dense networks or random, "torch"
    never. "auto" uses kernels if so many episodes are worth the compilation."""
    output: OptionalPath = None
    """JSON file to write the results to. Default: none."""


def eval_command(argv: list[str]) -> int:
    """Evaluate policies against random, scripted or trained opponents."""
    allow_named_modules(EvalOptions, argv)
    args = parse(EvalOptions, "eval", argv)
    metrics = find_metrics(args.metric)
    if args.output is not None:
        check_file(args.output)
    if run_kind(args.path) != "multi-seed":
        results = _play(args, args.path, metrics)
        print(table(results, terminal_width(sys.stdout)))
        answer = as_json(results)
    else:
        runs = {path.name: _play(args, path, metrics) for path in runs_to_play(args.path)}
        print(table_of_runs(runs, terminal_width(sys.stdout)))
        answer = runs_as_json(runs)
    if args.output is not None:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.output, answer)
    return 0


def _play(args: EvalOptions, path: Path, metrics: Mapping[str, EpisodeMetric]) -> Results:
    """Play the matchups of the policies of a run, after a line about each checkpoint."""
    saved = checkpoint.load(path)
    config = TrainConfig.of(saved)
    check_id(saved.path / "manifest.json", config.env_id, args.env_id)
    env = config.env | parse_pairs(
        args.env_arg, options={"num_envs": "--episodes", "seed": "--seed", "device": "--device"}
    )
    config = dataclasses.replace(config, env=env, device=str(resolve_device(args.device)))
    config.apply_num_threads()
    core = make_eval_core(config, args.episodes, args.seed)
    sides, trained = trained_policies(saved, config, core)
    lines = [f"trained: {saved.path} (step {saved.steps:,})"]
    opponent_players: Players | None = None
    if args.opponents == Path(SCRIPTED):
        opponent_players = scripted_policies_of(core, sides)
        lines.append("other: scripted")
    elif args.opponents is not None:
        opponent, policies = load_opponents(args.opponents, config.env_id, sides, core)
        opponent_players = by_member(sides, policies)
        lines.append(f"other: {opponent.path} (step {opponent.steps:,})")
    print("\n".join(lines))
    return play(core, sides, trained, opponent_players, args.seed, args.greedy, args.engine, metrics)
