"""Statistics of experiments against rliable, and their scores read by marl-eval."""

import json

import numpy as np
import pytest
from marl_eval.utils.data_processing_utils import create_matrices_for_rliable, data_process_pipeline
from marl_eval.utils.diagnose_data_errors import DiagnoseData
from numpy.random import RandomState
from rliable import library, metrics

from trainers.experiments import statistics
from trainers.experiments.grid import Cell, EvaluationProtocol, ExperimentTask, Grid
from trainers.experiments.report import ExperimentReport, frame_of

RESAMPLES = 500
MEASURES = [
    (statistics.mean, metrics.aggregate_mean),
    (statistics.median, metrics.aggregate_median),
    (statistics.interquartile_mean, metrics.aggregate_iqm),
    (statistics.optimality_gap, metrics.aggregate_optimality_gap),
]


def scores(seed, runs=7, tasks=4):
    """Return scores (N, tasks), some of them equal and above 1."""
    return np.random.default_rng(seed).gamma(2.0, 0.3, size=(runs, tasks)).round(2)


def by_task(matrix):
    return {f"task-{number}": column for number, column in enumerate(matrix.T)}


@pytest.mark.parametrize(("measure", "original"), MEASURES, ids=lambda function: function.__name__)
def test_measures_and_intervals_equal_those_of_rliable_with_the_same_resamples(monkeypatch, measure, original):
    matrix, resamples = scores(0), []

    def record(resample):
        resamples.append(resample.copy())
        return np.array([original(resample)])

    bootstrap = library.StratifiedBootstrap(matrix, random_state=RandomState(3))
    expected = bootstrap.conf_int(record, method="percentile", reps=RESAMPLES)
    drawn = np.moveaxis(np.stack(resamples[-RESAMPLES:]), 2, 0)  # one more is of the scores themselves
    monkeypatch.setattr(statistics, "resampled", lambda *_: list(drawn))
    value, low, high = statistics.estimate(measure, by_task(matrix))
    assert value == pytest.approx(original(matrix), abs=1e-12)
    assert (low, high) == pytest.approx((expected[0, 0], expected[1, 0]), abs=1e-12)
    assert low < value < high


def test_intervals_of_other_resamples_are_near_those_of_rliable():
    matrix = scores(1)
    _, low, high = statistics.estimate(statistics.interquartile_mean, by_task(matrix), 20_000)
    estimates = library.get_interval_estimates(
        {"a": matrix}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=20_000, random_state=RandomState(0)
    )[1]["a"]
    assert (low, high) == pytest.approx((estimates[0, 0], estimates[1, 0]), abs=5e-3)


def test_performance_profile_equals_that_of_rliable():
    matrix, thresholds = scores(2), np.linspace(0.0, 2.0, 41)
    expected = library.create_performance_profile({"a": matrix}, thresholds, reps=10)[0]["a"]
    np.testing.assert_allclose(statistics.performance_profile(by_task(matrix), thresholds)[0], expected, atol=1e-12)


def test_probability_of_improvement_equals_that_of_rliable():
    first, second = scores(3), scores(4, runs=5)
    value, low, high = statistics.improvement(by_task(first), by_task(second))
    assert value == pytest.approx(metrics.probability_of_improvement(first, second), abs=1e-12)
    assert low < value < high


def test_scores_are_read_by_marl_eval(tmp_path):
    finals = {"ppo": scores(5, runs=3, tasks=2), "a2c": scores(6, runs=3, tasks=2)}
    tasks = {name: ExperimentTask({}, score="eval/score") for name in ("task-0", "task-1")}
    cells = tuple(Cell(task, name, "train", {"env_id": "Toy-v0"}) for task in tasks for name in finals)
    rows = []
    for name, matrix in finals.items():
        for seed, values in enumerate(matrix):
            for task, value in zip(tasks, values, strict=True):
                row = {"task": task, "algorithm": name, "seed": seed, "opponents": "", "metric": "eval/score"}
                rows += [
                    {**row, "env_steps": 10 * step, "seconds": step, "final": 0, "value": value * step / 3}
                    for step in (1, 2)
                ]
                rows.append({**row, "env_steps": 20, "seconds": 2, "final": 1, "value": value})
    grid = Grid(tasks, cells, range(3), EvaluationProtocol(), {}, "")
    ExperimentReport(grid, frame_of(rows), tmp_path).write()
    data = json.loads((tmp_path / "marl_eval.json").read_text())
    assert DiagnoseData(data).check_data()["toy-v0"]["valid_metrics"]
    processed = data_process_pipeline(data, metrics_to_normalize=["score"])
    absolute, curves = create_matrices_for_rliable(processed, "Toy-v0", metrics_to_normalize=["score"])
    low = np.minimum(*(np.minimum(m.min(0), m.min(0) / 3) for m in finals.values()))
    high = np.maximum(*(m.max(0) for m in finals.values()))
    for name, matrix in finals.items():
        np.testing.assert_allclose(absolute["mean_norm_score"][name], (matrix - low) / (high - low), atol=1e-4)
        assert curves["mean_norm_score"][name].shape == (3, 2, 2)
