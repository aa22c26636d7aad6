"""`gpu-envs train` on a real environment: files, options, progress, errors in one line."""

import json
import re
import sys

import pytest
import torch
from checkpoints import iterations_of
from small_commands import SMALL, WITHOUT_VIDEO, run  # noqa: F401

from gpu_envs.cli import main
from gpu_envs.errors import CheckpointError, ConfigError, DeviceError, UnknownEnvironmentError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.evaluate import eval_command
from trainers.cli.options import parse_train
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows


def test_train_writes_all_files(run, capsys):
    for file in ("config.json", "metrics.csv", "curves.png", "cross_play.json"):
        assert (run / file).stat().st_size > 0, file
    assert iterations_of(run) == list(range(1, 8))  # 1000 steps are 6.25 rollouts of 160
    config = json.loads((run / "config.json").read_text())
    assert (config["env_id"], config["env"], config["learner"]["hidden_sizes"]) == (
        "SimpleTag-v0",
        {"num_good": 2},
        [16],
    )
    assert len(json.loads((run / "cross_play.json").read_text())["matchups"]) == 4


def test_errors_print_one_line(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for error, message, argv in [
        (UnknownEnvironmentError, "SimpleTag-v0", ["SimpleTga-v0"]),
        (ConfigError, "num_goood", ["SimpleTag-v0", "--env-arg", "num_goood=2", "--run-dir", str(tmp_path)]),
        (ConfigError, "expected NAME=VALUE", ["SimpleTag-v0", "--env-arg", "num_good", "--run-dir", str(tmp_path)]),
        (
            ConfigError,
            r"learner.gamma: expected a finite number in \[0, 1\], got 2.0",
            ["SimpleTag-v0", "--learner.gamma", "2"],
        ),
        (ConfigError, r"seed: expected an int in \[0, 2\*\*63\), got 9{20}", ["SimpleTag-v0", "--seed", "9" * 20]),
        (ConfigError, "expected a name of letters, digits, _ and -, got '1'", [*SMALL, "--policy", "adversary=1"]),
        (ConfigError, "--policy agent: expected GROUP=POLICY, such as adv", ["SimpleTag-v0", "--policy", "agent"]),
        (ConfigError, "--num-envs: expected an int >= 1, got 0", ["SimpleTag-v0", "--num-envs", "0"]),
        (
            ConfigError,
            "can be made, got the file .*config.json$",
            ["SimpleTag-v0", "--run-dir", str(run / "config.json" / "x")],
        ),
        (ConfigError, "there is a run already", [*SMALL, "--run-dir", str(run)]),
        (CheckpointError, "got neither", ["SimpleTag-v0", "--resume", str(tmp_path / "nothing")]),
        (DeviceError, "tpu", ["SimpleTag-v0", "--device", "tpu"]),
        (DeviceError, "tpu", ["SimpleTag-v0", "--device", "tpu", "--num-workers", "2"]),
        (
            ConfigError,
            "device: expected 'cuda', because Ray assigns GPUs to workers, got 'cuda:1'",
            ["SimpleTag-v0", "--device", "cuda:1", "--ray-address", "auto"],
        ),
        (ConfigError, "expected an environment, got none", []),
        (ConfigError, "expected an environment, got none", ["--seed", "1"]),
        (ConfigError, "Missing value for argument '--seed'", ["SimpleTag-v0", "--seed"]),
        (ConfigError, "--env-arg seed=3: .* use --seed", ["SimpleTag-v0", "--env-arg", "seed=3"]),
        (CheckpointError, "expected TagContinuous-v0, got SimpleTag-v0", ["TagContinuous-v0", "--resume", str(run)]),
    ]:
        with pytest.raises(error, match=message) as caught:
            train_command(argv)
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_scripted_opponents_of_evaluations_are_recorded_by_name(capsys):
    argv = ["SimpleTag-v0", "--device", "cpu", "--print-config"]
    assert train_command([*argv, "--eval-opponents", "scripted"]) == 0
    assert "\neval_opponents: scripted\n" in capsys.readouterr().out
    with pytest.raises(CheckpointError, match=r"^scripted: expected a checkpoint"):
        train_command([*argv, "--init-from", "scripted"])


@pytest.mark.slow
def test_train_against_a_checkpoint(run, tmp_path):
    """And with deterministic algorithms: nothing that a small training needs is refused."""
    options = [*SMALL, "--total-steps", "320", "--deterministic", "--no-video"]
    with pytest.raises(CheckpointError, match="got neither"):
        train_command([*options, "--eval-opponents", str(tmp_path / "none"), "--run-dir", str(tmp_path / "a")])
    assert not (tmp_path / "a").exists()
    assert train_command([*options, "--eval-opponents", str(run), "--run-dir", str(tmp_path / "a")]) == 0
    assert not torch.are_deterministic_algorithms_enabled()
    recorded = json.loads((tmp_path / "a" / "config.json").read_text())
    assert recorded["eval_opponents"] == str(checkpoint.find(run).resolve())  # it stays the same if the run continues
    row = read_rows(tmp_path / "a" / "metrics.csv")[-1]
    returns = [float(row[f"eval/{name}/return"]) for name in ("adversary", "agent")]
    assert float(row["eval/score"]) == pytest.approx(sum(returns) / 2, rel=1e-5)
    assert train_command(["--resume", str(tmp_path / "a"), "--total-steps", "480", "--no-video"]) == 0


def test_order_of_options_does_not_matter(run):
    usual = parse_train(["SimpleTag-v0", "--seed", "1", "--env-arg", "num_good=2"])
    assert usual[0].num_envs == 128  # the preset's, not the general 64
    assert usual[0] == parse_train(["--seed", "1", "SimpleTag-v0", "--env-arg", "num_good=2"])[0]
    assert usual[0] == parse_train(["--env-arg", "num_good=2", "--seed=1", "gpu_envs/SimpleTag-v0"])[0]
    resumed = parse_train(["SimpleTag-v0", "--resume", str(run), "--device", "cpu"])
    assert (resumed[0].num_envs, resumed[0].learner.hidden_sizes, resumed[0].env) == (16, (16,), {"num_good": 2})
    assert resumed[2].path.parent == run / "checkpoints"
    for argv in (["--device=cpu", "--resume", str(run), "SimpleTag-v0"], [f"--resume={run}"]):
        other = parse_train(argv)
        assert other[0] == resumed[0]
        assert other[2].path == resumed[2].path
    assert parse_train(["--learner.hidden_sizes", "8", "9", "SimpleTag-v0"])[0].learner.hidden_sizes == (8, 9)


def test_error_without_a_box_is_one_line(capsys):
    assert main(["train", "SimpleTag-v0", "--num-envs", "x"]) == 2
    expected = "gpu-envs: error: train: --num-envs: expected an int, got 'x'; see gpu-envs train --help\n"
    assert capsys.readouterr() == ("", expected)


def test_help_shows_the_values_of_the_preset(capsys):
    for argv, num_envs in ((["--help"], 64), (["-h", "SimpleTag-v0"], 128)):
        with pytest.raises(SystemExit) as stop:
            train_command(argv)
        assert not stop.value.code
        assert re.search(rf"--num-envs INT[^(]*\(default:\s+{num_envs}\)", capsys.readouterr().out)


def test_missing_extras_keep_exit_code_of_finished_training(tmp_path, monkeypatch, capsys):
    for name in ("matplotlib.figure", "imageio_ffmpeg"):
        monkeypatch.setitem(sys.modules, name, None)
    assert train_command([*WITHOUT_VIDEO, "--total-steps", "160", "--run-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "no curves: curves need matplotlib" in text
    assert "no video: writing .mp4 needs imageio_ffmpeg" in text
    assert f"{tmp_path / 'cross_play.json'}\n" in text
    assert "curves.png" not in text


@pytest.mark.slow
def test_long_parts_show_progress(tmp_path, capsys):
    options = ["--total-steps", "300", "--run-dir", str(tmp_path)]
    assert train_command([*WITHOUT_VIDEO, *options]) == 0  # whole rollouts of 160
    printed = capsys.readouterr().err
    for last in ("320 / 320 steps", "128 / 128 episodes", "600 / 600 frames"):
        assert last in printed
    assert eval_command([str(tmp_path), "--episodes", "4"]) == 0
    output = capsys.readouterr()
    assert "16 / 16 episodes  adversary trained, agent trained" in output.err
    assert "episodes  " not in output.out


@pytest.mark.gpu
def test_rollout_on_a_gpu_has_no_host_sync(tmp_path):
    config = TrainConfig("TagContinuous-v0", num_envs=8, device="cuda", learner=PPOConfig(rollout_length=8))
    trainer = Trainer(config, tmp_path)
    trainer.iterate()  # kernels are loaded, buffers allocated
    trainer.core.raise_pending_errors = lambda: None  # the end of the rollout may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.collector.collect()
    finally:
        torch.cuda.set_sync_debug_mode("default")
