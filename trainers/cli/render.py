"""The command `gpu-envs render`: a video of trained or random policies.

Modules that need the extra "train" are imported only for a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gpu_envs.cli.options import (
    EnvOptions,
    ImportOptions,
    OptionalPath,
    OptionalStr,
    parse,
    parse_pairs,
    split_command_line,
)
from gpu_envs.cli.render import VideoOptions, render_play
from gpu_envs.definition.id_modules import allow_import
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.paths import check_file


@dataclass(frozen=True, kw_only=True)
class RenderOptions(ImportOptions, VideoOptions, EnvOptions):
    """Render trained or random policies to a video or a picture.

    With --opponents, two runs play against each other; the frame names them and shows their returns and the winner.

    Example: gpu-envs render SimpleTag-v0 --checkpoint zoo:simple-tag-ppo --num-envs 16 --output out/tag.mp4
    """

    env_id: Annotated[Positional[str], arg(metavar="ID|RUN")]
    """Environment id, such as SimpleTag-v0; or a run, checkpoint or zoo:NAME in place of --checkpoint."""
    checkpoint: OptionalPath = None
    """Run, checkpoint or zoo:NAME whose policies and environment settings are used; of the folder of several seeds, the
    one with the best score. Default: random actions."""
    opponents: OptionalPath = None
    """Run, checkpoint or zoo:NAME of the same environment whose policies play all other sides."""
    side: Annotated[OptionalStr, arg(name="as", metavar="SIDE")] = None
    """Side of the run against --opponents: a policy such as "adversary", or an agent of a board game. Default: the
    first one."""


def render_command(argv: list[str]) -> int:
    """Render trained or random policies to a video or a picture."""
    args = parse(RenderOptions, "render", _with_env_id(argv))
    check_file(args.output)
    settings = parse_pairs(args.env_arg, options={name: f"--{name.replace('_', '-')}" for name in CORE_OPTIONS})
    if args.checkpoint is None:
        for name, value in (("greedy", args.greedy), ("opponents", args.opponents), ("as", args.side)):
            if value:
                raise ConfigError(f"render: --{name} has no effect without --checkpoint")
        core = make_core(args.env_id, args.num_envs, args.device, seed=args.seed, autoreset="next_step", **settings)
        return render_play(args, core, lambda obs, info: core.sample_actions())
    from trainers.cli.options import check_id
    from trainers.evaluation.checkpoint_play import load_play

    play = load_play(args.checkpoint, settings, args.num_envs, args.device, args.seed)
    check_id(play.saved.path / "manifest.json", play.saved.config["env_id"], args.env_id)
    if args.opponents is not None:
        play = play.against(args.opponents, args.side, args.seed)
    elif args.side is not None:
        raise ConfigError("render: --as has no effect without --opponents")
    print(f"playing: {play.words}")
    return render_play(args, play.core, lambda obs, info: play.act(obs, info, args.greedy), play.rows)


def _with_env_id(argv: list[str]) -> list[str]:
    """Return the command line with an id and --checkpoint in place of a run."""
    words = split_command_line(RenderOptions, argv)
    run = words.positional
    if not run or words.help or not (run.startswith("zoo:") or _has_policies(Path(run))):
        return argv
    if words.last("checkpoint") is not None:
        raise ConfigError(f"render: expected an environment id with --checkpoint, got the run {run}; leave one out")
    from trainers.evaluation.checkpoint_play import run_to_play
    from trainers.storage import checkpoint

    for module in words.values.get("allow_import", ()):
        allow_import(module)
    manifest = checkpoint.read_manifest(checkpoint.find(run_to_play(Path(run))[0]))
    return [manifest.config["env_id"], *words.argv[1:], "--checkpoint", run]


def _has_policies(folder: Path) -> bool:
    """Return whether a folder is a run, and not one that has only the name of an environment."""
    if not folder.is_dir():
        return False
    from trainers.storage.run_folder import run_kind

    return run_kind(folder) is not None or (folder / "manifest.json").is_file()


CORE_OPTIONS = ("num_envs", "seed", "device")
"""Arguments of `make_core` that options of the command set."""
