"""The command `gpu-envs render`: a video of trained or random policies.

Modules that need the extra "train" are imported only for a checkpoint.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gpu_envs.cli.options import EnvOptions, ImportOptions, OptionalPath, parse, parse_pairs
from gpu_envs.cli.render import VideoOptions, render_play
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.devices import resolve_device
from gpu_envs.utils.paths import check_file
from trainers.base.random_streams import SEEDS


@dataclass(frozen=True, kw_only=True)
class RenderOptions(ImportOptions, VideoOptions, EnvOptions):
    """Render trained or random policies to a video or a picture.

    Example: gpu-envs render SimpleTag-v0 --checkpoint zoo:simple-tag-ppo --num-envs 16 --output out/tag.mp4
    """

    checkpoint: OptionalPath = None
    """Run, checkpoint or zoo:NAME whose policies and environment settings are used; of the folder of several seeds, the
    one with the best score. Default: random actions."""


def render_command(argv: list[str]) -> int:
    """Render trained or random policies to a video or a picture."""
    args = parse(RenderOptions, "render", argv)
    check_file(args.output)
    settings = parse_pairs(args.env_arg, options={name: f"--{name.replace('_', '-')}" for name in OWN})
    if args.checkpoint is None:
        if args.greedy:
            raise ConfigError("render: --greedy has no effect without --checkpoint")
        core = make_core(args.env_id, args.num_envs, args.device, seed=args.seed, autoreset="next_step", **settings)
        return render_play(args, core, lambda obs, info: core.sample_actions())
    core, act, words = load_checkpoint_players(
        args.checkpoint, args.env_id, settings, args.num_envs, args.device, args.seed
    )
    print(f"playing: {words}")
    return render_play(args, core, lambda obs, info: act(obs, info, args.greedy))


OWN = ("num_envs", "seed", "device")
"""Arguments of `make_core` that options of the command set."""


def load_checkpoint_players(
    path: Path, id: str, settings: Mapping[str, Any], worlds: int, device: str | None, seed: int
) -> tuple[Core, Callable[..., Tensor], str]:
    """Load the policies of a checkpoint and make its environment.

    Args:
        path: Run folder, checkpoint folder or zoo:NAME; of the folder of several seeds, the best one.
        id: Environment id that the checkpoint must have.
        settings: Environment settings that replace the recorded ones.
        worlds: Number of environments, E.
        device: Device; None for a GPU if one is available.
        seed: Random seed of the environments and the actions.

    Returns:
        A core with autoreset "next_step", a function `act(obs, info, greedy=False)` that returns the actions of all
        agents, and a description of the policies and settings.

    Raises:
        CheckpointError: There is no checkpoint, or it does not fit the environment or its settings.
    """
    from trainers.cli.options import check_id
    from trainers.config import train_config as configs
    from trainers.evaluation.policy_evaluation import by_member, trained_policies
    from trainers.models.policy_set import PolicyRunner
    from trainers.storage import checkpoint
    from trainers.storage.run_folder import best_seed, run_kind

    run, reason = best_seed(path) if run_kind(path) == "multi-seed" else (path, "")
    saved = checkpoint.load(run)
    config = configs.TrainConfig.of(saved)
    check_id(saved.path / "manifest.json", config.env_id, id)
    config = dataclasses.replace(config, env={**config.env, **settings}, device=str(resolve_device(device)))
    core = configs.make_train_core(config, worlds, seed, autoreset="next_step")
    sides, policies = trained_policies(saved, config, core)
    for index, policy in enumerate(policies.values()):
        policy.seed((seed + index) % SEEDS)
    text = ", ".join(f"{name}={value}" for name, value in config.env.items())
    words = f"{', '.join(policies)} of {saved.path} (step {saved.steps:,})"
    words += (f", {reason}" if reason else "") + (f", with its settings {text}" if text else "")
    return core, PolicyRunner(core, by_member(sides, policies)).act, words
