"""Environment variables set how Warp compiles, for a process and those that it starts."""

import os
import subprocess
import sys

import pytest
import warp

from warp_kernels import HEADERS_VARIABLE, OPTIMIZATION_VARIABLE

SHOW = "import warp_kernels, warp; print(warp.config.optimization_level, warp.config.use_precompiled_headers)"


def print_settings(variables):
    """Return what a new process prints for values of the variables."""
    environ = {
        name: value for name, value in os.environ.items() if name not in (HEADERS_VARIABLE, OPTIMIZATION_VARIABLE)
    }
    return subprocess.run(
        [sys.executable, "-c", SHOW], env=environ | variables, capture_output=True, text=True, check=False
    )


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "None False"),
        ({OPTIMIZATION_VARIABLE: "3", HEADERS_VARIABLE: "1"}, "3 True"),
        ({OPTIMIZATION_VARIABLE: "0"}, "0 False"),
        ({HEADERS_VARIABLE: "1"}, "None True"),
        ({OPTIMIZATION_VARIABLE: "", HEADERS_VARIABLE: "0"}, "None False"),
    ],
)
def test_variables_hold_for_a_process(variables, expected):
    assert print_settings(variables).stdout.strip() == expected


@pytest.mark.variations
@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (OPTIMIZATION_VARIABLE, "expected 0, 1, 2 or 3, got 'fast'; unset it for Warp's own level"),
        (HEADERS_VARIABLE, "expected 0 or 1, got 'fast'; unset it for no precompiled headers"),
    ],
)
def test_other_values_are_errors_of_one_line(variable, message):
    assert print_settings({variable: "fast"}).stderr.splitlines()[-1] == f"ValueError: {variable}: {message}"


@pytest.mark.slow
def test_command_says_no_more_than_that():
    command = [sys.executable, "-m", "gpu_envs", "check", "TicTacToe-v0"]
    done = subprocess.run(
        command, env=os.environ | {HEADERS_VARIABLE: "fast"}, capture_output=True, text=True, check=False
    )
    expected = f"{HEADERS_VARIABLE}: expected 0 or 1, got 'fast'; unset it for no precompiled headers"
    assert (done.returncode, done.stderr.strip()) == (2, f"gpu-envs: error: {expected}")


def test_processes_find_what_the_tests_compiled():
    """Both options are part of a module's name in Warp's cache."""
    output = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout
    config = warp.config
    assert output.split() == [str(config.optimization_level), str(config.use_precompiled_headers)]
