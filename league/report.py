"""Reports on runs: a page, figures and data.

print(format_report(build_report("runs/kuhn")))
"""

from __future__ import annotations

from pathlib import Path

from gpu_envs.utils.progress import Progress
from league.analysis.figures import write_figures
from league.analysis.report_data import REPORT_FOLDER, Report, read_report
from league.executors.tasks import Executor
from league.storage.run_store import RunStore
from league.watch.export import write_page
from league.watch.sources.league import league_answers
from trainers.base.serialization import write_json


def build_report(
    run: RunStore | Path | str,
    out: Path | str | None = None,
    exploit_steps: int = 0,
    exploit_seconds: float | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Report:
    """Report on a run of PSRO or of a league, and write report.html, report.json and figures.

    report.html is the viewer's page with the data of the report and without rollouts.

    Args:
        run: Folder of the run, which is opened for reading, or an open store.
        out: Folder to write to; None: RUN/report.
        exploit_steps: Environment steps for which each role learns a best response to the final meta-strategy, with
            the settings of the run; 0: none is learned.
        exploit_seconds: Time limit of each of these trainings [s].
        progress: Called while responses are learned in this process.
        executor: Executor of these trainings and their episodes; None: this process.

    Raises:
        ConfigError: The folder holds no run, or the viewer's page is not built.
        CheckpointError: The run is damaged.
    """
    if not isinstance(run, RunStore):
        with RunStore.open(run, write=False) as store:
            return build_report(store, out, exploit_steps, exploit_seconds, progress, executor)
    report = read_report(run, exploit_steps, exploit_seconds, progress, executor)
    folder = run.path / REPORT_FOLDER if out is None else Path(out)
    page, data = folder / "report.html", folder / "report.json"
    write_page(page, run.path.resolve().name, league_answers(run, report))
    report.files = [str(path) for path in (page, *write_figures(report, folder), data)]
    write_json(data, report.to_json())
    return report
