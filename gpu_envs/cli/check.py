"""The command `gpu-envs check`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from gpu_envs.cli.options import EnvOptions, OptionalInt, parse, parse_pairs
from gpu_envs.definition.registry import find
from gpu_envs.utils.progress import ProgressBar


@dataclass(frozen=True, kw_only=True)
class CheckOptions(EnvOptions):
    """Check that an environment follows the conventions that all environments of this library share.

    The checks run small batches on the CPU, for example: shapes and types of all tensors, equal results for equal
    seeds, autoreset, time limits. Exit code 2 if one fails. Kernels are compiled without optimization, unless the
    environment variable GPU_ENVS_OPTIMIZATION_LEVEL says otherwise.

    Example: gpu-envs check SimpleTag-v0 --env-arg num_good=2
    """

    steps: OptionalInt = None
    """Steps of the checks over whole episodes. Default: 24 more than the time limit, at most 600."""
    worlds: Annotated[int, arg(metavar="INT")] = 12
    """Worlds of a batch."""
    debug: bool = False
    """First check every index, integer division and loop of the rules, in another process."""
    cuda: bool = False
    """Also compile the kernels for NVIDIA GPUs, which needs no GPU."""


def check_command(argv: list[str]) -> int:
    """Check that an environment follows the conventions of this library."""
    args = parse(CheckOptions, "check", argv)
    import warp_kernels
    from gpu_envs.testing.env_checker import LAWS, CheckReport, iter_checks
    from gpu_envs.testing.memory_check import check_memory

    entry, settings = find(args.env_id), parse_pairs(args.env_arg)
    if args.debug:
        reached = check_memory(args.env_id, args.steps, args.worlds, **settings)
        print(f"{entry.id}: indices, divisions and loops hold ({reached})")
    passed = []
    # without optimization it compiles in a third of the time
    with warp_kernels.unoptimized(), ProgressBar(1 + len(LAWS), "laws", file=sys.stderr) as progress:
        for check in iter_checks(entry.id, args.steps, args.worlds, **settings):
            passed.append(check)
            progress(len(passed), check.name)
    print(CheckReport(entry.id, ", ".join(args.env_arg), tuple(passed)))
    if args.cuda:
        from gpu_envs.testing import compile_for_cuda

        size = compile_for_cuda(entry.id, **settings)
        print(f"{entry.id} compiles for NVIDIA GPUs: {size:,} bytes of machine code")
    return 0
