"""The subcommand `gpu-envs clone`: policies that do as recorded, trained or scripted ones did."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional, UseAppendAction

from gpu_envs.commands import settings
from gpu_envs.core import Core
from gpu_envs.errors import ConfigError
from gpu_envs.factory import resolve_device
from gpu_envs.id_modules import import_option
from gpu_envs.progress import ProgressBar
from gpu_envs.recording import Episode
from gpu_envs.registry import spelled
from trainers import checkpoint, recordings, runs
from trainers.agents import agents_of
from trainers.arguments import check_id, parse, with_learner
from trainers.bc import BCConfig, clone
from trainers.checkpoint import Checkpoint
from trainers.config import TrainConfig, make_core, members_by_policy
from trainers.evaluate import Players, by_member, policies_of
from trainers.policy import Policy
from trainers.recordings import Recording, record
from trainers.scripted import SCRIPTED, ScriptedPolicy
from trainers.settings import check_settings, derived_seed, setting


@dataclass
class CloneArgs:
    """Fit policies to what others did, by behaviour cloning.

    Example: gpu-envs clone scripted --id SimpleTag-v0 --episodes 512
    """

    source: Positional[str]
    """Folder of recorded episodes, a run or checkpoint whose policies are played and recorded, or "scripted"."""
    group: UseAppendAction[tuple[str, ...]] = ()
    """Policy to clone, by its name (that of its group, as a rule); repeat it for more; all, if not given."""
    id: str | None = None
    """Environment, for "scripted"; else the one that the source has to be of."""
    allow_import: UseAppendAction[tuple[str, ...]] = ()
    """Module of a recorded environment; it is imported, which runs it. Repeat it for more."""
    env: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE, a setting of the environment for "scripted"; repeat it for more."""
    episodes: int = setting(256, ">= 2")
    """Episodes to play and record, one per world."""
    greedy: bool = False
    """Record the most probable actions of policies instead of samples."""
    seed: int = setting(0, "in [0, 2**63)")
    """Of the worlds, the initial weights and the minibatches."""
    device: str | None = None
    """"cpu", "cuda" or "cuda:<i>"; cuda if there is one."""
    out: Path | None = None
    """Folder of the clone, out/<id>-<time> if not given; what was played is in its episodes/."""
    learner: Any = None
    """Settings of the fit."""


def clone_command(argv: list[str]) -> int:
    """Fit policies to what others did, by behaviour cloning.

    `gpu-envs clone SOURCE ...` writes a run with one checkpoint, for `gpu-envs eval`; returns 0.
    """
    args = parse(with_learner(CloneArgs, "bc"), "clone", argv)
    check_settings(args, "--")
    out = runs.choose(args.out, None)
    config, source = _given(args)
    if out is not None and not isinstance(source, Recording):
        recordings.check_new(out / "episodes")
    core = make_core(config, config.num_envs, config.seed)
    sides = members_by_policy(config, core)
    for name in args.group:
        if name not in sides:
            raise ConfigError(f"--group {name}: expected one of {', '.join(sides)}")
    players: Players = {}
    if isinstance(source, Recording):
        source.check_core(core)
    else:
        players = _players(source, core, sides)
    out, lock = runs.open_folder(out, config.env_id)
    with lock:
        last = _clone(args, config, source, core, sides, players, out)
    print(f"  {last}\n  gpu-envs eval {out}{import_option(config.env_id)}")
    return 0


def _clone(
    args: CloneArgs,
    config: TrainConfig,
    source: Recording | Checkpoint | None,
    core: Core,
    sides: Mapping[str, Sequence[str]],
    players: Players,
    out: Path,
) -> Path:
    """Fit the policies asked for, and return the checkpoint that holds them."""
    if isinstance(source, Recording):
        episodes = source.episodes
    else:
        episodes = _record(args, config, core, players, out / "episodes")
    policies: dict[str, Policy] = {}
    passes = 0
    for index, name in enumerate(args.group or sides):
        agents, seed = agents_of(core, sides[name]), derived_seed(config.seed, index)
        with ProgressBar(config.learner.epochs, f"passes, {name}", file=sys.stderr) as progress:
            fit = clone(episodes, agents, config.learner, core.device, seed, progress)
        agreed = "" if math.isnan(fit.agreement) else f", the same action in {fit.agreement:.1%}"
        print(f"{name}: loss {fit.loss:.3f} nats on episodes held back, after {fit.epochs} passes{agreed}")
        policies[name], passes = fit.policy, max(passes, fit.epochs)
    steps = sum(len(episode) for episode in episodes)
    return checkpoint.save(out / "checkpoints", passes, steps, dataclasses.asdict(config), {}, policies)


def _given(args: CloneArgs) -> tuple[TrainConfig, Recording | Checkpoint | None]:
    """The clone's configuration and what is cloned; None: scripted policies."""
    device, path = str(resolve_device(args.device)), Path(args.source)
    learner = BCConfig(**vars(args.learner))
    new = {"device": device, "seed": args.seed, "num_envs": args.episodes, "algorithm": "bc", "learner": learner}
    if args.source == SCRIPTED:
        if args.id is None:
            raise ConfigError("clone scripted: expected an environment, got none; name one, such as --id SimpleTag-v0")
        taken = {"num_envs": "--episodes", "seed": "--seed", "device": "--device"}
        return TrainConfig(spelled(args.id), env=settings(args.env, options=taken), **new), None
    if args.env:
        raise ConfigError(f"--env {args.env[0]}: expected with 'scripted' only; {path} has settings of its own")
    if (path / recordings.STEPS).exists():
        source = recordings.load(path)
        config = TrainConfig(source.env_id, env=source.env, **{**new, "num_envs": 1})
    else:
        source = checkpoint.load(path)
        config = dataclasses.replace(TrainConfig.of(source), **new)
    check_id(source, config.env_id, args.id)
    return config, source


def _players(source: Checkpoint | None, core: Core, sides: Mapping[str, Sequence[str]]) -> Players:
    """Who is recorded: all policies of the source, also those that are not cloned."""
    if source is None:
        return {member: ScriptedPolicy(core, member) for members in sides.values() for member in members}
    return by_member(sides, policies_of(source, sides, core))


def _record(args: CloneArgs, config: TrainConfig, core: Core, players: Players, to: Path) -> list[Episode]:
    with ProgressBar(core.num_envs, "episodes", file=sys.stderr) as progress:
        episodes, outcome = record(core, players, config.seed, args.greedy, progress)
    recordings.save(to, episodes, config.env_id, config.env)
    returns = ", ".join(f"{group} {value}" for group, value in outcome.returns.items())
    print(f"recorded {len(episodes)} episodes of {args.source} in {to}: returns {returns}")
    return episodes
