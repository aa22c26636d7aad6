"""`gpu-envs train --resume`: runs that were stopped or killed go on; other states are refused."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkpoints import assert_equal_checkpoints, iterations_of
from small_commands import SMALL, no_curves, run  # noqa: F401
from toy import announce

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.cli.evaluate import eval_command
from trainers.cli.options import parse_train
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint
from trainers.storage.learning_curves import read_rows

ROOT = Path(__file__).parents[3]


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


@pytest.mark.usefixtures("no_curves")
def test_module_is_imported_only_if_named_on_the_command_line(tmp_path, monkeypatch, capsys):
    announce(monkeypatch, "Far-v0")
    (tmp_path / "far.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "far", None)  # out again after the test
    del sys.modules["far"]
    out = str(tmp_path / "a run")
    begin = [
        "--learner.hidden_sizes", "8", "9", "far:Far-v0", "--device", "cpu", "--num-envs", "4", "--eval-episodes", "0",
        "--learner.rollout-length", "4", "--learner.num-epochs", "1", "--no-video",
    ]  # fmt: skip
    with monkeypatch.context() as patch:
        iterate = Trainer.iterate
        patch.setattr(Trainer, "iterate", lambda self: (iterate(self), self.stop(signal.SIGINT)))
        assert train_command([*begin, "--total-steps", "32", "--run-dir", out]) == 130
        assert f"continue with:\n  gpu-envs train --resume '{out}' --allow-import far\n" in capsys.readouterr().out
        assert train_command([*begin, "--total-steps", "16", "--run-dir", f"{out}-b"]) == 130
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


@pytest.mark.slow
def test_resume_of_a_state_that_indexes_out_of_memory_exits_with_one_line(tmp_path):
    out = tmp_path / "run"
    options = ["--num-envs", "4", "--total-steps", "64", "--eval-episodes", "0", "--no-video", "--num-threads", "1"]
    assert train_command(["TicTacToe-v0", "--device", "cpu", *options, "--run-dir", str(out)]) == 0
    saved = checkpoint.load(out)
    saved.state["core.state.mover"][2] = 2**31 - 1
    copy = tmp_path / "again" / "checkpoints"
    policies = {name: saved.policy(name) for name in saved.policies}
    checkpoint.save(copy, saved.iteration, saved.steps, saved.config, saved.state, policies)
    argv = ["train", "--resume", str(copy.parent), "--total-steps", "256", "--no-video"]
    code = f"import sys; from gpu_envs.cli import main; sys.exit(main({argv!r}))"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    words = "TicTacToe-v0: state.mover: expected values in [-1, 1], got 2147483647 in world 2"
    assert (ended.returncode, ended.stderr.splitlines()[-1:]) == (2, [f"gpu-envs: error: {words}"]), ended.stderr


def test_checkpoint_outside_of_a_run_needs_a_folder(run, tmp_path):
    copy = shutil.copytree(checkpoint.find(run), tmp_path / "elsewhere" / "copy")
    with pytest.raises(ConfigError, match=r"copy: a checkpoint outside of any run; name a folder with --run-dir"):
        train_command(["--resume", str(copy), "--no-video"])
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["elsewhere", "copy"]


# A training that does not end before the signal, however late that comes.
WAITS_AT_20 = """
import sys, time
from trainers.cli.train import train_command
from trainers.runner.trainer import Trainer
iterate = Trainer.iterate
Trainer.iterate = lambda trainer: time.sleep(600) if trainer.iteration == 20 else iterate(trainer)
sys.exit(train_command(sys.argv[1:]))
"""


@pytest.mark.slow
def test_simple_tag_resumes_bit_for_bit_after_sigkill(tmp_path):
    uninterrupted, killed = tmp_path / "whole", tmp_path / "killed"
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
    assert train_command([*options, "--run-dir", str(uninterrupted)]) == 0
    assert_equal_checkpoints(uninterrupted, killed)
    assert iterations_of(killed) == list(range(1, 26))
    assert (uninterrupted / "cross_play.json").read_text() == (killed / "cross_play.json").read_text()
    assert learned(uninterrupted) == learned(killed)


def learned(out: Path) -> list[dict[str, str]]:
    """Return the rows of metrics.csv without columns of time."""
    rows = read_rows(out / "metrics.csv")
    return [{k: v for k, v in row.items() if not k.startswith("time/") and "seco" not in k} for row in rows]
