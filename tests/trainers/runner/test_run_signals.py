"""A training that gets a signal completes its iteration, saves a checkpoint and ends."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from checkpoints import iterations_of
from toy_run import make_corridor, toy_config

from trainers.runner.signals import interrupts, signals
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint

pytestmark = pytest.mark.usefixtures("usual_signals")
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_save_and_end_the_run(tmp_path, number):
    handler = signal.getsignal(number)

    def interrupt(steps, text):
        if steps == 4 * 64:
            signal.raise_signal(number)

    trainer = Trainer(toy_config(9), tmp_path, None, make_corridor, interrupt)
    assert trainer.run().name == "000000004"
    assert trainer.stopped_by == number
    assert iterations_of(tmp_path) == [1, 2, 3, 4]
    assert signal.getsignal(number) is (signal.SIG_IGN if number == signal.SIGHUP else handler)


def test_signal_at_the_last_checkpoint_lets_it_be_written(tmp_path, monkeypatch):
    trainer = Trainer(toy_config(9, checkpoint_interval=9), tmp_path, None, make_corridor)
    save_last = trainer.save_last

    def interrupted():
        signal.raise_signal(signal.SIGTERM)
        save_last()

    monkeypatch.setattr(trainer, "save_last", interrupted)
    monkeypatch.setattr(trainer, "is_done", lambda: trainer.iteration == 4)  # as when a goal is reached
    assert trainer.run().name == "000000004"
    assert trainer.stopped_by == signal.SIGTERM


def test_ignored_sighup_stays_ignored_as_after_nohup(tmp_path):
    def hang_up(steps, text):
        if steps == 4 * 64:
            signal.raise_signal(signal.SIGHUP)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    trainer = Trainer(toy_config(6), tmp_path, None, make_corridor, hang_up)
    assert trainer.run().name == "000000006"
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert trainer.stopped_by is None


def test_second_sighup_of_a_closed_terminal_does_not_end_the_process():
    """A shell that loses its terminal sends SIGHUP to its jobs, and the kernel sends it again when the shell exits."""
    stopped_by = []
    with signals(stopped_by.append):
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signal.raise_signal(signal.SIGHUP)
    assert stopped_by == [signal.SIGHUP]


@pytest.mark.parametrize("of_sigint", [signal.default_int_handler, signal.SIG_IGN])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_first_signal_interrupts_within_the_block_only(number, of_sigint):
    handler = signal.getsignal(number)
    signal.signal(signal.SIGINT, of_sigint)
    with pytest.raises(KeyboardInterrupt), interrupts():
        signal.raise_signal(number)
    assert signal.getsignal(number) is (signal.SIG_IGN if number == signal.SIGHUP else handler)
    assert signal.getsignal(signal.SIGINT) is of_sigint


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_from_other_processes_save_and_end_the_run(tmp_path, number):
    process = start(tmp_path, 100_000)
    wait_for_checkpoint(process, tmp_path, "000000003")
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    last = checkpoint.load(tmp_path)
    assert f"stopped by {int(number)} at {last.iteration}," in output
    assert iterations_of(tmp_path)[-1] == last.iteration


@pytest.mark.slow
def test_closed_terminal_saves_and_ends_the_run(tmp_path):
    """What the run prints after the end of its terminal is lost; what it has learned is not."""
    os.environ["OMP_NUM_THREADS"] = "1"
    process, terminal = pty.fork()
    if not process:
        os.execv(sys.executable, [sys.executable, str(HERE / "toy_run.py"), str(tmp_path), "100000", "--progress"])
    deadline = time.monotonic() + 300
    while not (tmp_path / "checkpoints" / "000000003").exists():
        assert time.monotonic() < deadline
        os.read(terminal, 4096)  # blocks until the run prints
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 128 + signal.SIGHUP
    last = checkpoint.load(tmp_path)
    assert last.iteration % 3, "no checkpoint was due"
