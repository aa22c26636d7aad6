"""Tests of the viewer's answers about several seeds of a training: the mean of their scores, and their runs."""

import dataclasses
import shutil

import pytest
from watch_runs import ask, until

from gpu_envs.errors import CheckpointError
from trainers.config.train_config import TrainConfig
from trainers.storage import run_folder
from trainers.storage.folder_lock import FolderLock


def write_metrics(run, values, column="eval/score"):
    rows = [f"{i},{20 * i},{i}.5,{value}\n" for i, value in enumerate(values, start=1)]
    (run / "metrics.csv").write_text(f"iteration,env_steps,seconds,{column}\n" + "".join(rows))


@pytest.fixture
def seeds(training, tmp_path):
    """Return the folder of two seeds: one is complete, one has half of its steps."""
    folder = tmp_path / "seeds"
    for number, values in enumerate(([1.0, 2.0, 3.0, 6.0], [3.0, 4.0])):
        shutil.copytree(training, folder / f"seed-{number}")
        write_metrics(folder / f"seed-{number}", values)
    config = TrainConfig("SimpleTag-v0", total_steps=80)
    run_folder.write_seeds(folder, 2, dataclasses.asdict(config))
    return folder


def test_seeds_have_a_mean_curve_and_their_runs(seeds, watched):
    api = watched(seeds)
    run = ask(api, "run")
    assert (run["name"], run["kind"], run["env_id"], run["algorithm"]) == ("seeds", "seeds", "SimpleTag-v0", "ppo")
    assert (run["state"], run["done"], run["total"]) == ("stopped", 1, 2)
    answer = ask(api, "experiment")
    assert answer["tasks"] == {"SimpleTag-v0": {"score": "eval/score", "threshold": None}}
    (cell,) = answer["cells"]
    assert cell["curve"] == [[20, 2.0, 1.0, 3.0], [40, 3.0, 2.0, 4.0]]  # of both seeds
    assert cell["final"] == [6.0, None, None]  # one run has no interval
    assert [(entry["name"], entry["share"], entry["complete"]) for entry in cell["runs"]] == [
        ("seed-0", 1.0, True),
        ("seed-1", 0.5, False),
    ]


def test_runs_of_seeds_are_shown_by_their_names(seeds, watched):
    api = watched(seeds)
    run = ask(api, "seed-1/run")
    assert (run["name"], run["kind"], run["env_id"]) == ("seed-1", "training", "SimpleTag-v0")
    assert [row[1] for row in ask(api, "seed-1/metrics")["rows"]] == [20, 40]


def test_running_seeds_give_new_snapshots(seeds, watched):
    api = watched(seeds)
    with FolderLock(seeds):
        assert ask(api, "run")["state"] == "running"
        write_metrics(seeds / "seed-1", [3.0, 4.0, 5.0, 8.0])
        until(lambda: ask(api, "run")["done"] == 2)
    assert ask(api, "run")["state"] == "finished"
    until(lambda: ask(api, "experiment")["cells"][0]["final"] == [7.0, 6.0, 8.0])  # it follows the number of runs


def test_seeds_without_evaluations_show_the_return_of_the_training(seeds, watched):
    for number in (0, 1):
        write_metrics(seeds / f"seed-{number}", [2.0, 2.0], "agent/episode_return_mean")
    answer = ask(watched(seeds), "experiment")
    assert answer["tasks"]["SimpleTag-v0"]["score"] == "agent/episode_return_mean"
    assert answer["cells"][0]["curve"][0] == [20, 2.0, 2.0, 2.0]


def test_seeds_without_a_run_are_refused(tmp_path, watched):
    run_folder.write_seeds(tmp_path, 2, {"seed": 7})
    with pytest.raises(CheckpointError, match="expected runs of 2 seeds such as seed-7, got none"):
        watched(tmp_path)
