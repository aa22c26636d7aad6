"""`gpu-envs train` and `gpu-envs eval` on a real environment: files, tables, errors in one line, SIGKILL."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from checkpoints import assert_equal_checkpoints, iterations_of
from small_commands import SMALL, run  # noqa: F401
from toy import announce

from gpu_envs.errors import CheckpointError, ConfigError, DeviceError, UnknownEnvironmentError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.evaluate import eval_command
from trainers.cli.options import parse_train
from trainers.cli.train import train_command
from trainers.cluster import connect, ray_train
from trainers.config.off_policy_presets import OFF_POLICY_PRESETS
from trainers.config.on_policy_presets import ON_POLICY_PRESETS
from trainers.config.presets import PRESETS, preset
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

ROOT = Path(__file__).parents[3]


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


def test_resume_continues_in_the_same_run(run, tmp_path, capsys):
    for stale in ("video.mp4", "cross_play.json", "curves.png"):
        (run / stale).write_text("of the run before")
    capsys.readouterr()
    options = ["--resume", str(run), "--total-steps", "1400", "--no-video", "--eval-episodes", "0"]
    assert train_command(options) == 0  # the id is recorded
    assert iterations_of(run) == list(range(1, 10))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"  gpu-envs watch {run}"
    listed = {Path(line).name for line in lines if line.startswith("  /")}
    assert listed == {"metrics.csv", "config.json", "config.yaml", "curves.png", "000000009"}
    with pytest.raises(CheckpointError, match="num_envs: expected 8, got 16"):
        train_command(["SimpleTag-v0", "--resume", str(run), "--num-envs", "8"])


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
        (
            ConfigError,
            "learner.entropy_coef: expected a finite number >= 0, got nan",
            ["SimpleTag-v0", "--learner.entropy_coef", "nan"],
        ),
        (ConfigError, r"seed: expected an int in \[0, 2\*\*63\), got 9{20}", ["SimpleTag-v0", "--seed", "9" * 20]),
        (ConfigError, "expected a name of letters, digits, _ and -, got '1'", [*SMALL, "--policy", "adversary=1"]),
        (ConfigError, "--policy agent: expected GROUP=POLICY, such as adv", ["SimpleTag-v0", "--policy", "agent"]),
        (
            ConfigError,
            "--num-envs: expected an int >= 1, got 0",
            ["SimpleTag-v0", "--num-envs", "0", "--run-dir", str(tmp_path)],
        ),
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
        (ConfigError, "--num-envs: expected an int, got 'x'", ["SimpleTag-v0", "--num-envs", "x"]),
        (ConfigError, "--num-env; did you mean --num-envs", ["SimpleTag-v0", "--num-env", "3"]),
        (ConfigError, "Missing value for argument '--seed'", ["SimpleTag-v0", "--seed"]),
        (ConfigError, "--env-arg seed=3: .* use --seed", ["SimpleTag-v0", "--env-arg", "seed=3"]),
        (CheckpointError, "expected TagContinuous-v0, got SimpleTag-v0", ["TagContinuous-v0", "--resume", str(run)]),
    ]:
        with pytest.raises(error, match=message) as caught:
            train_command(argv)
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


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
    assert usual == parse_train(["--seed", "1", "SimpleTag-v0", "--env-arg", "num_good=2"])
    assert usual == parse_train(["--env-arg", "num_good=2", "--seed=1", "gpu_envs/SimpleTag-v0"])
    resumed = parse_train(["SimpleTag-v0", "--resume", str(run), "--device", "cpu"])
    assert (resumed[0].num_envs, resumed[0].learner.hidden_sizes, resumed[0].env_arg) == (16, (16,), ("num_good=2",))
    assert resumed[1].path.parent == run / "checkpoints"
    for argv in (["--device=cpu", "--resume", str(run), "SimpleTag-v0"], [f"--resume={run}"]):
        other = parse_train(argv)
        assert (other[0].env_id, other[0].num_envs, other[0].learner, other[0].env_arg) == (
            "SimpleTag-v0", 16, resumed[0].learner, ("num_good=2",)
        )  # fmt: skip
        assert other[1].path == resumed[1].path
    assert parse_train(["--learner.hidden_sizes", "8", "9", "SimpleTag-v0"])[0].learner.hidden_sizes == (8, 9)


def test_module_is_imported_only_if_named_on_the_command_line(tmp_path, monkeypatch, capsys):
    announce(monkeypatch, "Far-v0")
    (tmp_path / "far.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "far", None)  # out again after the test
    del sys.modules["far"]
    out = str(tmp_path / "run")
    begin = [
        "--learner.hidden_sizes",
        "8",
        "9",
        "far:Far-v0",
        "--device",
        "cpu",
        "--num-envs",
        "4",
        "--eval-episodes",
        "0",
    ]
    with monkeypatch.context() as patch:
        iterate = Trainer.iterate
        patch.setattr(Trainer, "iterate", lambda self: (iterate(self), self.stop(signal.SIGINT)))
        assert train_command([*begin, "--total-steps", "256", "--no-video", "--run-dir", out]) == 130
        assert f"continue with:\n  gpu-envs train --resume {out} --allow-import far\n" in capsys.readouterr().out
        assert train_command([*begin, "--total-steps", "128", "--no-video", "--run-dir", f"{out}-b"]) == 130
        assert "continue with" not in capsys.readouterr().out  # there is nothing left to do
    assert "far" in sys.modules
    going_on = ["--resume", out, "--no-video"]
    refused = r"manifest.json: environment 'far:Far-v0' is in the module 'far', which .* add --allow-import far if"
    evaluation = [out, "--episodes", "2"]
    for command, argv, message in (
        (train_command, going_on, refused),
        (train_command, ["Far-v0", *going_on], refused),
        (train_command, ["json:Far-v0", *going_on], refused),
        (eval_command, evaluation, refused),
        (eval_command, [*evaluation, "--env-id", "Far-v0"], refused),
    ):
        del sys.modules["far"]
        with pytest.raises(CheckpointError, match=message) as caught:
            command(argv)
        assert "\n" not in str(caught.value)
        assert "far" not in sys.modules
        sys.modules["far"] = sys
    with pytest.raises(CheckpointError, match=r"env_id: expected json:Far-v0, got far:Far-v0$"):
        train_command(["json:Far-v0", *going_on])
    for command, argv in (
        (train_command, ["far:Far-v0", *going_on]),
        (eval_command, [*evaluation, "--env-id", "far:Far-v0"]),
        (eval_command, [*evaluation, "--allow-import", "far"]),
        (eval_command, [*evaluation, "--env-id", "Far-v0", "--allow-import", "far"]),
    ):
        del sys.modules["far"]
        assert command(argv) == 0
        assert "far" in sys.modules


def test_run_of_a_registered_environment_resumes_with_its_module(tmp_path, monkeypatch):
    announce(monkeypatch, "Far-v0")
    ppo = PPOConfig(rollout_length=4, hidden_sizes=(8,))
    config = TrainConfig("Far-v0", num_envs=4, total_steps=16, eval_episodes=0, learner=ppo)
    Trainer(config, tmp_path).run()
    assert parse_train(["json:Far-v0", "--resume", str(tmp_path)])[0].env_id == "Far-v0"


def test_error_without_a_box_is_one_line():
    code = "from gpu_envs.cli import main; raise SystemExit(main(['train', 'SimpleTag-v0', '--num-envs', 'x']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    said = "gpu-envs: error: train: --num-envs: expected an int, got 'x'; "
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said}see gpu-envs train --help\n")


def test_help_shows_the_values_of_the_preset(capsys):
    for argv, num_envs in ((["--help"], 64), (["-h", "SimpleTag-v0"], 128)):
        with pytest.raises(SystemExit) as stop:
            train_command(argv)
        assert not stop.value.code
        assert re.search(rf"--num-envs INT[^(]*\(default: {num_envs}\)", capsys.readouterr().out)


def test_resume_of_a_state_that_indexes_out_of_memory_exits_with_one_line(tmp_path):
    out = tmp_path / "run"
    options = ["--num-envs", "4", "--total-steps", "64", "--eval-episodes", "0", "--no-video", "--num-threads", "1"]
    assert train_command(["TicTacToe-v0", "--device", "cpu", *options, "--run-dir", str(out)]) == 0
    saved = checkpoint.load(out)
    saved.state["core.state.mover"][2] = 2**31 - 1
    again = tmp_path / "again" / "checkpoints"
    policies = {name: saved.policy(name) for name in saved.policies}
    checkpoint.save(again, saved.iteration, saved.steps, saved.config, saved.state, policies)
    argv = ["train", "--resume", str(again.parent), "--total-steps", "256", "--no-video"]
    code = f"import sys; from gpu_envs.cli import main; sys.exit(main({argv!r}))"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    words = "TicTacToe-v0: state.mover: expected values in [-1, 1], got 2147483647 in world 2"
    assert (ended.returncode, ended.stderr.splitlines()[-1:]) == (2, [f"gpu-envs: error: {words}"]), ended.stderr


def test_resume_into_another_run_is_refused(run, tmp_path):
    assert (
        train_command([*SMALL, "--total-steps", "160", "--eval-episodes", "0", "--run-dir", str(tmp_path / "b")]) == 0
    )
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"b/checkpoints: another run than that of .*; resume into") as caught:
        train_command(["--resume", str(run), "--run-dir", str(tmp_path / "b"), "--no-video"])
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()} == before


def test_checkpoint_outside_of_a_run_needs_a_folder(run, tmp_path):
    copy = shutil.copytree(checkpoint.find(run), tmp_path / "elsewhere" / "copy")
    with pytest.raises(ConfigError, match=r"copy: a checkpoint outside of any run; name a folder with --run-dir"):
        train_command(["--resume", str(copy), "--no-video"])
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["elsewhere", "copy"]


def test_missing_extras_keep_exit_code_of_finished_training(tmp_path, monkeypatch, capsys):
    for name in ("matplotlib.figure", "imageio_ffmpeg"):
        monkeypatch.setitem(sys.modules, name, None)
    options = [option for option in SMALL if option != "--no-video"]
    assert train_command([*options, "--total-steps", "160", "--run-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "no curves: curves need matplotlib" in text
    assert "no video: writing .mp4 needs imageio_ffmpeg" in text
    assert f"{tmp_path / 'cross_play.json'}\n" in text
    assert "curves.png" not in text


@pytest.mark.slow
def test_long_parts_show_progress(tmp_path, capsys):
    options = [option for option in SMALL if option != "--no-video"]
    assert train_command([*options, "--total-steps", "300", "--run-dir", str(tmp_path)]) == 0  # whole rollouts of 160
    printed = capsys.readouterr().err
    for last in ("320 / 320 steps", "1,024 / 1,024 episodes", "600 / 600 frames"):
        assert last in printed
    assert eval_command([str(tmp_path), "--episodes", "4"]) == 0
    said = capsys.readouterr()
    assert "16 / 16 episodes  adversary trained, agent trained" in said.err
    assert "episodes  " not in said.out


def test_presets_are_valid():
    assert not ON_POLICY_PRESETS.keys() & OFF_POLICY_PRESETS.keys()
    for env_id, kind, algorithm in PRESETS:
        config = preset(env_id, f"{kind}:0" if kind == "cuda" else kind, algorithm)
        assert (config.env_id, config.algorithm) == (env_id, algorithm)
        assert config.total_steps > 10 * config.num_envs * config.learner.rollout_length
    assert preset("Unknown-v0", "cuda:1").num_envs == 2048


# A training that does not end before the signal, however late that comes.
WAITS_AT_20 = """
import sys, time
from trainers.cli.train import train_command
from trainers.runner.trainer import Trainer
iterate = Trainer.iterate
Trainer.iterate = lambda trainer: time.sleep(600) if trainer.iteration == 20 else iterate(trainer)
sys.exit(train_command(sys.argv[1:]))
"""


def test_simple_tag_resumes_bit_for_bit_after_sigkill(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = [*SMALL, "--total-steps", "4000"]  # 25 iterations
    command = [sys.executable, "-c", WAITS_AT_20, *options, "--run-dir", str(killed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not (killed / "checkpoints" / "000000004").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert 4 <= checkpoint.load(killed).iteration <= 20

    assert train_command(["SimpleTag-v0", "--resume", str(killed), "--no-video"]) == 0
    assert train_command([*options, "--run-dir", str(whole)]) == 0
    assert_equal_checkpoints(whole, killed)
    assert iterations_of(killed) == list(range(1, 26))
    assert (whole / "cross_play.json").read_text() == (killed / "cross_play.json").read_text()
    assert learned(whole) == learned(killed)


@pytest.mark.slow
def test_command_without_gpu_trains_on_gpus_of_a_cluster(run, tmp_path, monkeypatch, capsys):
    """The evaluation at the end runs on this machine."""
    asked = []

    def elsewhere(config, out, num_workers, address, *, resume=None):
        asked.append((config.device, num_workers, address, resume is not None))
        here = dataclasses.replace(config, device="cpu")
        return Trainer(here, out, resume and checkpoint.load(resume.path)).run()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(connect, "ray_library", lambda who: None)
    monkeypatch.setattr(ray_train, "train_distributed", elsewhere)
    argv = ["cuda" if word == "cpu" else word for word in SMALL]
    assert train_command([*argv, "--ray-address", "there:6379", "--run-dir", str(tmp_path / "a")]) == 0
    going_on = ["--resume", str(run), "--total-steps", "1700", "--device", "cuda", "--num-workers", "2", "--no-video"]
    assert train_command([*going_on, "--run-dir", str(tmp_path / "b")]) == 0
    assert asked == [("cuda", None, "there:6379", False), ("cuda", 2, None, True)]
    assert (tmp_path / "a" / "cross_play.json").exists()
    with pytest.raises(DeviceError, match="torch finds no CUDA GPU here"):
        train_command(argv)


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


def learned(out: Path) -> list[dict[str, str]]:
    """Return the rows of metrics.csv without columns of time."""
    rows = read_rows(out / "metrics.csv")
    return [{k: v for k, v in row.items() if not k.startswith("time/") and "seco" not in k} for row in rows]
