"""Record the evaluations of experiments, and write their parts of docs/learning.md.

python -m benchmarks.experiments.publish                       # The page and its figures, from recorded evaluations.
python -m benchmarks.experiments.publish out/tag out/networks  # Record these experiments before.

The name of a folder is that of the file in benchmarks/experiments. Cells that are not complete are left out, and cells
that were recorded before stay, so that an experiment may be trained in parts.
"""

import argparse
import csv
import lzma
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from benchmarks.hardware import provenance
from benchmarks.hardware.page_files import filled, save_picture, table
from benchmarks.hardware.result_files import dumps
from trainers.base.serialization import read_json, write_text
from trainers.experiments import Experiment
from trainers.experiments.grid import Grid
from trainers.experiments.report import ExperimentReport, frame_of, markdown_of, texts_of
from trainers.storage import checkpoint, model_zoo

FILES = provenance.ROOT / "benchmarks" / "experiments"
RESULTS = provenance.ROOT / "benchmarks" / "results" / "experiments"
PAGE = provenance.ROOT / "docs" / "learning.md"
FIGURES = provenance.ROOT / "docs" / "learning"
TABLE = "evaluations.csv.xz"
"""Table of the recorded evaluations, packed; `pandas.read_csv` reads it."""
ABOUT = "about.json"
"""File that says by which commit and on which machine every cell was recorded, beside the evaluations."""
COLUMNS = (
    "task", "algorithm", "runs", "IQM", "mean", "optimality gap", "threshold", "runs that reach it",
    "median steps to threshold", "median seconds", "self-play", "cross-play", "difference",
)  # fmt: skip
"""Columns of the tables on the page; the report has more."""
PICTURES = {
    "aggregate": "Measures over all tasks with 95 % intervals, by algorithm",
    "curves": "Mean score over seeds with its 95 % interval by environment steps, for every task",
}
"""Figures on the page by name, and what they show."""


def record(folder: Path, commit: str) -> None:
    """Copy the scores of the complete cells of an experiment, and note where they ran; other recorded cells stay.

    Args:
        folder: Folder of the experiment, named as its file.
        commit: Commit of the code that ran.

    Raises:
        ConfigError: The folder has cells that differ from those of the file.
    """
    target, experiment = RESULTS / folder.name, Experiment(FILES / f"{folder.name}.yaml", folder)
    experiment.check_same_cells()
    grid = experiment.grid
    complete = {(c.task, c.algorithm) for c in grid.cells if all(experiment.is_complete(c, s) for s in grid.seeds)}
    baselines = {(task, name) for name, scores in grid.baselines.items() for task in scores}
    rows = [row for row in experiment.evaluations() if row["metric"] == grid.tasks[row["task"]].score]
    rows = [row for row in rows if _cell(row) in complete | baselines]
    if (target / TABLE).is_file():
        incomplete = {(c.task, c.algorithm) for c in grid.cells} - complete
        rows += [row for row in evaluations(folder.name) if _cell(row) in incomplete]
    tasks, algorithms = [*grid.tasks], [*grid.algorithms, *grid.baselines]
    rows.sort(key=lambda row: (tasks.index(row["task"]), algorithms.index(row["algorithm"])))
    target.mkdir(parents=True, exist_ok=True)
    frame_of(rows).to_csv(target / TABLE, index=False, float_format="%.6g")
    origin = {"commit": commit, "date": date.today().isoformat(), "machine": provenance.machine()}
    origins = read_json(target / ABOUT) if (target / ABOUT).is_file() else {}
    origins |= {f"{algorithm} on {task}": origin for task, algorithm in sorted(complete)}
    write_text(target / ABOUT, dumps(origins, levels=1))


def _cell(row: dict[str, Any]) -> tuple[str, str]:
    return row["task"], row["algorithm"]


def names() -> list[str]:
    """Return the names of the recorded experiments."""
    return sorted(file.parent.name for file in RESULTS.glob(f"*/{ABOUT}"))


def algorithms_on(env_id: str) -> dict[str, list[str]]:
    """Return the algorithms with recorded scores in an environment, by name of the experiment."""
    result = {}
    for name in names():
        file = yaml.safe_load((FILES / f"{name}.yaml").read_text(encoding="utf-8"))
        shared = file.get("settings", {})
        chosen = [
            task for task, about in file["tasks"].items() if {**shared, **about.get("settings", {})}["env_id"] == env_id
        ]
        algorithms = dict.fromkeys(row["algorithm"] for row in evaluations(name) if row["task"] in chosen)
        if algorithms:
            result[name] = list(algorithms)
    return result


def section(name: str, figures: Path) -> str:
    """Return the part of the page about an experiment, and draw its figures.

    Args:
        name: Name of the experiment.
        figures: Folder of the figures.
    """
    grid = Grid.read(FILES / f"{name}.yaml")
    with tempfile.TemporaryDirectory() as folder:
        rows = evaluations(name)
        trained = {row["task"] for row in rows if row["algorithm"] in grid.algorithms}
        rows = [row for row in rows if row["task"] in trained]
        report = ExperimentReport(grid, frame_of(rows), Path(folder))
        report.write()
        has_aggregate = not set(grid.algorithms).isdisjoint(report.complete())
        titles = ["aggregate", "tasks"] if has_aggregate else ["tasks"]
        titles += ["partners"] if len(report.tables["partners"]) else []
        pictures = ["aggregate", "curves"] if has_aggregate else ["curves"]
        for title in pictures:
            with Image.open(Path(folder) / f"{title}.png") as picture:
                save_picture(picture, figures / f"{name}_{title}.webp")
    cells = {(row["task"], row["algorithm"]) for row in rows}
    missing = [str(cell) for cell in grid.cells if (cell.task, cell.algorithm) not in cells]
    blocks = [_provenance(name, grid), *([f"Not recorded yet: {', '.join(missing)}."] if missing else [])]
    for title in titles:
        text = texts_of(report.tables[title])
        blocks.append(markdown_of(text[[column for column in COLUMNS if column in text]]))
    rows_of_tasks = report.tables["tasks"].to_dict("records")
    unsolved = [f"{row['algorithm']} on {row['task']}" for row in rows_of_tasks if row.get("runs that reach it") == 0]
    if unsolved:
        blocks.append(f"No run reaches the threshold in an evaluation of its training: {', '.join(unsolved)}.")
    tasks_of: dict[str, list[str]] = {}
    for task, about in grid.tasks.items():
        tasks_of.setdefault(about.source, []).append(task)
    sources = [f"{', '.join(tasks)}: {source}" for source, tasks in tasks_of.items() if source]
    blocks += [f"Thresholds. {'. '.join(sources)}."] if sources else []
    blocks += [f"![{PICTURES[title]}](learning/{name}_{title}.webp)" for title in pictures]
    return "\n\n".join(blocks)


def evaluations(name: str) -> list[dict[str, Any]]:
    """Return the recorded rows of an experiment, as its table has them."""
    with lzma.open(RESULTS / name / TABLE, "rt", encoding="utf-8", newline="") as file:
        return [{**row, "seed": int(row["seed"]), "final": int(row["final"])} for row in csv.DictReader(file)]


def _provenance(name: str, grid: Grid) -> str:
    """Return the command of an experiment, its protocol, and where it ran."""
    runs, protocol = read_json(RESULTS / name / ABOUT).values(), grid.evaluation
    actions = "the most probable" if protocol.greedy else "sampled"
    origins = dict.fromkeys(
        f"commit {run['commit']}, {run['date']}, {run['machine']['cpu'].split(' (')[0]}, {run['machine']['cores']} "
        f"cores, torch {run['machine']['torch']}"
        for run in runs
    )
    return (
        f"`gpu-envs experiment run benchmarks/experiments/{name}.yaml`: {len(grid.seeds)} seeds; final scores of the "
        f"best checkpoint over {protocol.last_episodes:,} episodes of {actions} actions. Recorded at "
        f"{'; '.join(origins)}."
    )


def zoo() -> str:
    """Return the table of the model zoo: training command, and what each policy reaches alone and with the others."""
    rows = []
    for name in checkpoint.zoo_names():
        about = model_zoo.about(name)
        protocol = f"{about['episodes']:,} episodes of {'the most probable' if about['greedy'] else 'sampled'} actions"
        protocol += "".join(f", {setting}={value}" for setting, value in about["env"].items())
        results = []
        for matchup in about["matchups"]:
            sources = matchup["policies"]
            trained = [policy for policy, source in sources.items() if source == "trained"]
            is_alone = len(trained) == 1 < len(sources) and "random" in sources.values()
            if is_alone or len(trained) == len(sources):
                players = f"only {trained[0]} trained: " if is_alone else ""
                results.append(players + ", ".join(_results(matchup["results"])))
        rows.append((f"`{name}`", f"`{about['command']}`", about["commit"], f"{'; '.join(results)} ({protocol})"))
    return table(("name", "command", "commit", "results"), rows)


def _results(results: dict[str, list[float]]) -> list[str]:
    """Return the returns, and the numbers of agents that survive, in words."""
    names = [name for name in results if name.endswith((" return", " survivors", " won_battle"))]
    return [f"{name} {results[name][0]:.4g} ± {results[name][1]:.2g}" for name in names]


def write() -> None:
    """Write the parts of the page and the figures, from the recorded evaluations."""
    FIGURES.mkdir(exist_ok=True)
    sections = {name: section(name, FIGURES) for name in names()}
    PAGE.write_text(filled(PAGE, {**sections, "zoo": zoo()}), encoding="utf-8")


def main(argv: Sequence[str]) -> None:
    """Record experiments, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="folder of an experiment to record")
    parser.add_argument("--commit", default=provenance.commit(), help="commit of the code that ran, if not the present")
    args = parser.parse_args(argv)
    for folder in args.folders:
        record(folder, args.commit)
    write()


if __name__ == "__main__":
    main(sys.argv[1:])
