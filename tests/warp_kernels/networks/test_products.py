"""Products of vectors whose length is no power of two."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import warp as wp
import warp_kernels
from warp_kernels.networks.activations import add_product, vector

warp_kernels.start()
V, add = vector({length}), add_product({length})


@wp.kernel
def multiply(x: float, of: wp.array(dtype=V), into: wp.array(dtype=V)):
    into[0] = add(of[0], x, into[0])


of, into = (wp.array([[float(i) for i in range({length})]], dtype=V, device="cpu") for _ in range(2))
wp.launch(multiply, 1, inputs=[2.0, of, into], device="cpu")
print(*into.numpy()[0].tolist())
"""


@pytest.mark.variations
@pytest.mark.parametrize("length", [24, 32, 48])
def test_products_stay_within_their_vectors(length, tmp_path):
    """A vector of 24 numbers has the size of 32 in the compiler, which warns where it is copied into an array of 24."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(length=length))
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    assert "warning" not in done.stderr + done.stdout
    assert [float(word) for word in done.stdout.splitlines()[-1].split()] == [3.0 * i for i in range(length)]
