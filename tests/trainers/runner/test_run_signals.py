"""A training that gets a signal completes its iteration, saves a checkpoint and ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkpoints import iterations_of
from toy_run import make_corridor, toy_config

from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

HERE = Path(__file__).parents[1]
ROOT = HERE.parents[2]


def start(out: Path, iterations: int, *options: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "toy_run.py"), str(out), str(iterations), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_checkpoint(process: subprocess.Popen[str], out: Path, name: str) -> None:
    deadline = time.monotonic() + 300
    while not (out / "checkpoints" / name).exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_end_the_run(tmp_path, number):
    before = signal.getsignal(number)

    def interrupt(steps, text):
        if steps == 4 * 64:
            signal.raise_signal(number)

    trainer = Trainer(toy_config(9), tmp_path, None, make_corridor, interrupt)
    assert trainer.run().name == "000000004"
    assert trainer.stopped_by == number
    assert iterations_of(tmp_path) == [1, 2, 3, 4]
    assert signal.getsignal(number) is before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_from_other_processes_save_and_end_the_run(tmp_path, number):
    process = start(tmp_path, 100_000)
    wait_for_checkpoint(process, tmp_path, "000000003")
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    last = checkpoint.load(tmp_path)
    assert f"stopped by {int(number)} at {last.iteration}," in output
    assert iterations_of(tmp_path)[-1] == last.iteration
