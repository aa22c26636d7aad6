"""The subcommand `gpu-envs render`: worlds at play, by the policies of a checkpoint or at random.

Without a checkpoint it needs no extra but that of the file's format, so what does need one is imported late.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from gpu_envs.commands import render_parser, render_play, render_settings
from gpu_envs.registry import make_core, resolve_device, spelled


def render_command(argv: list[str]) -> int:
    """`gpu-envs render ID ...`: writes a picture or a video; returns 0."""
    parser = render_parser()
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="run, checkpoint or zoo:NAME: its policies play, in the worlds of its settings; else actions are random",
    )
    parser.add_argument("--greedy", action="store_true", help="take the most probable actions instead of samples")
    args = parser.parse_args(argv)
    if args.checkpoint is not None:
        return _trained(args)
    own = render_settings(args)
    core = make_core(args.id, args.worlds, args.device, seed=args.seed, autoreset="next_step", **own)
    return render_play(args, core, lambda obs, info: core.sample_actions())


def _trained(args: argparse.Namespace) -> int:
    from trainers import algorithms, checkpoint
    from trainers import config as configs
    from trainers.arguments import check_id
    from trainers.evaluate import Cast, by_member, policies_of

    saved = checkpoint.load(args.checkpoint)
    config = configs.TrainConfig.from_json(saved.config)
    check_id(saved, config.env_id, spelled(args.id), f"gpu-envs render {config.env_id} --checkpoint {args.checkpoint}")
    config = dataclasses.replace(
        config, env=config.env | render_settings(args), device=str(resolve_device(args.device))
    )
    core = configs.make_core(config, args.worlds, args.seed, autoreset="next_step")
    sides = configs.members_by_policy(config, core)
    if algorithms.find(config.algorithm).recorded:  # nobody need have cloned all of them; the rest play at random
        sides = {name: members for name, members in sides.items() if name in saved.policies}
    policies = policies_of(saved, sides, core)
    for index, policy in enumerate(policies.values()):
        policy.seed(args.seed + index)
    words = ", ".join(f"{name}={value}" for name, value in config.env.items())
    words = f", with its settings {words}" if words else ""
    print(f"playing: {', '.join(policies)} of {saved.path} (step {saved.steps:,}){words}")
    cast = Cast(core, by_member(sides, policies))
    return render_play(args, core, lambda obs, info: cast.act(obs, info, args.greedy))
