"""The report of an experiment: tables as CSV, Markdown, LaTeX and HTML, figures, and scores in the format of marl-eval.

Every table and figure has its numbers in a CSV file of the same name.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_envs.errors import CheckpointError
from trainers.base.serialization import write_text
from trainers.experiments import statistics
from trainers.experiments.figures import Figures
from trainers.experiments.grid import PARTNERS, Grid
from trainers.experiments.statistics import Scores, report_library
from trainers.storage.learning_curves import column_title

COLUMNS = ("task", "algorithm", "seed", "env_steps", "seconds", "final", "opponents", "metric", "value")
"""Columns of the table of evaluations."""
PROFILE = np.linspace(0.0, 1.0, 101)
"""Thresholds of performance profiles."""
MEASURES: dict[str, Callable[[Sequence[np.ndarray]], np.ndarray]] = {
    "IQM": statistics.interquartile_mean,
    "mean": statistics.mean,
    "median": statistics.median,
    "optimality gap": statistics.optimality_gap,
}
"""Measures over tasks of normalized scores by name."""


def frame_of(rows: Sequence[dict[str, Any]]) -> Any:
    """Return rows of evaluations as a `pandas.DataFrame`."""
    pandas = report_library("pandas")
    frame = pandas.DataFrame(list(rows), columns=list(COLUMNS))
    numbers = ["env_steps", "seconds", "value"]
    frame[numbers] = frame[numbers].apply(pandas.to_numeric, errors="coerce")
    return frame


class ExperimentReport:
    """Tables and figures of the evaluations of an experiment."""

    def __init__(self, grid: Grid, frame: Any, out: Path) -> None:
        """Select the scores.

        Args:
            grid: The experiment.
            frame: Its evaluations, see `frame_of`.
            out: Folder of the report.

        Raises:
            CheckpointError: No run is complete.
        """
        self.grid, self.out = grid, out
        by_task = {name: task.score for name, task in grid.tasks.items()}
        scores = frame[frame.metric == frame.task.map(by_task)]
        self.final: Any = scores[(scores.final == 1) & (scores.opponents == "")]
        self.curves: Any = scores[scores.final == 0]
        self.with_partners: Any = scores[scores.opponents.str.startswith(PARTNERS)]
        if self.final.empty:
            names = sorted(set(frame.metric))
            hint = f"; there are {', '.join(names)}" if names else "; continue the experiment"
            raise CheckpointError(f"{out}: expected final scores {', '.join(set(by_task.values()))}, got none{hint}")
        self.algorithms: list[str] = [*grid.algorithms, *grid.baselines]
        self.bounds: dict[str, tuple[float, float]] = {
            name: task.bounds or self._range(name) for name, task in grid.tasks.items()
        }
        self.files: list[Path] = []
        self.tables: dict[str, Any] = {}

    def _range(self, task: str) -> tuple[float, float]:
        values = self.final[self.final.task == task].value
        return (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)

    def scores(self, algorithm: str) -> dict[str, np.ndarray]:
        """Return the final scores of an algorithm (N,) by task."""
        rows = self.final[self.final.algorithm == algorithm]
        return {task: group.value.to_numpy(float) for task, group in rows.groupby("task", sort=False)}

    def normalized(self, scores: Scores) -> dict[str, np.ndarray]:
        """Return scores (N,) by task, so that the bounds are 0 and 1."""
        result = {}
        for task, values in scores.items():
            low, high = self.bounds[task]
            result[task] = (values - low) / ((high - low) or 1.0)
        return result

    def complete(self) -> list[str]:
        """Return the algorithms with final scores on all tasks, which measures over tasks compare."""
        return [name for name in self.algorithms if len(self.scores(name)) == len(self.grid.tasks)]

    def write(self) -> list[Path]:
        """Write all files and return their paths.

        Raises:
            MissingExtraError: A library of the report is not installed.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        figures = Figures(self.out, self.algorithms)
        scores = {name: self.normalized(self.scores(name)) for name in self.complete()}
        self._table("tasks", list(self._task_rows()))
        self._table("aggregate", [self._aggregate_row(name, scores[name]) for name in scores])
        self._table("improvement", _improvement_rows(scores))
        self._table("partners", list(self._partner_rows()))
        curves = self._csv("curves", self._curve_rows())
        samples = self._csv("sample_efficiency", [row for name in scores for row in self._sample_rows(name)])
        profiles = self._csv("profiles", [row for name in scores for row in _profile_rows(name, scores[name])])
        if len(curves):
            thresholds = {name: task.threshold for name, task in self.grid.tasks.items()}
            titles = {column_title(task.score) for task in self.grid.tasks.values()}
            self.files += figures.curves(curves, thresholds, titles.pop() if len(titles) == 1 else "score")
        if len(samples):
            self.files += figures.lines(samples, "sample_efficiency", "share of the steps [%]", "normalized IQM")
        if len(profiles):
            self.files += figures.lines(profiles, "profiles", "normalized score", "share of runs above")
            self.files += figures.intervals(self.tables["aggregate"], list(MEASURES))
        self._write("marl_eval.json", json.dumps(self.marl_eval(), indent=1) + "\n")
        self._documents([file.name for file in self.files if file.suffix == ".svg"])
        return self.files

    # ---------------------------------------------------------------- tables

    def _task_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the scores of every algorithm on every task, and the first crossing of the threshold."""
        scores = {name: self.scores(name) for name in self.algorithms}
        first = self.algorithms[0]
        for task_name, task in self.grid.tasks.items():
            for name in self.algorithms:
                if task_name not in scores[name]:
                    continue
                values = scores[name][task_name]
                row = {"task": task_name, "algorithm": name, "score": task.score, "runs": len(values)}
                row |= _estimate_cells("mean", {task_name: values}) | _estimate_cells("IQM", {task_name: values})
                row |= {"median": float(np.median(values)), "lowest": values.min(), "highest": values.max()}
                reference = scores[first].get(task_name, values[:0])
                has_p = name != first and min(len(values), len(reference)) > 1
                row[f"p against {first}"] = statistics.p_value(values, reference) if has_p else math.nan
                yield row | self._crossing(task_name, name, task.threshold)

    def _crossing(self, task: str, algorithm: str, threshold: float | None) -> dict[str, Any]:
        """Return how many runs reach a threshold in an evaluation, and the median steps and seconds until then."""
        curves = self.curves[(self.curves.task == task) & (self.curves.algorithm == algorithm)]
        seconds = curves.groupby("seed").seconds.max()
        cells = {"median seconds": float(seconds.median())}
        if threshold is None:
            return cells
        if not len(seconds):  # a baseline, of which final scores only are known
            return {"threshold": threshold, **cells}
        reached = curves[curves.value >= threshold].sort_values("env_steps").groupby("seed").first()
        # Some runs never reach it.
        crossings = reached[["env_steps", "seconds"]].reindex(seconds.index).fillna(math.inf)
        for column, median in crossings.median().replace(math.inf, math.nan).items():
            cells[f"median {'steps' if column == 'env_steps' else column} to threshold"] = float(median)
        return {"threshold": threshold, "runs that reach it": len(reached), **cells}

    def _partner_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the mean scores of teams of one training, of teams from two, and the mean difference over seeds."""
        for (task, name), rows in self.with_partners.groupby(["task", "algorithm"], sort=False):
            cross_play = rows.groupby("seed").value.mean()
            self_play = self.final[(self.final.task == task) & (self.final.algorithm == name)].set_index("seed").value
            self_play = self_play[cross_play.index]
            row = {"task": task, "algorithm": name, "runs": len(cross_play)}
            columns = {"self-play": self_play, "cross-play": cross_play, "difference": cross_play - self_play}
            for title, values in columns.items():
                row |= _interval_cells(title, statistics.estimate(statistics.mean, {task: values.to_numpy(float)}))
            yield row

    def _aggregate_row(self, name: str, scores: Scores) -> dict[str, Any]:
        row: dict[str, Any] = {"algorithm": name, "runs": sum(map(len, scores.values()))}
        for measure in MEASURES:
            row |= _estimate_cells(measure, scores)
        return row

    def _curve_rows(self) -> list[dict[str, Any]]:
        """Return the mean over seeds at every evaluation of all seeds in trainings, with its interval."""
        rows = []
        for (task, algorithm), group in self.curves.groupby(["task", "algorithm"], sort=False):
            runs = [dict(zip(run.env_steps, run.value, strict=True)) for _, run in group.groupby("seed")]
            for steps, value, low, high in statistics.mean_curve(runs):
                row = {"task": task, "algorithm": algorithm, "x": steps, "value": value, "low": low, "high": high}
                rows.append({**row, "runs": len(runs)})
        return rows

    def _sample_rows(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the interquartile mean over all tasks after shares of an algorithm's steps.

        A run has the score of its last evaluation until then; a share before the first one of a run is left out.
        """
        curves = self.curves[self.curves.algorithm == name].sort_values("env_steps")
        steps = curves.task.map({cell.task: cell.total_steps for cell in self.grid.cells if cell.algorithm == name})
        count = curves.groupby(["task", "seed"]).ngroups
        for percent in range(5, 105, 5):
            evaluations = curves[curves.env_steps <= 1.01 * percent / 100 * steps]  # whole rollouts
            latest = evaluations.groupby(["task", "seed"]).value.last()
            if len(latest) == count and set(evaluations.task) == set(self.grid.tasks):
                scores = self.normalized({task: latest[task].to_numpy(float) for task in self.grid.tasks})
                yield _interval_row(name, percent, *statistics.estimate(statistics.interquartile_mean, scores))

    # ---------------------------------------------------------------- files

    def _write(self, name: str, text: str) -> None:
        write_text(self.out / name, text)
        self.files.append(self.out / name)

    def _csv(self, name: str, rows: Sequence[dict[str, Any]]) -> Any:
        frame = report_library("pandas").DataFrame(rows)
        self._write(f"{name}.csv", frame.to_csv(index=False, float_format="%.8g"))
        return frame

    def _table(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        frame = self._csv(name, rows)
        self.tables[name] = frame
        if len(frame):
            text = texts_of(frame)
            style = text.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis=1)
            self._write(f"{name}.tex", style.to_latex(hrules=True, column_format="ll" + "r" * (text.shape[1] - 2)))

    def protocol(self) -> str:
        """Return what the scores are."""
        episodes = self.grid.evaluation.last_episodes
        return (
            f"Scores are final ones over {episodes} episodes, of the checkpoint with the best eval/score in training."
        )

    def _documents(self, pictures: Sequence[str]) -> None:
        """Write the tables and the figures as a page of Markdown and one of HTML."""
        scheme = ", ".join(f"{name} [{low:g}, {high:g}]" for name, (low, high) in self.bounds.items())
        is_chosen = all(task.bounds for task in self.grid.tasks.values())
        complete = self.complete()
        partial = [name for name in self.algorithms if name not in complete]
        notes = [
            f"{self.protocol()} Scores over tasks are normalized linearly, so that these bounds are 0 and 1: {scheme}"
            + ("." if is_chosen else "; where none are chosen, they are the lowest and the highest final score."),
            "Intervals are 95 % of the stratified bootstrap over runs (Agarwal et al. 2021).",
            *([f"Without final scores on all tasks: {', '.join(partial)}."] if partial else []),
            *(f"Threshold of {name}: {task.source}" for name, task in self.grid.tasks.items() if task.source),
        ]
        titles = {
            "aggregate": "Over all tasks",
            "improvement": "Probability of improvement",
            "partners": "With partners of other seeds",
            "tasks": "By task",
        }
        lines, blocks = ["# Report", *notes], ["<h1>Report</h1>", *(f"<p>{html.escape(note)}</p>" for note in notes)]
        for name, title in titles.items():
            frame = self.tables[name]
            if len(frame):
                text = texts_of(frame)
                lines += [f"## {title}", markdown_of(text)]
                blocks += [f"<h2>{title}</h2>", text.to_html(index=False, border=0)]
        lines += [f"![{name.removesuffix('.svg')}]({name})" for name in pictures]
        blocks += [f'<img src="{name}" alt="{name.removesuffix(".svg")}">' for name in pictures]
        self._write("report.md", "\n\n".join(lines) + "\n")
        self._write("report.html", HTML.format(body="\n".join(blocks)))

    def marl_eval(self) -> dict[str, Any]:
        """Return the scores in the format of marl-eval: environment, task, algorithm, seed, step."""
        result: dict[str, Any] = {}
        env_ids = {cell.task: str(cell.settings["env_id"]) for cell in self.grid.cells}
        curves = dict(iter(self.curves.sort_values("env_steps").groupby(["task", "algorithm", "seed"])))
        for (task, algorithm, seed), rows in self.final.groupby(["task", "algorithm", "seed"], sort=False):
            evaluations = curves[task, algorithm, seed].itertuples() if (task, algorithm, seed) in curves else ()
            run: dict[str, Any] = {
                f"step_{index}": {"step_count": int(row.env_steps), "score": [float(row.value)]}
                for index, row in enumerate(evaluations)
            }
            run["absolute_metrics"] = {"score": [float(rows.value.iloc[0])]}
            by_task = result.setdefault(env_ids.get(task) or task, {}).setdefault(task, {})
            by_task.setdefault(algorithm, {})[f"seed_{seed}"] = run
        return result


HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Report</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}}
table{{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}}
th,td{{padding:.2rem .6rem;border-bottom:1px solid #ddd;text-align:right}}img{{max-width:100%}}</style>
{body}
</html>
"""
"""Page of a report."""


def _estimate_cells(measure: str, scores: Scores) -> dict[str, float]:
    return _interval_cells(measure, statistics.estimate(MEASURES[measure], scores))


def _interval_cells(title: str, estimate: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip((title, f"{title} low", f"{title} high"), estimate, strict=True))


def _improvement_rows(scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """Return the probability of improvement of every pair of algorithms with its interval."""
    columns = ("algorithm", "other", "probability", "low", "high")
    estimates = statistics.improvements(scores)
    return [dict(zip(columns, (*pair, *estimate), strict=True)) for pair, estimate in estimates.items()]


def _profile_rows(name: str, scores: Scores) -> list[dict[str, Any]]:
    shares = statistics.performance_profile(scores, PROFILE)
    return [_interval_row(name, *cells) for cells in zip(PROFILE, *shares, strict=True)]


def _interval_row(algorithm: str, x: float, value: float, low: float, high: float) -> dict[str, Any]:
    """Return a point of a line with its interval, see `Figures.lines`."""
    return {"algorithm": algorithm, "x": x, "value": value, "low": low, "high": high}


def texts_of(frame: Any) -> Any:
    """Return a table for reading: an estimate and its interval in one column, rounded numbers, no empty columns."""
    columns: dict[str, list[str]] = {}
    for name in frame.columns:
        if name.endswith((" low", " high")) or name in ("low", "high") or frame[name].isna().all():
            continue
        low, high = (f"{name} {end}" if name != "probability" else end for end in ("low", "high"))
        if low in frame:
            triples = zip(frame[name], frame[low], frame[high], strict=True)
            columns[name] = [
                _text(value) if math.isnan(low) else f"{_text(value)} [{_text(low)}, {_text(high)}]"
                for value, low, high in triples
            ]
        else:
            columns[name] = [_text(value) for value in frame[name]]
    return report_library("pandas").DataFrame(columns)


def markdown_of(text: Any) -> str:
    """Return a table of texts as Markdown."""
    lines = [list(text.columns), ["---"] * text.shape[1], *text.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if math.isnan(value):
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
