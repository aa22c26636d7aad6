"""The suite's small worlds in Warp's debug mode, where every array access is checked against its bounds."""

import subprocess
import sys
import textwrap

import pytest
from conftest import SMALL

PLAY = """
import warp as wp
import warp_kernels
wp.config.mode = "debug"
from gpu_envs.registry import make_core
for schedule in ("fused", "phased"):
    core = make_core({env_id!r}, 3, "cpu", seed=0, schedule=schedule, **{settings!r})
    core.reset()
    for _ in range(25):
        core.step(core.sample_actions())
    core.state()
print("played")
"""

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
    """Run a script in a process of its own: what debug mode finds ends the process."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_within_bounds(env_id, tmp_path):
    done = run(PLAY.format(env_id=env_id, settings=SMALL[env_id]), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "played" in done.stdout


@pytest.mark.slow
def test_debug_mode_bites(tmp_path):
    done = run(OUT_OF_BOUNDS, tmp_path)
    assert done.returncode != 0
    assert "played" not in done.stdout
