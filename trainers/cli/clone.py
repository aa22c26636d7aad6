"""The command `gpu-envs clone`: behavior cloning of recorded, trained or scripted policies."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from gpu_envs.cli.options import (
    DeviceOptions,
    ImportOptions,
    OptionalPath,
    OptionalStr,
    Repeated,
    parse,
    parse_pairs,
    split_command_line,
)
from gpu_envs.definition.id_modules import import_words
from gpu_envs.definition.registry import canonical_id
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.progress import ProgressBar
from gpu_envs.utils.settings import setting
from gpu_envs.utils.terminal import shell_command
from trainers.algorithms.imitation.behavior_cloning import BCConfig, clone
from trainers.base.agent_group import make_agent_group
from trainers.base.random_streams import SEEDS, derive_seed
from trainers.cli.options import check_id, with_learner
from trainers.config.train_config import TrainConfig, make_train_core, members_by_policy
from trainers.evaluation.policy_evaluation import by_member, policies_of, record_policies
from trainers.evaluation.scripted_policies import SCRIPTED, scripted_policies_of
from trainers.models.policy import Policy
from trainers.models.policy_set import Players
from trainers.storage import checkpoint, recording_files, run_folder
from trainers.storage.checkpoint import Checkpoint
from trainers.storage.recording_files import Recording


@dataclass(frozen=True, kw_only=True)
class CloneOptions(ImportOptions, DeviceOptions):
    """Train policies to imitate recorded, trained or scripted ones by behavior cloning.

    Example: gpu-envs clone scripted --env-id SimpleTag-v0 --episodes 512
    """

    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """Recorded episodes (a folder), a run or checkpoint to play and record, or "scripted" for scripted policies."""
    policy: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="POLICY")] = ()
    """Policy to clone, usually the name of a group. Repeat the option for several. Default: all policies."""
    env_id: OptionalStr = None
    """Environment id. Required for "scripted"; otherwise the id that the source must have."""
    env_arg: Repeated = ()
    """Environment setting for "scripted", such as num_good=2. Repeat the option for several settings."""
    episodes: int = setting(256, ge=2)
    """Number of episodes to play and record. All are played at once, one per environment."""
    greedy: bool = False
    """Record the most probable action of each policy instead of a sample."""
    seed: int = setting(0, ge=0, lt=SEEDS)
    """Random seed of the environments, the initial weights and the minibatches."""
    run_dir: OptionalPath = None
    """Folder of the cloned run. Its folder episodes/ holds the recorded episodes. Default: out/<id>-<time>."""
    learner: Any = None
    """Settings of behavior cloning."""


def clone_command(argv: list[str]) -> int:
    """Train policies to imitate recorded, trained or scripted ones."""
    kind = with_learner(CloneOptions, "bc")
    args = parse(kind, "clone", split_command_line(kind, argv).argv)
    out = run_folder.resolve_run_dir(args.run_dir, None)
    config, source = _read_source(args)
    if out is not None and not isinstance(source, Recording):
        recording_files.check_new(out / "episodes")
    core = make_train_core(config, config.num_envs, config.seed)
    sides = members_by_policy(config, core)
    for name in args.policy:
        if name not in sides:
            raise ConfigError(f"--policy: expected one of {', '.join(sides)}, got {name}")
    players: Players = {}
    episodes: list[Episode] = []
    if isinstance(source, Recording):
        source.check_core(core)
        episodes = source.episodes
    elif source is None:
        players = scripted_policies_of(core, sides)
    else:  # all policies play, also those that are not cloned
        players = by_member(sides, policies_of(source, sides, core))
    out, lock = run_folder.open_folder(out, config.env_id)
    with lock:
        if not isinstance(source, Recording):
            episodes = _record(args, config, core, players, out / "episodes")
        last = _clone({name: sides[name] for name in args.policy or sides}, config, core, episodes, out)
    print(f"  {last}\n  {shell_command('gpu-envs', 'eval', out, *import_words(dataclasses.asdict(config)))}")
    return 0


def _clone(
    sides: Mapping[str, Sequence[str]], config: TrainConfig, core: Core, episodes: Sequence[Episode], out: Path
) -> Path:
    """Train a policy for the groups or agents of each name, and return the folder of their checkpoint."""
    policies: dict[str, Policy] = {}
    passes = 0
    for index, (name, members) in enumerate(sides.items()):
        agents, seed = make_agent_group(core, members), derive_seed(config.seed, index)
        with ProgressBar(config.learner.num_epochs, f"passes, {name}", file=sys.stderr) as progress:
            fit = clone(episodes, agents, config.learner, core.device, seed, progress)
        agreement = "" if math.isnan(fit.agreement) else f", the same action in {fit.agreement:.1%}"
        print(f"{name}: loss {fit.loss:.3f} nats on validation episodes after {fit.epochs} passes{agreement}")
        policies[name], passes = fit.policy, max(passes, fit.epochs)
    steps = sum(len(episode) for episode in episodes)
    return checkpoint.save(out / "checkpoints", passes, steps, dataclasses.asdict(config), {}, policies)


def _read_source(args: CloneOptions) -> tuple[TrainConfig, Recording | Checkpoint | None]:
    """Return the configuration of the clone and its source; None for scripted policies."""
    device, path = str(resolve_device(args.device)), Path(args.source)
    learner = BCConfig(**vars(args.learner))
    new = {"device": device, "seed": args.seed, "num_envs": args.episodes, "algorithm": "bc", "learner": learner}
    if args.source == SCRIPTED:
        if args.env_id is None:
            raise ConfigError(
                "clone scripted: expected an environment, got none; name one, such as --env-id SimpleTag-v0"
            )
        names = {"num_envs": "--episodes", "seed": "--seed", "device": "--device"}
        return TrainConfig(canonical_id(args.env_id), env=parse_pairs(args.env_arg, options=names), **new), None
    if args.env_arg:
        raise ConfigError(f"--env-arg {args.env_arg[0]}: expected only with 'scripted'; {path} has recorded settings")
    if (path / recording_files.STEPS).exists():
        source = recording_files.load(path)
        config = TrainConfig(source.env_id, env=source.env, **{**new, "num_envs": 1})
    else:
        source = checkpoint.load(path)
        config = dataclasses.replace(TrainConfig.of(source), **new)
    check_id(source.path / "manifest.json", config.env_id, args.env_id)
    return config, source


def _record(args: CloneOptions, config: TrainConfig, core: Core, players: Players, to: Path) -> list[Episode]:
    with ProgressBar(core.num_envs, "episodes", file=sys.stderr) as progress:
        episodes, outcome = record_policies(core, players, config.seed, args.greedy, progress)
    recording_files.save(to, episodes, config.env_id, config.env)
    returns = ", ".join(f"{group} {value}" for group, value in outcome.returns.items())
    print(f"recorded {len(episodes)} episodes of {args.source} in {to}: returns {returns}")
    return episodes
