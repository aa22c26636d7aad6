"""GPU_ENVS_OPTIMIZATION_LEVEL sets Warp's optimization level."""

import os
import subprocess
import sys

import pytest

from warp_kernels import OPTIMIZATION_VARIABLE

SHOW = "import warp_kernels, warp; print(warp.config.optimization_level)"


def shown(level):
    """Return what a new process prints for a value of the variable."""
    given = {name: value for name, value in os.environ.items() if name != OPTIMIZATION_VARIABLE}
    given |= {} if level is None else {OPTIMIZATION_VARIABLE: level}
    return subprocess.run([sys.executable, "-c", SHOW], env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("level", "expected"), [(None, "None"), ("", "None"), ("0", "0"), ("3", "3")])
def test_variable_sets_the_level_of_a_process(level, expected):
    assert shown(level).stdout.strip() == expected


def test_other_values_are_errors_of_one_line():
    last = shown("fast").stderr.splitlines()[-1]
    assert last == (
        "ValueError: GPU_ENVS_OPTIMIZATION_LEVEL: expected 0, 1, 2 or 3, got 'fast'; unset it for Warp's own level"
    )
