"""Means over runs with different seeds."""

import math

import pytest

from trainers.storage import seed_metrics
from trainers.storage.learning_curves import plot_curves, read_rows


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [
        (1, 12.7062),
        (2, 4.30265),
        (4, 2.77645),
        (5, 2.57058),
        (6, 2.44691),
        (9, 2.26216),
        (29, 2.04523),
        (1000, 1.96234),
    ],
)
def test_quantiles_equal_those_of_tables(degrees, quantile):
    assert seed_metrics.student_quantile(degrees) == pytest.approx(quantile, rel=1e-3)


def test_interval_of_one_value_is_unknown():
    mean, half = seed_metrics.mean_and_interval([3.0])
    assert mean == 3.0
    assert math.isnan(half)


def test_means_are_over_runs_that_have_a_value(tmp_path):
    runs = [
        [{"iteration": str(i), "env_steps": str(8 * i), "a/x": x} for i, x in enumerate(cells, start=1)]
        for cells in (["1.0", "", "7.0"], ["3.0", "5.0"])
    ]
    rows = seed_metrics.mean_rows(runs)
    assert [(row["env_steps"], row["num_seeds"], row["a/x"]) for row in rows] == [
        (8, 2, 2.0),
        (16, 2, 5.0),
        (24, 1, 7.0),
    ]
    assert rows[0]["a/x/ci_half_width"] == pytest.approx(12.7062)
    seed_metrics.write_rows(tmp_path / "mean_metrics.csv", rows)
    read = read_rows(tmp_path / "mean_metrics.csv")
    assert [row["a/x/ci_half_width"] for row in read] == ["12.7062", "", ""]
    assert [row["num_seeds"] for row in read] == ["2", "2", "1"]


@pytest.fixture
def drawn(monkeypatch):
    """Return the axes of the pictures that a test draws, in their order."""
    figure = pytest.importorskip("matplotlib.figure")
    axes, save = [], figure.Figure.savefig
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *a, **k: (axes.extend(self.axes), save(self, *a, **k)))
    return axes


def test_returns_and_results_come_first_and_constants_are_left_out(tmp_path, drawn):
    columns = ("a/entropy", "a/gradient_steps", "a/wins_mean", "a/episode_length_mean", "a/episode_return_mean")
    columns += ("eval/a/return", "eval/score", "eval/a/wins_mean")
    rows = [{"iteration": i, "env_steps": 8 * i, **dict.fromkeys(columns, i)} for i in range(1, 4)]
    for row in rows:
        row |= {"a/gradient_steps": 16, "a/wins_mean": 0, "a/episode_length_mean": 25}
    seed_metrics.write_rows(tmp_path / "metrics.csv", rows)
    plot_curves(tmp_path / "metrics.csv", tmp_path / "curves.png")
    assert [axes.get_title() for axes in drawn] == [
        "return per agent",
        "eval return per team",
        "eval score (return per team)",
        "wins mean",
        "eval wins mean",
        "entropy",
    ]


def test_wide_band_is_cut_so_that_the_line_is_legible(tmp_path, drawn):
    rows = [{"iteration": i, "env_steps": i, "num_seeds": 2, "a/x": i, "a/x/ci_half_width": 100.0} for i in range(1, 6)]
    seed_metrics.write_rows(tmp_path / "mean_metrics.csv", rows)
    plot_curves(tmp_path / "mean_metrics.csv", tmp_path / "curves.png")
    assert drawn[0].get_ylim() == (-1.0, 7.0)  # half of the span of 1 to 5 on each side


def test_curves_have_bands_where_all_runs_have_values(tmp_path, drawn):
    rows = [
        {"iteration": i, "env_steps": 8 * i, "num_seeds": 3 if i < 4 else 2, "a/x": i, "a/x/ci_half_width": 0.5}
        for i in range(1, 6)
    ]
    seed_metrics.write_rows(tmp_path / "mean_metrics.csv", rows)
    assert plot_curves(tmp_path / "mean_metrics.csv", tmp_path / "curves.png") == tmp_path / "curves.png"
    (axes,) = drawn
    assert axes.get_title() == "x"
    assert axes.lines[0].get_xdata().tolist() == [8, 16, 24]
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0.5, 3.5)
