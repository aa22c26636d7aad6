"""Options of trainings that take "module:NAME": schedules, callbacks and evaluation metrics."""

import csv
import sys

import pytest
from messages import refused
from named_objects import mine  # noqa: F401
from small_commands import SMALL, SMALL_FILE, no_curves  # noqa: F401

from gpu_envs import make
from gpu_envs.cli import main
from gpu_envs.definition import id_modules
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig, anneal_parameters
from trainers.storage import checkpoint
from trainers.storage.config_yaml import CONFIG_FILE

OWN = ["--learner.schedule", "mine:late", "--callback", "mine:record", "--eval-metric=mine:agent_steps"]
ALLOW = ["--allow-import", "mine"]

pytestmark = pytest.mark.usefixtures("mine", "no_curves")


def _metrics(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_training_uses_functions_of_the_working_folder(tmp_path, capsys):
    run = tmp_path / "run"
    assert train_command([*SMALL, *OWN, "--run-dir", str(run)]) == 0
    rows, called = _metrics(run), sys.modules["mine"].rows
    assert [row["iteration"] for row in rows] == [f"{row['iteration']:.0f}" for row in called]
    assert called[-1]["eval/adversary/agent_steps"] == 25 * 5
    assert len({row["agent/learning_rate"] for row in rows}) == 1, "a linear schedule falls after the first row"
    out = capsys.readouterr().out
    assert "agent_steps" in out, "in the final table"
    assert f"gpu-envs watch {run} --allow-import mine" in out
    assert f"--config {run / CONFIG_FILE} --allow-import mine\n" in (run / CONFIG_FILE).read_text()


@pytest.mark.slow
def test_recorded_functions_are_imported_on_resume_with_allow_import_only(tmp_path, capsys):
    run = tmp_path / "run"
    assert train_command([*SMALL, *OWN, "--run-dir", str(run)]) == 0
    capsys.readouterr()
    del sys.modules["mine"]
    resume = ["train", "--resume", str(run), "--total-steps", "1600", "--no-video", "--eval-episodes", "8"]
    line = refused(capsys, *resume)
    assert "'mine:" in line
    assert line.endswith("add --allow-import mine if you trust it")
    assert "mine" not in sys.modules
    assert main([*resume, *ALLOW]) == 0
    assert len(sys.modules["mine"].rows) == 3
    del sys.modules["mine"]
    assert TrainConfig.of(checkpoint.load(run)).callback == ("mine:record",), "reading a run imports nothing"
    assert main(["eval", str(run), "--episodes", "4", "--metric", "mine:agent_steps"]) == 0
    assert "agent_steps" in capsys.readouterr().out


def test_file_names_no_network_without_allow_import(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(f"{SMALL_FILE}  network: mine:Net\n")
    argv = ["--config", str(tmp_path / "a.yaml"), "--run-dir", str(tmp_path / "run"), "--total-steps", "160"]
    assert "add --allow-import mine" in refused(capsys, "train", *argv)
    assert "mine" not in sys.modules


def test_file_names_functions_only_with_allow_import(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(f"{SMALL_FILE}  schedule: mine:late\ncallback: [mine:record]\n")
    argv = ["--config", str(tmp_path / "a.yaml"), "--run-dir", str(tmp_path / "run"), "--total-steps", "160"]
    assert "add --allow-import mine" in refused(capsys, "train", *argv)
    assert "mine" not in sys.modules
    assert not (tmp_path / "run").exists()
    assert train_command([*argv, *ALLOW]) == 0
    assert len(sys.modules["mine"].rows) == 1


def test_file_names_no_function_of_a_library_that_the_program_imported(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(f"{SMALL_FILE}callback: ['os:_exit']\n")
    assert "add --allow-import os" in refused(capsys, "train", "--config", "a.yaml")


def test_annealing_follows_a_function(monkeypatch):
    id_modules.allow_import("mine")
    core, values = make("OneStepEconomy-v0", num_envs=2, device="cpu").core, []
    monkeypatch.setattr(core, "set_params", lambda **params: values.append(params))
    for steps in (0, 99, 100, 200):
        anneal_parameters(core, {"tax_limit": [0.25, 0.75, 100, "mine:late"]}, steps)
    assert [value["tax_limit"] for value in values] == [0.25, 0.25, 0.75, 0.75]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--callback=mine:none", "callback 'mine:none': expected a function of (row) named none in mine, got None"),
        ("--callback=mine:number", "expected a function of (row) named number in mine, got 3"),
        ("--callback=mine:two_arguments", "expected a function of (row) named two_arguments in mine, got <function"),
        ("--callback=mine", "--callback[0]: expected module:NAME, got 'mine'"),
        ("--callback=missing_module:f", "module 'missing_module': No module named 'missing_module'"),
        ("--learner.schedule=cosine", "learner.schedule: expected one of 'linear', module:NAME, got 'cosine'"),
        ("--learner.schedule=mine:two_arguments", "expected a function of (progress) named two_arguments in mine"),
        ("--learner.schedule=mine:without_number", "expected a finite number, got nan"),
        ("--eval-metric=mine:two_arguments", "expected a function of (episodes) named two_arguments in mine"),
        ("--eval-metric=mine:mean_length", "eval_metric mean_length: expected one number per episode (8,), got"),
        ("--eval-metric=mine:episode_length_mean", "SimpleTag-v0 has a column episode_length_mean already; rename"),
        ('--anneal=x=[0,1,9,"mine"]', "and perhaps module:NAME, a function of progress, got"),
    ],
)
def test_wrong_name_is_refused_in_one_line(option, words, capsys):
    assert main(["train", *SMALL, option, "--run-dir", "run"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert words in line
