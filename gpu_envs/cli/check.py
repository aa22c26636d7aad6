"""The command `gpu-envs check`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from gpu_envs.cli.options import EnvOptions, parse, parse_pairs
from gpu_envs.definition.registry import find
from gpu_envs.utils.progress import ProgressBar

__all__ = ["CheckOptions", "check_command"]


@dataclass(frozen=True, kw_only=True)
class CheckOptions(EnvOptions):
    """Check that an environment follows the conventions that all environments of this library share.

    The checks run small batches on the CPU, for example: shapes and types of all tensors, equal results for equal
    seeds, autoreset, time limits. Exit code 2 if one fails.

    Example: gpu-envs check SimpleTag-v0 --env-arg num_good=2
    """


def check_command(argv: list[str]) -> int:
    """Check that an environment follows the conventions of this library."""
    args = parse(CheckOptions, "check", argv)
    from gpu_envs.testing.env_checker import LAWS, iter_checks

    entry = find(args.env_id)
    with ProgressBar(1 + len(LAWS), "laws", file=sys.stderr) as progress:
        for done, law in enumerate(iter_checks(entry.id, **parse_pairs(args.env_arg)), start=1):
            progress(done, law)
    print(f"{entry.id} passed all checks")
    return 0
