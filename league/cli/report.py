"""The command `gpu-envs league report`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from gpu_envs.cli.options import OptionalPath, parse
from gpu_envs.utils.paths import check_folder
from league.cli.options import ExecutorOptions, RunOptions
from league.storage.run_store import RunStore

__all__ = ["ReportOptions", "report_command"]


@dataclass(frozen=True, kw_only=True)
class ReportOptions(ExecutorOptions, RunOptions):
    """Write tables and figures of a league: payoffs, ratings, exploitability, learning curves.

    The run may still be in progress.

    Example: gpu-envs league report out/kuhn --output-dir out/kuhn-report
    """

    output_dir: OptionalPath = None
    """Folder for report.html, report.json and the figures. Default: report/ in the folder of the run."""
    opponents: OptionalPath = None
    """Another run of the same two-player zero-sum game, to compute the relative population performance."""
    best_response_steps: int = 0
    """Environment steps of a best response per role, for a lower bound of exploitability; 0 for no bound."""


def report_command(argv: list[str]) -> int:
    """Write the report of a run, print its tables and return the exit code."""
    from league.analysis.compare import compare_runs
    from league.analysis.report_tables import format_report
    from league.report import build_report

    args = parse(ReportOptions, "league report", argv)
    if args.output_dir is not None:
        check_folder(args.output_dir)
    if args.opponents is not None:
        RunStore.open(args.opponents, write=False).close()
    with contextlib.closing(args.make_executor()) as executor:
        report = build_report(args.run_dir, args.output_dir, args.best_response_steps, executor=executor)
    print(format_report(report))
    for file in report.files:
        print(f"  {file}")
    if args.opponents is not None:
        with RunStore.open(args.run_dir, write=False) as first, RunStore.open(args.opponents, write=False) as second:
            performance = compare_runs(first, second)
        print(
            f"relative population performance against {args.opponents}, above 0 if this run is stronger: {performance}"
        )
    return 0
