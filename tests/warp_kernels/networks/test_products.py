"""Products of vectors whose length is no power of two, and of indices beyond 32 bits."""

import pytest
import warp as wp

import warp_kernels
from warp_kernels.networks.activations import add_product, vector
from warp_kernels.networks.gradient import entry_address


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


@wp.kernel
def write_address(values: wp.array2d(dtype=float), row: int, column: int, address: wp.array(dtype=wp.uint64)):
    address[0] = entry_address(values, row, column)


def test_addresses_of_entries_exceed_32_bits():
    """30 policies with layers of 256 x 256 have 2^31 packed gradients."""
    columns, rows = 2**18 + 3, 2**14
    values = wp.array(ptr=4096, dtype=float, shape=(rows, columns), device="cpu", copy=False)  # nobody reads it
    address = wp.zeros(1, dtype=wp.uint64, device="cpu")
    wp.launch(write_address, 1, [values, rows - 1, 5], [address], device="cpu")
    assert int(address.numpy()[0]) == 4096 + 4 * ((rows - 1) * columns + 5)
