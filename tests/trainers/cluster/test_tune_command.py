"""The tune command and what it writes: command lines, tables of results, errors in one line."""

import dataclasses
import importlib.util
import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from tuned_cartpole import cartpole

from gpu_envs.errors import ConfigError, GpuEnvsError, MissingExtraError
from trainers.cli.options import parse_train
from trainers.cli.tune import tune_command
from trainers.cluster import tune_results
from trainers.cluster import tune_search as tuning
from trainers.cluster.tune_results import command_line
from trainers.cluster.tune_trial import TuneConfig
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig, changed


@pytest.mark.parametrize(
    "config",
    [
        preset("SimpleSpread-v0", "cpu"),
        changed(
            preset("SimpleSpread-v0", "cpu", "mappo"), {"learner.hidden_sizes": (32, 16), "learner.squash": True}, "it"
        ),
        changed(preset("SimpleTag-v0", "cpu"), {"learner.normalize_obs": False, "learner.target_kl": 0.1}, "it"),
        TrainConfig("SimpleTag-v0", env={"max_cycles": 10}, policies={"agent": "runner"}, patience=3, cuda_graph=False),
        changed(preset("Pendulum-v1", "cpu", "sac"), {"learner.learning_rate": 1.5e-7, "num_envs": 3}, "it"),
    ],
)
def test_command_lines_give_the_configuration(config):
    words = shlex.split(command_line(config))
    assert words[:2] == ["gpu-envs", "train"]
    parsed, _, resume = parse_train(words[2:])
    assert resume is None
    assert parsed == config


def test_results_without_any_score(tmp_path):
    config, plan = cartpole(), TuneConfig("none", num_samples=1)
    content = {"format": tune_results.FORMAT, "config": dataclasses.asdict(config), "plan": dataclasses.asdict(plan)}
    (tmp_path / "search.json").write_text(json.dumps({**content, "search": {}, "trials": 1}))
    metrics = {"steps": 64, "done": True, "failed": "the training has diverged", "config": {"learner.gamma": 0.5}}

    class Grid(list):
        num_terminated, num_errors = 1, 0

    grid = Grid([SimpleNamespace(metrics=metrics, best_checkpoints=[], error=None, path=str(tmp_path / "trial-00000"))])
    with pytest.raises(GpuEnvsError, match="none of 1 trials has a score: the training has diverged"):
        tune_results.read_results(grid, tmp_path)
    written = json.loads((tmp_path / "tune.json").read_text())
    assert written["best"]["config"] is None
    assert written["trials"][0]["state"] == "failed"


def test_interrupted_search_has_a_table():
    """Trials that have not started have no settings yet."""
    done = tune_results.TrialResult(
        "trial-00000",
        {"learner.gamma": 0.5, "learner.learning_rate": 0.00012083291, "seed": 3},
        12.3456,
        1536,
        "finished",
        "somewhere",
    )
    left = tune_results.TrialResult("trial-00001", {}, None, 0, "unfinished", None)
    lines = tune_results.TuneResult(cartpole(), 12.0, Path("x"), (done, left), Path("run"), False).table().splitlines()
    assert lines[0].split() == ["trial", "score", "steps", "learner.gamma", "learner.learning_rate", "seed"]
    assert lines[1].split() == ["1", "trial-00000", "12.35", "1,536", "finished", "0.5", "0.000121", "3"]
    assert lines[2].split() == ["2", "trial-00001", "-", "0", "unfinished", "-", "-", "-"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "expected an environment, got none"),
        (["CartPole-v1"], "search: expected a setting to search, got none"),
        (["CartPole-v1", "--search", "learner.gamma=eval(1)"], "expected one of loguniform"),
        (
            ["CartPole-v1", "--search", "learner.gama=uniform(0,1)"],
            "named 'learner.gama'; did you mean learner.gamma?",
        ),
        (
            ["CartPole-v1", "--scheduler", "asha", "--perturbation-interval", "5"],
            "--perturbation-interval = 5: has no effect with --scheduler = 'asha'",
        ),
        (
            ["CartPole-v1", "--train-overrides", "total_steps=5", "--search", "seed=grid(1,2)"],
            "--train-overrides: no setting named 'total_steps'",
        ),
        (["CartPole-v1", "--resume", "somewhere"], "--resume continues with the recorded settings"),
    ],
)
def test_command_reports_errors_in_one_line(words, line):
    with pytest.raises(ConfigError, match=line) as refused:
        tune_command([*words, *(["--device", "cpu"] if words and "--resume" not in words else [])])
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
@pytest.mark.parametrize(
    "words", [["CartPole-v1", "--search", "learner.gamma=uniform(0.9,1)"], ["--resume", "out/tune"]]
)
def test_without_ray_the_extra_is_named(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        MissingExtraError, match=r"gpu-envs tune needs ray: pip install .*('ray\[default,train,tune\]>=|\[ray\])"
    ):
        tune_command(words)
    assert not list(Path().iterdir())


def test_help_shows_an_example(capsys):
    with pytest.raises(SystemExit) as stop:
        tune_command(["--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    assert "gpu-envs tune SimpleSpread-v0 --search" in output


def test_search_with_pickles_is_resumed_only_where_they_are_allowed(tmp_path):
    plan, config = dataclasses.asdict(TuneConfig()), dataclasses.asdict(preset("CartPole-v1", "cpu"))
    search = {
        "format": tune_results.FORMAT,
        "config": config,
        "plan": plan,
        "search": {"seed": "grid(1,2)"},
        "trials": 2,
    }
    (tmp_path / "search.json").write_text(json.dumps(search))
    with pytest.raises(ConfigError, match=r"tune: Ray Tune keeps a search in pickles.*add --allow-pickle"):
        tuning.resume(tmp_path)
