"""`gpu-envs train` and `gpu-envs eval` on a real environment: files, tables, errors in one line, SIGKILL."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from test_trainer import assert_equal_checkpoints, iterations_of

from gpu_envs.errors import CheckpointError, ConfigError, DeviceError, UnknownEnvironmentError
from trainers import checkpoint
from trainers.commands import eval_command, train_command
from trainers.config import TrainConfig
from trainers.logs import read_rows
from trainers.loop import Trainer
from trainers.ppo import PPOConfig
from trainers.presets import PRESETS, preset

ROOT = Path(__file__).parents[2]
SMALL = [
    "SimpleTag-v0", "--device", "cpu", "--num-envs", "16", "--total-steps", "1000", "--threads", "1",
    "--eval-episodes", "8", "--checkpoint-every", "2", "--env", "num_good=2", "--no-video",
    "--ppo.rollout-length", "10", "--ppo.hidden", "16",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    assert train_command([*SMALL, "--out", str(out)]) == 0
    return out


def test_train_writes_everything(run, capsys):
    for file in ("config.json", "metrics.csv", "curves.png", "crossplay.json"):
        assert (run / file).stat().st_size > 0, file
    assert iterations_of(run) == list(range(1, 8))  # 1000 steps are 6.25 rollouts of 160
    config = json.loads((run / "config.json").read_text())
    assert (config["env_id"], config["env"], config["ppo"]["hidden"]) == ("SimpleTag-v0", {"num_good": 2}, [16])
    assert len(json.loads((run / "crossplay.json").read_text())["matchups"]) == 4


def test_eval_prints_the_table(run, capsys, tmp_path):
    assert eval_command([str(run), "--episodes", "4", "--against", str(run), "--out", str(tmp_path / "t.json")]) == 0
    text = capsys.readouterr().out
    assert "adversary return" in text
    assert text.count("trained ") >= 4
    assert len(json.loads((tmp_path / "t.json").read_text())["matchups"]) == 7


def test_resume_goes_on_in_the_same_run(run, tmp_path, capsys):
    assert train_command(["SimpleTag-v0", "--resume", str(run), "--total-steps", "1400", "--no-video"]) == 0
    assert iterations_of(run) == list(range(1, 10))
    with pytest.raises(CheckpointError, match="num_envs: expected 8, got 16"):
        train_command(["SimpleTag-v0", "--resume", str(run), "--num-envs", "8"])


def test_errors_are_one_line(run, tmp_path):
    for error, message, argv in [
        (UnknownEnvironmentError, "SimpleTag-v0", ["SimpleTga-v0"]),
        (ConfigError, "num_goood", ["SimpleTag-v0", "--env", "num_goood=2", "--out", str(tmp_path)]),
        (ConfigError, "expected NAME=VALUE", ["SimpleTag-v0", "--env", "num_good", "--out", str(tmp_path)]),
        (ConfigError, "ppo.gamma = 2.0: expected in", ["SimpleTag-v0", "--ppo.gamma", "2", "--out", str(tmp_path)]),
        (ConfigError, "num_envs = 0: expected >= 1", ["SimpleTag-v0", "--num-envs", "0", "--out", str(tmp_path)]),
        (ConfigError, "can be made, got", ["SimpleTag-v0", "--out", str(run / "config.json" / "x")]),
        (ConfigError, "there is a run already", [*SMALL, "--out", str(run)]),
        (CheckpointError, "got neither", ["SimpleTag-v0", "--resume", str(tmp_path / "nothing")]),
        (DeviceError, "tpu", ["SimpleTag-v0", "--device", "tpu"]),
    ]:
        with pytest.raises(error, match=message) as caught:
            train_command(argv)
        assert "\n" not in str(caught.value)


def test_policies_of_another_size_are_refused(run):
    with pytest.raises(CheckpointError, match=r"policy-adversary.json: obs_width: expected 16 .* got 20"):
        eval_command([str(run), "--episodes", "4", "--env", "num_good=1"])


def test_presets_are_valid():
    for env_id, kind in PRESETS:
        config = preset(env_id, f"{kind}:0" if kind == "cuda" else kind)
        assert config.env_id == env_id
        assert config.total_steps > 10 * config.num_envs * config.ppo.rollout_length
    assert preset("Unknown-v0", "cuda:1").num_envs == 2048


def test_simple_tag_resumes_bit_for_bit_after_sigkill(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = [*SMALL, "--total-steps", "4000"]  # 25 iterations
    code = "import sys; from trainers.commands import train_command; sys.exit(train_command(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *options, "--out", str(killed)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not (killed / "checkpoints" / "000000004").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert checkpoint.load(killed).iteration < 25

    assert train_command(["SimpleTag-v0", "--resume", str(killed), "--no-video"]) == 0
    assert train_command([*options, "--out", str(whole)]) == 0
    assert_equal_checkpoints(whole, killed)
    assert iterations_of(killed) == list(range(1, 26))
    assert (whole / "crossplay.json").read_text() == (killed / "crossplay.json").read_text()
    assert learned(whole) == learned(killed)


@pytest.mark.gpu
def test_a_rollout_on_a_gpu_waits_for_nothing(tmp_path):
    config = TrainConfig("TagContinuous-v0", num_envs=8, device="cuda", ppo=PPOConfig(rollout_length=8))
    trainer = Trainer(config, tmp_path)
    trainer.iterate()  # kernels are loaded, buffers allocated
    trainer.core.check = lambda: None  # the end of the rollout may wait
    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer._collect()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def learned(out: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv without those that tell the time."""
    rows = read_rows(out / "metrics.csv")
    return [{k: v for k, v in row.items() if not k.startswith("time/") and "seco" not in k} for row in rows]
