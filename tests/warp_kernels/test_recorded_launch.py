"""Launches on a CPU that pack their arguments once."""

import io
import itertools
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import warp as wp

from warp_kernels.framework import recorded_launch
from warp_kernels.framework.recorded_launch import CPULaunch, compilation_notice, record_launch


@wp.struct
class Weights:
    weight: wp.array(dtype=float)
    bias: float


@wp.kernel
def affine(first: int, scale: float, weights: Weights, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = first + wp.tid()
    y[i] = scale * x[i] * weights.weight[i] + weights.bias


def arguments():
    weights = Weights()
    weights.weight, weights.bias = wp.array(np.arange(8.0), dtype=float, device="cpu"), 0.5
    x, y = wp.array(np.linspace(-1.0, 1.0, 8), dtype=float, device="cpu"), wp.zeros(8, dtype=float, device="cpu")
    return [2, 3.0, weights, x, y]


def test_launches_equal_those_of_warp():
    """With all kinds of arguments, after changes of them, and without references to the given ones."""
    ours, theirs = arguments(), arguments()
    packed = record_launch(affine, 4, ours, "cpu")
    launch = wp.launch(affine, 4, theirs, device="cpu", record_cmd=True)
    y, expected = ours[4], theirs[4]
    del ours, theirs
    assert isinstance(packed, CPULaunch)
    for index, value in ((0, 2), (0, 4), (1, -1.5), (3, wp.array(np.full(8, 2.0), dtype=float, device="cpu"))):
        for command in (packed, launch):
            command.set_param_at_index(index, value)
            command.launch()
        np.testing.assert_array_equal(y.numpy(), expected.numpy())
    assert np.count_nonzero(y.numpy()) == 6


def test_other_versions_of_warp_launch_themselves(monkeypatch):
    """The way in which compiled functions are called is not part of Warp's interface."""
    monkeypatch.setattr(recorded_launch, "KNOWN_WARP", "0.1.")
    command = record_launch(affine, 4, arguments(), "cpu")
    assert isinstance(command, wp.Launch)


def test_pinned_version_of_warp_is_known():
    """A new version of Warp must be tried, or each launch takes microseconds longer."""
    assert isinstance(record_launch(affine, 4, arguments(), "cpu"), CPULaunch), wp.config.version


class Output(io.StringIO):
    """Standard error that is a terminal until it has some lines."""

    def __init__(self, lines):
        super().__init__()
        self.lines, self.complete = lines, threading.Event()

    def isatty(self):
        if self.getvalue().count("\n") < self.lines:
            return True
        self.complete.set()
        return False


@pytest.mark.parametrize("times", [["2"], ["2", "4", "8"]])
def test_long_compilation_says_how_long_it_has_taken(monkeypatch, times):
    """One line where standard error is no terminal; in a terminal, one whenever the time has doubled."""
    output = Output(len(times))
    clock = itertools.chain([0.0], (2.0**n for n in itertools.count(1)))
    monkeypatch.setattr(recorded_launch.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", output)
    with compilation_notice("meet.fused", after=2.0):
        assert output.complete.wait(30)
    expected = [f"compiling meet.fused: {seconds} s so far; later starts read it from the cache" for seconds in times]
    assert output.getvalue().splitlines() == expected


def test_short_compilation_says_nothing(capsys):
    with compilation_notice("meet.fused"):
        pass
    assert capsys.readouterr().err == ""


def test_first_launch_of_a_module_is_announced(monkeypatch):
    names = []
    monkeypatch.setattr(recorded_launch, "_loaded", set())
    monkeypatch.setattr(recorded_launch, "compilation_notice", lambda name: names.append(name) or nullcontext())
    for _ in range(2):
        record_launch(affine, 4, arguments(), "cpu")
    assert names == [__name__]


@wp.kernel(module="unique")
def double(x: wp.array(dtype=float)):
    x[wp.tid()] *= 2.0


def test_full_disk_under_the_cache_is_an_error_before_the_compiler_ends_the_process(monkeypatch, tmp_path):
    x = wp.ones(4, dtype=float, device="cpu")
    monkeypatch.setattr(recorded_launch, "_loaded", set())
    usage = SimpleNamespace(free=3 * 2**20)
    monkeypatch.setattr(recorded_launch.shutil, "disk_usage", lambda folder: usage)
    with monkeypatch.context() as patch:
        patch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
        with pytest.raises(OSError, match=r"3 MiB are free, and compiling needs 64 MiB.*set WARP_CACHE_PATH") as error:
            record_launch(double, 4, [x], "cpu")
        assert error.value.filename == str(tmp_path)
        assert not list(tmp_path.iterdir())
    usage.free = 10**12
    record_launch(double, 4, [x], "cpu").launch()
    recorded_launch._loaded.clear()
    usage.free = 0
    record_launch(double, 4, [x], "cpu").launch()  # the cache has it
    assert x.numpy().tolist() == [4.0] * 4


def test_cache_that_cannot_be_written_names_the_variable(monkeypatch):
    monkeypatch.setattr(recorded_launch, "_loaded", set())
    monkeypatch.setattr(wp.config, "kernel_cache_dir", "/dev/null/cache")
    with pytest.raises(OSError, match=r"Not a directory.*set WARP_CACHE_PATH to another folder"):
        record_launch(double, 4, [wp.ones(4, dtype=float, device="cpu")], "cpu")
