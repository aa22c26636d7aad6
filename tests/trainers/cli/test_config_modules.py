"""Modules that a configuration file names are imported only with --allow-import."""

import sys
from pathlib import Path

import pytest
from checkpoints import assert_equal_checkpoints
from messages import printed, refused
from small_commands import SMALL_FILE
from toy import announce

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig
from trainers.storage import checkpoint
from trainers.storage.config_yaml import CONFIG_FILE

HELPERS = Path(__file__).parents[1]
OWN_MODULE = "own_learner"


@pytest.mark.parametrize(
    "text",
    [
        "env_id: own_learner:Meet-v0",
        "env_id: gpu_envs/own_learner:Meet-v0",
        "env_id: CartPole-v1\nalgorithm: own_learner:Doubled",
    ],
)
def test_module_in_a_file_is_not_imported_without_allow_import(text, own_module, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(HELPERS)  # not even from the folder of the file
    (tmp_path / "a.yaml").write_text(text)
    for more in ([], ["--allow-import", "json"]):
        line = refused(capsys, "train", "--config", tmp_path / "a.yaml", *more)
        assert "is in the module 'own_learner', and a file cannot choose the code to run; add --allow-import" in line
        assert own_module not in sys.modules


@pytest.mark.parametrize(
    "option",
    [
        "--allow-import=own_learner",
        "--allow-import",
        "--ray-address=1.2.3.4:6379",
        "--resume=x",
        "-h",
        "--print-config",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "env_id: '{option}'",
        "env_id: CartPole-v1\nlearner: {{hidden_sizes: [64, '{option}']}}",
        "env_id: CartPole-v1\nlearner: {{hidden_sizes: ['{option}', own_learner]}}",
        "env_id: CartPole-v1\ndevice: '{option}'",
        "env_id: CartPole-v1\nalgorithm: '{option}'",
    ],
)
def test_value_of_a_file_does_not_become_an_option(text, option, own_module, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(HELPERS)
    file = tmp_path / "a.yaml"
    file.write_text(text.format(option=option))
    for command in ("train", "tune", "league train"):
        if command != "train" and "learner" in text:
            continue
        line = refused(capsys, *command.split(), "--config", file)
        assert line.startswith(f"{file}: ")
        assert f"got {option!r}, which looks like an option" in line
    assert own_module not in sys.modules


def test_own_environment_is_made_with_allow_import(tmp_path, monkeypatch, capsys):
    announce(monkeypatch)
    (tmp_path / "a.yaml").write_text("env_id: toy:Toy-v0\nenv: {length: 3}\ndevice: cpu\n")
    assert "add --allow-import toy" in refused(capsys, "train", "--config", tmp_path / "a.yaml")
    text = printed(capsys, "train", "--config", tmp_path / "a.yaml", "--allow-import", "toy")
    assert "env_id: toy:Toy-v0\n" in text
    assert "  length: 3\n" in text


@pytest.mark.slow
def test_own_learner_trains_resumes_and_repeats(own_module, tmp_path, capsys):
    (tmp_path / "a.yaml").write_text(f"{SMALL_FILE}  factor: 3\nalgorithm: own_learner:Doubled\n")
    first, second = tmp_path / "first", tmp_path / "second"
    allow = ["--allow-import", "own_learner"]
    argv = ["--config", str(tmp_path / "a.yaml"), "--run-dir", str(first), "--no-video", *allow]
    assert train_command(argv) == 0
    assert f"gpu-envs watch {first} --allow-import own_learner" in capsys.readouterr().out
    assert f"--config {first / CONFIG_FILE} --allow-import own_learner\n" in (first / CONFIG_FILE).read_text()
    assert train_command(["--config", str(first / CONFIG_FILE), "--run-dir", str(second), "--no-video", *allow]) == 0
    assert_equal_checkpoints(first, second)
    assert checkpoint.load(first).config["learner"]["factor"] == 3.0
    sys.modules.pop("own_learner")
    with pytest.raises(CheckpointError, match="its module 'own_learner' is not imported"):
        TrainConfig.of(checkpoint.load(first))
    resume = ["--resume", str(first), "--total-steps", "960", "--no-video"]
    with pytest.raises(ConfigError, match="add --allow-import own_learner if you trust it"):
        train_command(resume)
    assert train_command([*resume, *allow]) == 0


def test_typed_algorithm_imports_its_module(own_module, capsys):
    text = printed(capsys, "train", "CartPole-v1", "--device", "cpu", "--algorithm", "own_learner:Doubled")
    assert "algorithm: own_learner:Doubled\n" in text


def test_name_without_a_learner_is_refused(own_module, capsys):
    for name, words in (
        ("own_learner:Trebled", "expected a class named Trebled in own_learner, got None"),
        ("json:JSONDecoder", "expected a class named JSONDecoderConfig in json"),
        ("none_such:Learner", "No module named 'none_such'"),
    ):
        assert words in refused(capsys, "train", "CartPole-v1", "--algorithm", name)
