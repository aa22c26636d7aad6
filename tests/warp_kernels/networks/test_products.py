"""Products of vectors whose length is no power of two."""

import pytest
import warp as wp

import warp_kernels
from warp_kernels.networks.activations import add_product, vector


@pytest.mark.parametrize("length", [24, 32, 48])
def test_products_stay_within_their_vectors(length, monkeypatch, capfd):
    """A vector of 24 numbers has the size of 32 in the compiler, which warns where it is copied into an array of 24."""
    warp_kernels.start()
    monkeypatch.setattr(wp.config, "cache_kernels", False)  # the compiler prints warnings to the standard error
    V, add = vector(length), add_product(length)

    @wp.kernel(enable_backward=False, module="unique")
    def multiply(x: float, of: wp.array(dtype=V), into: wp.array(dtype=V)):
        into[0] = add(of[0], x, into[0])

    of, into = (wp.array([[float(i) for i in range(length)]], dtype=V, device="cpu") for _ in range(2))
    wp.launch(multiply, 1, inputs=[2.0, of, into], device="cpu")
    output = capfd.readouterr()
    assert "warning" not in output.err + output.out
    assert into.numpy()[0].tolist() == [3.0 * i for i in range(length)]
