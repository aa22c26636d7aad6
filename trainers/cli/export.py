"""The command `gpu-envs export`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from gpu_envs.cli.options import OptionalStr, parse
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.paths import check_file
from trainers.cli.options import SavedPolicyOptions, check_id
from trainers.config.train_config import TrainConfig, make_eval_core, members_by_policy
from trainers.evaluation.policy_evaluation import policies_of
from trainers.storage import checkpoint


@dataclass(frozen=True, kw_only=True)
class ExportOptions(SavedPolicyOptions):
    """Export a trained policy with torch.export, or to ONNX. The exported program runs without this library.

    Example: gpu-envs export out/mine --output tagger.pt2 --policy tagger
    """

    output: Path
    """File to write, such as policy.pt2 or policy.onnx."""
    policy: OptionalStr = None
    """Name of the policy to export. Required if the checkpoint holds several."""


def export_command(argv: list[str]) -> int:
    """Export a trained policy with torch.export, or to ONNX."""
    from trainers.storage.policy_export import SUFFIXES, export_policy  # torch's exporter takes a second to import

    args = parse(ExportOptions, "export", argv)
    check_file(args.output)
    if args.output.suffix not in SUFFIXES:
        expected = " or ".join(SUFFIXES)
        raise ConfigError(f"export: --output: expected a file name that ends in {expected}, got {args.output}")
    saved = checkpoint.load(args.path)
    config = dataclasses.replace(TrainConfig.of(saved), device="cpu")
    check_id(saved.path / "manifest.json", config.env_id, args.env_id)
    core = make_eval_core(config, 1, config.seed)
    sides = members_by_policy(config, core)
    name = saved.name_of(args.policy)
    if name not in sides:
        raise CheckpointError(f"{saved.path}: expected policies of {', '.join(sides)} as in its settings, got {name}")
    policy = policies_of(saved, {name: sides[name]}, core)[name]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    program = export_policy(policy, args.output, masked=core.action_mask is not None)
    print(f"{args.output}: {name} of {saved.path}, {program}")
    return 0
