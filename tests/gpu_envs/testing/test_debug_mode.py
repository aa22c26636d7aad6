"""The suite in Warp's debug mode, where every array access is checked against its bounds."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]

OUT_OF_BOUNDS = """
import warp as wp
import warp_kernels
wp.config.mode = "debug"
warp_kernels.start()

@wp.kernel(enable_backward=False)
def reach(a: wp.array2d(dtype=float)):
    a[wp.tid(), 5] = 1.0

wp.launch(reach, 2, inputs=[wp.zeros((2, 3), dtype=float, device="cpu")], device="cpu")
print("played")
"""


def run(script, folder):
    """Run a script in its own process: what debug mode finds ends the process."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)


SUITE = (
    "gpu_envs/runtime/test_conformance.py",
    "gpu_envs/runtime/test_turn_based_games.py",
    "gpu_envs/runtime/test_domain_randomization.py",
    "gpu_envs/test_errors.py",
    "gpu_envs/runtime/test_parameters.py",
    "parity",
)


@pytest.mark.slow
@pytest.mark.parametrize("part", SUITE)
def test_within_bounds(part):
    """The tests of environments and their oracles pass with every access checked."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(TESTS / part)]
    done = subprocess.run(
        command, env=os.environ | {"GPU_ENVS_DEBUG": "1"}, cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


@pytest.mark.slow
def test_debug_mode_detects_out_of_bounds_access(tmp_path):
    done = run(OUT_OF_BOUNDS, tmp_path)
    assert done.returncode != 0
    assert "played" not in done.stdout
