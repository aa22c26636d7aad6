"""The command `gpu-envs play`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from gpu_envs.cli.options import EnvOptions, ImportOptions, OptionalStr, parse, parse_pairs
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.settings import setting
from league.cli.watch import PageOptions, serve_page
from trainers.base.random_streams import SEEDS
from trainers.cli.options import check_id
from trainers.cli.render import CORE_OPTIONS
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.evaluation.policy_evaluation import by_member, trained_policies
from trainers.models.policy_set import Players
from trainers.storage import checkpoint
from trainers.storage.run_folder import run_kind

RANDOM = "random"
"""Opponents that act at random."""


@dataclass(frozen=True, kw_only=True)
class PlayOptions(ImportOptions, PageOptions, EnvOptions):
    """Play an environment by hand in the browser: keys and buttons act for one agent, policies for the others.

    Example: gpu-envs play SimpleTag-v0 --as agent_0 --opponents zoo:simple-tag-ppo
    """

    agent: Annotated[OptionalStr, arg(name="as", metavar="AGENT")] = None
    """Agent that you act for. Default: the first one."""
    opponents: Annotated[str, arg(metavar="random|zoo:NAME|RUN")] = RANDOM
    """Policies of all other agents: "random", zoo:NAME, or a training run, a checkpoint or a league."""
    seed: int = setting(0, ge=0, lt=SEEDS)
    """Random seed of the first episode; later episodes have the seeds that follow."""


def play_command(argv: list[str]) -> int:
    """Play an environment by hand in the browser."""
    from league.watch.play import PlayApi
    from league.watch.server import check_libraries

    args = parse(PlayOptions, "play", argv)
    check_libraries()
    core, players, words = _load(args)
    api = PlayApi(core, args.agent or core.possible_agents[0], players, words, args.seed)
    return serve_page(args, api, f"{core.id} as {api.agent} with {words}")


def _load(args: PlayOptions) -> tuple[Core, Players, str]:
    """Return a world, the policies of its agents, and the policies in words."""
    settings = parse_pairs(args.env_arg, options={name: f"--{name.replace('_', '-')}" for name in CORE_OPTIONS})
    path = Path(args.opponents)
    if args.opponents == RANDOM:
        core = make_core(args.env_id, 1, "cpu", seed=args.seed, autoreset="disabled", **settings)
        return core, {}, "random actions of the others"
    if run_kind(path) == "league":
        return _load_league(args, path)
    saved = checkpoint.load(path)
    config = TrainConfig.of(saved)
    check_id(saved.path / "manifest.json", config.env_id, args.env_id)
    config = dataclasses.replace(config, env={**config.env, **settings}, device="cpu")
    core = make_train_core(config, 1, args.seed, autoreset="disabled")
    return core, by_member(*trained_policies(saved, config, core)), f"policies of {saved.path}"


def _load_league(args: PlayOptions, path: Path) -> tuple[Core, Players, str]:
    """Return a world of a league with the league's result in every seat."""
    from league.watch.api import resolve_policies
    from league.watch.sources.league import LeagueRun

    if args.env_arg:
        raise ConfigError(f"--env-arg: expected none with the league {path}, which has its settings; leave it out")
    snapshot = LeagueRun(path).read()
    stage, names = snapshot.stage, resolve_policies(snapshot, [])
    core = stage.core(1)
    check_id(path, core.id, args.env_id)
    players = {
        member: policy
        for index, (seat, name) in enumerate(zip(stage.seats, names, strict=True))
        for policy in [stage.policy(index, name)]
        for member in seat.members
    }
    return core, players, f"{', '.join(dict.fromkeys(names))} of {path}"
