"""Addresses of steps in the buffers of rollouts."""

import pytest
import warp as wp

import warp_kernels
from warp_kernels.framework.actions import step_address


@wp.kernel
def write_address(t: int, num_rows: int, row_size: int, address: wp.array(dtype=wp.uint64)):
    address[0] = step_address(wp.uint64(4096), t, num_rows, row_size)


@pytest.mark.parametrize(("t", "num_rows"), [(3, 7), (255, 2**23 + 1), (2**20, 2**20)])
def test_addresses_of_steps_exceed_32_bits(t, num_rows):
    """256 steps of 2^23 agents have 2^31 rows."""
    warp_kernels.start()
    address = wp.zeros(1, dtype=wp.uint64, device="cpu")
    wp.launch(write_address, 1, [t, num_rows, 24], [address], device="cpu")
    assert int(address.numpy()[0]) == 4096 + t * num_rows * 24
