"""The command `gpu-envs compare`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from gpu_envs.cli.options import ImportOptions, parse
from gpu_envs.errors import ConfigError
from gpu_envs.utils.paths import check_folder
from gpu_envs.utils.terminal import all_rows, terminal_width
from trainers.storage.learning_curves import SCORE, column_title
from trainers.storage.run_folder import run_kind, with_article


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ImportOptions):
    """Compare training runs: learning curves with intervals over seeds, and a table of final scores.

    Runs that differ only in their seed are one group; a group is named by its settings that differ.

    Example: gpu-envs compare out/ppo out/a2c --output out/compare
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUN", help_behavior_hint="")] = ()
    """Folders: a training run, the seeds of --num-seeds, or a folder with such folders. NAME=RUN names a group."""
    output: Path = Path("out/compare")
    """Folder for the tables (CSV, LaTeX) and the figures (PNG, SVG)."""
    score: str = SCORE
    """Column of metrics.csv to compare, such as eval/agent/collisions_mean."""


def compare_command(argv: list[str]) -> int:
    """Compare training runs: curves and final scores with intervals."""
    args = parse(CompareOptions, "compare", argv)
    if not args.runs:
        raise ConfigError("compare: expected a folder of a training, got none; see gpu-envs compare --help")
    from trainers.experiments.run_comparison import RunReport, read_groups

    check_folder(args.output)
    if kind := run_kind(args.output):
        raise ConfigError(
            f"--output {args.output}: expected a folder for tables and figures, got {with_article(kind)} run; "
            "choose another"
        )
    groups, warnings = read_groups(args.runs)
    for line in warnings:
        print(f"gpu-envs: warning: {line}", file=sys.stderr)
    report = RunReport(groups, args.score, args.output)
    files = report.write()
    print(f"final {column_title(args.score)} on {groups[0].runs[0].config.env_id}:")
    print("\n".join([*all_rows(report.final_table(), terminal_width(sys.stdout)), *report.notes()]))
    for file in files:
        print(f"  {file}")
    return 0
