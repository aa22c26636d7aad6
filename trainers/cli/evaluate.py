"""The command `gpu-envs eval`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from gpu_envs.cli.options import DeviceOptions, OptionalPath, Repeated, parse, parse_pairs
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.paths import check_file
from gpu_envs.utils.settings import setting
from trainers.algorithms import registry
from trainers.base.learner_spec import ENGINES
from trainers.base.seeding import SEEDS
from trainers.base.serialization import write_json
from trainers.cli.options import FINAL_SEED, SavedPolicyOptions, check_id
from trainers.config.train_config import TrainConfig, make_eval_core, members_by_policy
from trainers.evaluation.cross_play import as_json, play_and_print
from trainers.evaluation.policy_evaluation import by_member, load_opponents, policies_of
from trainers.evaluation.policy_runner import Players
from trainers.evaluation.scripted_policies import SCRIPTED, scripted_policies_of
from trainers.storage import checkpoint

__all__ = ["EvalOptions", "eval_command"]


@dataclass(frozen=True, kw_only=True)
class EvalOptions(DeviceOptions, SavedPolicyOptions):
    """Evaluate trained policies against random policies and, if given, against other opponents.

    Print one row per matchup with the mean return of each group and its 95 % confidence interval.

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
    greedy: bool = False
    """Take the most probable action of each policy instead of a sample."""
    engine: str = setting("auto", choices=ENGINES)
    """Engine of the matchups: "kernel" plays inside the kernels if all policies are dense networks or random, "torch"
    never. "auto" uses kernels if so many episodes are worth the compilation."""
    output: OptionalPath = None
    """JSON file to write the results to. Default: none."""


def eval_command(argv: list[str]) -> int:
    """Evaluate policies against random, scripted or trained opponents."""
    args = parse(EvalOptions, "eval", argv)
    if args.output is not None:
        check_file(args.output)
    saved = checkpoint.load(args.path)
    config = TrainConfig.of(saved)
    check_id(saved, config.env_id, args.env_id)
    env = config.env | parse_pairs(
        args.env_arg, options={"num_envs": "--episodes", "seed": "--seed", "device": "--device"}
    )
    config = dataclasses.replace(config, env=env, device=str(resolve_device(args.device)))
    config.apply_num_threads()
    core = make_eval_core(config, args.episodes, args.seed)
    sides = members_by_policy(config, core)
    if registry.find(config.algorithm).is_imitation:  # it may hold the policies of some groups only
        sides = {name: members for name, members in sides.items() if name in saved.policies}
    trained = policies_of(saved, sides, core)
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
    results = play_and_print(core, sides, trained, opponent_players, args.seed, args.greedy, args.engine)
    if args.output is not None:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.output, as_json(results))
    return 0
