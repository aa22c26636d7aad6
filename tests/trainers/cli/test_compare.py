"""`gpu-envs compare`: groups of recorded runs, their names, the report, and what is refused."""

import csv
import dataclasses

import pytest

from gpu_envs.errors import ConfigError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base.serialization import write_json
from trainers.cli.compare import compare_command
from trainers.config.train_config import TrainConfig
from trainers.storage import run_folder, seed_metrics

STEPS = 300


def record(path, score, seed=0, rate=1e-3, column="eval/score", steps=STEPS, **settings):
    """Write the files of a run whose score rises to `score` in three evaluations."""
    settings = {"env_id": "CartPole-v1", **settings}
    config = TrainConfig(total_steps=STEPS, seed=seed, learner=PPOConfig(learning_rate=rate), **settings)
    path.mkdir(parents=True)
    write_json(path / "config.json", dataclasses.asdict(config))
    seed_metrics.write_rows(
        path / "metrics.csv",
        [{"iteration": i, "env_steps": i * steps // 3, "seconds": float(i), column: score * i / 3} for i in (1, 2, 3)],
    )
    return str(path)


def table(out):
    with (out / "tasks.csv").open() as file:
        return {row["algorithm"]: row for row in csv.DictReader(file)}


def compare(tmp_path, *words):
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    assert compare_command([*words, "--output", str(tmp_path / "report")]) == 0
    return table(tmp_path / "report")


def test_runs_that_differ_in_their_seed_are_a_group_named_by_its_settings(tmp_path, capsys):
    for seed in range(3):
        record(tmp_path / "sweep" / f"low-{seed}", 10.0 * (seed + 1), seed, num_threads=seed)
        record(tmp_path / "sweep" / f"high-{seed}", 50.0, seed, rate=1e-2)
    rows = compare(tmp_path, str(tmp_path / "sweep"))
    assert rows.keys() == {"learning_rate=0.01", "learning_rate=0.001"}
    row = rows["learning_rate=0.001"]
    assert (row["runs"], float(row["mean"])) == ("3", 20.0)
    assert 10.0 <= float(row["mean low"]) < 20.0 < float(row["mean high"]) <= 30.0
    printed = capsys.readouterr().out
    assert "learning_rate=0.001  3     20 [10, 30]" in printed
    assert "final eval score (return per team) on CartPole-v1:\n" in printed
    assert "p: of the Mann-Whitney test against learning_rate=0.01\n" in printed
    for name in ("curves.csv", "curves.png", "curves.svg", "tasks.tex", "report.md"):
        assert f"{tmp_path / 'report' / name}\n" in printed
        assert (tmp_path / "report" / name).stat().st_size > 0


def test_curves_are_means_over_the_seeds_of_a_folder(tmp_path):
    for seed in (4, 5):
        record(tmp_path / "seeds" / f"seed-{seed}", 30.0 * (seed - 3), seed)
    run_folder.write_seeds(tmp_path / "seeds", 2, {"seed": 4})
    assert compare(tmp_path, str(tmp_path / "seeds")).keys() == {"ppo"}
    with (tmp_path / "report" / "curves.csv").open() as file:
        curve = [(int(row["x"]), float(row["value"]), int(row["runs"])) for row in csv.DictReader(file)]
    assert curve == [(100, 15.0, 2), (200, 30.0, 2), (300, 45.0, 2)]


def test_groups_may_have_names_and_other_columns_are_compared(tmp_path, capsys):
    column = "agent/episode_return_mean"
    paths = [record(tmp_path / f"{i}", 3.0, i, column=column) for i in (0, 1)]
    rows = compare(tmp_path, f"mine={paths[0]}", f"other run={paths[1]}", "--score", column)
    assert rows.keys() == {"mine", "other run"}
    assert rows["mine"]["mean low"] == "", "one run has no interval"
    assert "mine       1     3     3  " in capsys.readouterr().out
    assert "return per agent" in (tmp_path / "report" / "curves.svg").read_text()


def test_warnings_name_unfinished_runs_and_those_that_have_ended_early(tmp_path, capsys):
    record(tmp_path / "runs" / "whole", 3.0)
    record(tmp_path / "runs" / "half", 2.0, 1, steps=150)
    record(tmp_path / "runs" / "short", 1.0, 2, steps=150, max_seconds=5.0)  # its time was up
    rows = compare(tmp_path, str(tmp_path / "runs"))
    assert {name: row["runs"] for name, row in rows.items()} == {"max_seconds=5.0": "1", "max_seconds=default": "1"}
    half, short = tmp_path / "runs" / "half", tmp_path / "runs" / "short"
    assert capsys.readouterr().err.splitlines() == [
        f"gpu-envs: warning: {half}: left out, it has 150 of 300 steps; "
        f"continue it with gpu-envs train --resume {half}",
        f"gpu-envs: warning: {short}: it has 150 of 300 steps; compared as a run that has ended early by its settings",
    ]


def test_wrong_runs_are_refused_in_one_line(tmp_path):
    a = record(tmp_path / "a", 1.0)
    b = record(tmp_path / "b", 1.0, rate=1e-2)
    copy = record(tmp_path / "copy", 1.0)
    spread = record(tmp_path / "spread", 1.0, env_id="SimpleSpread-v0")
    half = record(tmp_path / "half", 1.0, steps=150)
    blind = record(tmp_path / "blind", 1.0, column="agent/episode_return_mean")
    empty = tmp_path / "empty"
    empty.mkdir()
    wrong = {
        (): "expected a folder of a training, got none",
        (a, spread): f"expected runs of one environment, got CartPole-v1 in {a} and SimpleSpread-v0 in {spread}",
        (half,): "expected a finished run, got none",
        (blind,): f"{blind}: expected evaluations, got none; train with --eval-episodes 64, or compare a column",
        (a, "--score", "eval/scor"): "did you mean eval/score",
        (a, f"x={a}"): "expected every run once, got it twice",
        (a, copy): f"ppo: expected runs with different seeds, got seed 0 in {a} and in {copy}",
        (f"x={a}", f"x={b}"): "x: expected runs that differ only in their seed, got learner.learning_rate 0.001 in",
        (f"a&b={a}",): "expected NAME=RUN with a name of letters",
        (str(empty),): "expected a training, or a folder with trainings, got neither",
        (str(tmp_path / "none"),): "got no folder",
    }
    for words, message in wrong.items():
        with pytest.raises(ConfigError) as error:
            compare_command([*words, "--output", str(tmp_path / "report")])
        assert message in str(error.value), words
        assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="expected a folder for tables and figures, got a training run"):
        compare_command([a, "--output", a])
