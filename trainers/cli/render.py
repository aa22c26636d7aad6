"""The subcommand `gpu-envs render`: worlds at play, by the policies of a checkpoint or at random.

Without a checkpoint it needs no extra but that of the file's format, so what does need one is imported late.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from gpu_envs.commands import add_allow_import, parse, render_parser, render_play, render_settings
from gpu_envs.core import Core
from gpu_envs.factory import make_core, resolve_device
from gpu_envs.paths import check_file
from trainers.settings import SEEDS


def render_command(argv: list[str]) -> int:
    """Write a picture or a video of worlds at play, by trained policies or at random."""
    parser = render_parser()
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="run, checkpoint or zoo:NAME: its policies play, in the worlds of its settings; else actions are random",
    )
    parser.add_argument("--greedy", action="store_true", help="take the most probable actions instead of samples")
    add_allow_import(parser)
    args = parse(parser, argv)
    check_file(args.out)
    if args.checkpoint is not None:
        return _trained(args)
    if args.greedy:
        parser.error("--greedy: has no effect without --checkpoint")
    own = render_settings(args)
    core = make_core(args.id, args.worlds, args.device, seed=args.seed, autoreset="next_step", **own)
    return render_play(args, core, lambda obs, info: core.sample_actions())


def _trained(args: argparse.Namespace) -> int:
    core, act, words = cast(args.checkpoint, args.id, render_settings(args), args.worlds, args.device, args.seed)
    print(f"playing: {words}")
    return render_play(args, core, lambda obs, info: act(obs, info, args.greedy))


def cast(
    path: Path, id: str, settings: Mapping[str, Any], worlds: int, device: str | None, seed: int
) -> tuple[Core, Callable[..., Tensor], str]:
    """The policies of a checkpoint, ready to play in its worlds.

    Args:
        path: A run, a checkpoint or zoo:NAME.
        id: The environment; the checkpoint has to be of it.
        settings: Of the environment, where they are to be others than the checkpoint's.
        worlds: E.
        device: None: a GPU if there is one.
        seed: Of the worlds and the policies' samples.

    Returns:
        A core that shows the ends of episodes too (autoreset "next_step"), act(obs, info, greedy=False), which gives
        the actions of all agents, and in words who plays with which settings.

    Raises:
        CheckpointError: No checkpoint, one of another environment, or one that does not fit these settings.
    """
    from trainers import algorithms, checkpoint
    from trainers import config as configs
    from trainers.arguments import check_id
    from trainers.evaluate import Cast, by_member, policies_of

    saved = checkpoint.load(path)
    config = configs.TrainConfig.of(saved)
    check_id(saved, config.env_id, id)
    config = dataclasses.replace(config, env={**config.env, **settings}, device=str(resolve_device(device)))
    core = configs.make_core(config, worlds, seed, autoreset="next_step")
    sides = configs.members_by_policy(config, core)
    if algorithms.find(config.algorithm).recorded:  # nobody need have cloned all of them; the rest play at random
        sides = {name: members for name, members in sides.items() if name in saved.policies}
    policies = policies_of(saved, sides, core)
    for index, policy in enumerate(policies.values()):
        policy.seed((seed + index) % SEEDS)
    own = ", ".join(f"{name}={value}" for name, value in config.env.items())
    words = f"{', '.join(policies)} of {saved.path} (step {saved.steps:,})" + (
        f", with its settings {own}" if own else ""
    )
    return core, Cast(core, by_member(sides, policies)).act, words
