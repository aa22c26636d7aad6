"""Tests of the viewer's answers about experiments: curves, final scores, runs, growing and damaged folders."""

import csv
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from viewer_requests import Answer
from watch_runs import ask, until

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from league.cli.watch import watch_command
from league.watch import api as answers
from league.watch.api import UnknownAnswerError, open_source
from trainers.base.serialization import write_json
from trainers.experiments import Experiment
from trainers.storage.config_yaml import format_config
from trainers.storage.folder_lock import FolderLock

FILE = {
    "seeds": 3,
    "settings": {"total_steps": 400, "num_envs": 8, "device": "cpu"},
    "tasks": {"tag": {"settings": {"env_id": "SimpleTag-v0"}, "threshold": 3}},
    "algorithms": {"ppo": None, "a2c": None},
}


def write_evaluations(run, scores, final=None):
    """Write the files of a run with an evaluation every 100 steps, and of a complete one with its final score."""
    run.mkdir(parents=True, exist_ok=True)
    rows = [f"{i},{100 * i},{i}.5,{score}\n" for i, score in enumerate(scores, start=1)]
    (run / "metrics.csv").write_text("iteration,env_steps,seconds,eval/score\n" + "".join(rows))
    if final is not None:
        write_json(run / "trained.json", {"exit": 0})
        scores = {"random": {"env_steps": 100 * len(rows), "eval/score": final}}
        write_json(run / "final.json", {"scores": scores, "episodes": 640, "greedy": False})


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an experiment: ppo with a complete run and two that are half done, a2c has not begun."""
    path = tmp_path / "paper"
    cell = path / "runs/tag/ppo"
    for seed, scores in enumerate(([1.0, 2.0, 4.0, 5.0], [0.0, 4.0], [2.0, 0.5])):
        write_evaluations(cell / f"seed-{seed}", scores, final=4.5 if seed == 0 else None)
    (path / "experiment.yaml").write_text(format_config(FILE))
    (cell / "settings.yaml").write_text("env_id: SimpleTag-v0\ntotal_steps: 400\nalgorithm: ppo\n")
    return path


def test_cells_have_curves_final_scores_and_runs(folder, watched):
    api = watched(folder)
    run = ask(api, "run")
    assert (run["name"], run["kind"], run["env_id"], run["algorithm"]) == (
        "paper", "experiment", "SimpleTag-v0", "ppo, a2c",
    )  # fmt: skip
    assert (run["state"], run["done"], run["total"], run["config"]["seeds"]) == ("stopped", 1, 6, 3)
    answer = ask(api, "experiment")
    assert answer["version"] == run["version"]
    assert answer["tasks"] == {"tag": {"score": "eval/score", "threshold": 3.0}}
    ppo, a2c = answer["cells"]
    assert (ppo["task"], ppo["algorithm"], ppo["final"]) == ("tag", "ppo", [4.5, None, None])  # one run has no interval
    assert [point[:2] for point in ppo["curve"]] == [[100, 1.0], [200, pytest.approx(6.5 / 3)]]  # of all seeds
    assert all(low < mean < high for _, mean, low, high in ppo["curve"])
    assert [entry["share"] for entry in ppo["runs"]] == [1.0, 0.5, 0.5]
    assert [entry["complete"] for entry in ppo["runs"]] == [True, False, False]
    assert (a2c["curve"], a2c["final"], {entry["share"] for entry in a2c["runs"]}) == ([], None, {None})


def test_baselines_are_rows_with_a_final_score(folder, watched):
    write_json(folder / "sb3.json", {"tag": {"scores": [2.0, 2.0]}})
    (folder / "experiment.yaml").write_text(format_config({**FILE, "baselines": {"sb3": "sb3.json"}}))
    *_, baseline = ask(watched(folder), "experiment")["cells"]
    assert baseline == {"task": "tag", "algorithm": "sb3", "curve": [], "final": [2.0, 2.0, 2.0], "runs": []}


def test_curves_and_final_scores_equal_those_of_the_report(folder, watched):
    write_evaluations(folder / "runs/tag/ppo/seed-1", [0.0, 4.0, 4.0, 4.0], final=2.5)
    Experiment(folder).report()
    (cell, _) = ask(watched(folder), "experiment")["cells"]
    with (folder / "report/curves.csv").open() as file:
        rows = [[float(row[name]) for name in ("x", "value", "low", "high")] for row in csv.DictReader(file)]
    assert cell["curve"] == [pytest.approx(row) for row in rows]
    with (folder / "report/tasks.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert cell["final"] == pytest.approx([float(row[name]) for name in ("mean", "mean low", "mean high")])


def test_running_experiment_gives_new_snapshots(folder, watched):
    api, cell = watched(folder), folder / "runs/tag/ppo"
    first = ask(api, "run")
    with FolderLock(folder):
        assert ask(api, "run")["state"] == "running"
        for seed in (1, 2):
            write_evaluations(cell / f"seed-{seed}", [1.0] * 4, final=1.0)
        until(lambda: ask(api, "run")["done"] == 3)
    until(lambda: ask(api, "run")["version"] > first["version"])  # the snapshot follows the number of runs
    assert [point[0] for point in ask(api, "experiment")["cells"][0]["curve"]] == [100, 200, 300, 400]
    (folder / "experiment.yaml").write_text(format_config({**FILE, "seeds": 4}))
    until(lambda: ask(api, "run")["total"] == 8)
    for seed in range(3):
        write_evaluations(folder / f"runs/tag/a2c/seed-{seed}", [1.0] * 4, final=1.0)
    (folder / "experiment.yaml").write_text(format_config(FILE))
    until(lambda: ask(api, "run")["state"] == "finished")


def test_runs_are_shown_by_their_names(folder, training, watched):
    run = folder / "runs/tag/ppo/seed-1"
    shutil.rmtree(run)
    shutil.copytree(training, run)
    api = watched(folder)
    assert ask(api, "runs/tag/ppo/seed-1/run")["policies"]["agent"] == ["random", "000000002", "000000004"]
    assert ask(api, "runs/tag/ppo/seed-1/metrics")["x"] == "env_steps"
    assert ask(api, "runs/tag/ppo/seed-1/rollout", "worlds=1")["env_id"] == "SimpleTag-v0"
    with pytest.raises(ConfigError, match=r"runs/tag/a2c/seed-0: expected the folder of a run, .* got no folder$"):
        ask(api, "runs/tag/a2c/seed-0/run")
    shutil.copytree(training, folder / "runs/tag/a2c/seed-0")  # it begins
    assert ask(api, "runs/tag/a2c/seed-0/run")["kind"] == "training"
    for name in ("metrics", "rollout", "runs/tag/ppo/seed-7/run", "runs/tag/ppo/../../run", "runs/tag/ppo/seed-1/"):
        with pytest.raises(UnknownAnswerError, match="there is no such answer"):
            ask(api, name)


def test_requests_are_answered_while_a_run_is_loaded(folder, training, serving_command, monkeypatch):
    runs = [f"runs/tag/ppo/seed-{seed}" for seed in (1, 2)]
    for run in runs:
        shutil.rmtree(folder / run)
        shutil.copytree(training, folder / run)
    begun, released, opened = threading.Event(), threading.Event(), []

    def open_run(path):
        if path == folder / runs[0]:
            opened.append(path)
            begun.set()
            assert released.wait(300)
        return open_source(path)

    port = serving_command(watch_command, [str(folder)])
    monkeypatch.setattr(answers, "open_source", open_run)
    with ThreadPoolExecutor() as pool:
        try:
            slow = [pool.submit(Answer, port, f"/api/{runs[0]}/{part}") for part in ("run", "metrics")]
            assert begun.wait(300)
            for path in ("/api/experiment", f"/api/{runs[1]}/run", f"/api/{runs[1]}/rollout?policies=random&worlds=1"):
                assert Answer(port, path).status == 200
            assert not any(answer.done() for answer in slow)
        finally:
            released.set()
        assert [answer.result().status for answer in slow] == [200, 200]
    assert len(opened) == 1, "both requests got the run that was loaded once"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("experiment.yaml", "tasks: [", "experiment.yaml: "),
        ("experiment.yaml", "seeds: 3", "experiment.yaml: tasks: expected a mapping with one entry or more, got none"),
        ("runs/tag/ppo/settings.yaml", "total_steps: many", "total_steps: expected an int, got 'many'"),
        ("runs/tag/ppo/seed-0/metrics.csv", "iteration,env_steps\n1\n", "metrics.csv: line 2: expected 2 cells, got 1"),
        ("runs/tag/ppo/seed-0/final.json", "{", "final.json: expected JSON"),
        ("runs/tag/ppo/seed-0/final.json", "{}", "final.json: expected a field 'scores', got none"),
        (
            "runs/tag/ppo/seed-0/final.json",
            '{"scores": {"random": {}}, "episodes": 1, "greedy": true}',
            "final.json: scores: random: expected env_steps, got none; remove the file",
        ),
    ],
)
def test_damaged_files_are_reported_in_one_line(folder, file, content, message):
    (folder / file).write_text(content)
    with pytest.raises((CheckpointError, ConfigError)) as error:
        open_source(folder).read()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["experiment.yaml", "runs/tag/ppo/seed-0/metrics.csv"])
def test_damaged_file_is_reported_until_it_is_readable(folder, watched, name):
    api, file = watched(folder), folder / name
    intact = file.read_bytes()
    file.write_text("iteration: [\n")
    until(lambda: name in (ask(api, "run")["problem"] or ""))
    with pytest.raises(GpuEnvsError, match=name):  # it is not taken for the last one
        api.latest.source.read()
    assert ask(api, "experiment")["cells"][0]["curve"], "of the last snapshot"
    file.write_bytes(intact)
    until(lambda: ask(api, "run")["problem"] is None)


def test_experiment_without_runs_has_empty_cells(folder, watched):
    shutil.rmtree(folder / "runs")
    api = watched(folder)
    assert [cell["curve"] for cell in ask(api, "experiment")["cells"]] == [[], []]
    assert (ask(api, "run")["state"], ask(api, "run")["done"]) == ("stopped", 0)


def test_experiments_are_not_exported(folder, tmp_path):
    with pytest.raises(GpuEnvsError, match=r"--export: expected a training or a league, got several runs in .*paper; "):
        watch_command([str(folder), "--export", str(tmp_path / "page.html")])
    assert not (tmp_path / "page.html").exists()
