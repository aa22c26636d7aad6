"""metrics.csv without duplicates, curves, phases."""

import contextlib
import importlib
import sys
from types import SimpleNamespace

import pytest
import torch

from gpu_envs.errors import MissingExtraError
from trainers.base import phase_timer
from trainers.base.phase_timer import PhaseTimer
from trainers.loggers.csv_logger import CSVLogger
from trainers.storage.learning_curves import plot_curves, read_rows


def rows(log: CSVLogger, iterations: range, **more: float) -> None:
    for i in iterations:
        log.log({"iteration": i, "env_steps": 10 * i, "a/loss": 0.5 * i, **more}, 10 * i)


def test_resuming_drops_later_rows_and_broken_lines(tmp_path):
    log = CSVLogger(tmp_path)
    rows(log, range(1, 6))
    log.close()
    with log.path.open("a") as file:
        file.write("3,3")  # killed while writing
    reopened = CSVLogger(tmp_path, last_step=30)
    rows(reopened, range(4, 6))
    reopened.close()
    actual = read_rows(log.path)
    assert [row["iteration"] for row in actual] == ["1", "2", "3", "4", "5"]
    assert [row["a/loss"] for row in actual] == ["0.5", "1", "1.5", "2", "2.5"]


def test_new_columns_and_values_that_are_not_finite(tmp_path):
    log = CSVLogger(tmp_path)
    rows(log, range(1, 3))
    log.log({"iteration": 3, "env_steps": 30, "a/loss": float("nan"), "eval/a/return": 7.0}, 30)
    log.close()
    actual = read_rows(log.path)
    assert [row["eval/a/return"] for row in actual] == ["", "", "7"]
    assert actual[2]["a/loss"] == ""


def test_new_run_starts_with_an_empty_log(tmp_path):
    rows(CSVLogger(tmp_path), range(1, 3))
    CSVLogger(tmp_path).close()
    assert read_rows(tmp_path / "metrics.csv") == []


def test_clock_gives_each_phase_the_time_since_the_last_mark(monkeypatch):
    monkeypatch.setattr(phase_timer, "time", SimpleNamespace(perf_counter=iter([10.0, 12.0, 12.5, 15.5]).__next__))
    clock = PhaseTimer(torch.device("cpu"))
    for phase in ("a", "b", "a"):
        clock.mark(phase)
    assert clock.read() == {"a": 5.0, "b": 0.5}
    assert clock.read() == {}


def test_curves_without_matplotlib_name_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="curves need matplotlib"):
        plot_curves(tmp_path / "metrics.csv", tmp_path / "curves.png")


def test_events_belong_to_the_clocks_own_gpu(monkeypatch):
    """Stand-ins for torch.cuda with two GPUs, of which 0 is the current one."""
    current, waited, capturing = [0], [], [False]

    @contextlib.contextmanager
    def device(target):
        current.append(target.index)
        yield
        current.pop()

    class Event:
        def __init__(self, enable_timing, external):
            assert enable_timing
            assert external == capturing[0]  # else it could not be read
            self.index = current[-1]

        def record(self):
            assert current[-1] == self.index == 1

        def elapsed_time(self, other):
            return 2000.0  # [ms]

    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waited.append(device))
    clock = PhaseTimer(torch.device("cuda", 1))
    clock.mark("a")
    assert clock.read() == {"a": 2.0}
    assert waited == [torch.device("cuda", 1)]
    assert current == [0]
    capturing[0] = True
    clock.start()
    clock.mark("inside")
    capturing[0] = False
    assert clock.read() == {}  # recorded, not run
    for _ in range(2):
        clock.replayed()
        clock.start()
        clock.mark("a")
        assert clock.read() == {"inside": 2.0, "a": 2.0}


def test_missing_lightning_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.delitem(sys.modules, "trainers.integrations.lightning", raising=False)
    with pytest.raises(
        MissingExtraError, match=r"lightning needs lightning: pip install .*('lightning>=|\[lightning\])"
    ):
        importlib.import_module("trainers.integrations.lightning")


def test_curves_replace_a_link_and_leave_its_target(tmp_path):
    log = CSVLogger(tmp_path)
    rows(log, range(1, 3))
    log.close()
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "curves.png").symlink_to(target)
    plot_curves(log.path, tmp_path / "curves.png")
    assert target.read_text() == "mine"
    assert not (tmp_path / "curves.png").is_symlink()
