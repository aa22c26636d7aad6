"""Figures of reports and trainings have the colors of roles."""

import math

from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from gpu_envs.rendering.palette import PALETTE, role_colors
from league.analysis.figures import lineage_figure, rating_figure
from trainers.storage.learning_curves import plot_curves


def test_roles_of_a_report_have_their_colors():
    colors = {role: PALETTE[color] for role, color in role_colors("SimpleTag-v0", ["agent", "adversary"]).items()}
    points = {"agent": ([0, 1], [0.0, 5.0]), "adversary": ([0, 1], [math.nan, 9.0])}
    (axes,) = rating_figure(points, colors).axes
    assert [to_hex(line.get_color()) for line in axes.lines] == [PALETTE["green"], PALETTE["red"]]
    assert [to_hex(dots.get_facecolor()[0]) for dots in axes.collections] == [PALETTE["green"], PALETTE["red"]]
    (axes,) = lineage_figure(
        [{"name": "a-1", "index": 0, "parent": None, "iteration": 0, "weight": 0.5}], "Lineage", colors["adversary"]
    ).axes
    assert to_hex(axes.collections[-1].get_facecolor()[0]) == PALETTE["red"]


def test_groups_of_a_training_have_their_colors(tmp_path, monkeypatch):
    (tmp_path / "metrics.csv").write_text(
        "iteration,env_steps,agent/return,adversary/return,eval/adversary/return\n1,10,1,2,3\n2,20,2,3,4\n"
    )
    drawn, plot = {}, Axes.plot

    def recorded(axes, *args, label="", color=None, **kwargs):
        drawn.setdefault(label, set()).add(color)
        return plot(axes, *args, label=label, color=color, **kwargs)

    monkeypatch.setattr(Axes, "plot", recorded)
    plot_curves(tmp_path / "metrics.csv", tmp_path / "curves.png", "SimpleTag-v0")
    assert drawn == {"agent": {PALETTE["green"]}, "adversary": {PALETTE["red"]}}


def test_steps_have_short_labels_that_do_not_overlap(tmp_path, monkeypatch):
    rows = "".join(f"{i},{i * 25_000},{i}\n" for i in range(1, 9))
    (tmp_path / "metrics.csv").write_text(f"iteration,env_steps,agent/return\n{rows}")
    labels, save = [], Figure.savefig

    def recorded(figure, *args, **kwargs):
        save(figure, *args, **kwargs)
        labels.extend(label.get_text() for label in figure.axes[0].get_xticklabels())

    monkeypatch.setattr(Figure, "savefig", recorded)
    plot_curves(tmp_path / "metrics.csv", tmp_path / "curves.png")
    assert "200k" in labels
    assert sum(map(len, labels)) <= 30
