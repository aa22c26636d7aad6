"""A memo returns an entry for an equal policy, observation and mask only."""

import numpy as np
import warp as wp

from warp_kernels.framework.memo import memo_of
from warp_kernels.networks.activations import vector
from warp_kernels.networks.mlp import Mlp

MLP, CHOICES = Mlp(3, (8,), 2), 5
SIZE = 8 + 2 + MLP.head_width
FIND, WRITE = 0, 1


def memo_kernel():
    memo, V = memo_of(MLP, CHOICES, SIZE), vector(MLP.head_width)
    find, read, write = memo.find, memo.read, memo.write

    @wp.kernel(module="unique")
    def visit(
        obs: wp.array(dtype=float),
        mask: wp.array(dtype=wp.bool),
        policy: int,
        writes: int,
        entries: wp.array2d(dtype=float),
        owners: wp.array(dtype=int),
        result: wp.array(dtype=float),
    ):
        entry = find(obs.ptr, mask.ptr, policy, entries, owners)
        result[0] = -1.0
        if entry >= 0:
            v = read(entry, entries)
            result[0] = v[1]
        elif writes == 1:
            v = V()
            v[1] = float(policy) + 0.5
            write(-1 - entry, obs.ptr, mask.ptr, policy, v, entries, owners)

    return visit


def test_entry_is_found_for_equal_policy_observation_and_mask_only():
    kernel = memo_kernel()
    entries, owners = wp.zeros((1, SIZE), dtype=float, device="cpu"), wp.zeros(1, dtype=int, device="cpu")
    result = wp.zeros(1, dtype=float, device="cpu")

    def visit(obs, mask, policy, writes=FIND):
        arrays = wp.array(np.float32(obs), device="cpu"), wp.array(np.array(mask, bool), device="cpu")
        wp.launch(kernel, 1, [*arrays, policy, writes, entries, owners, result], device="cpu")
        return result.numpy()[0]

    obs, mask = [1.0, 0.0, -2.5], [True, False, True, True, False]
    assert visit(obs, mask, 0) == -1.0  # an empty table
    visit(obs, mask, 3, WRITE)
    assert visit(obs, mask, 3) == 3.5
    assert visit(obs, mask, 2) == -1.0
    for position in range(3):
        assert visit([value + (index == position) for index, value in enumerate(obs)], mask, 3) == -1.0
    for position in range(CHOICES):
        assert visit(obs, [legal != (index == position) for index, legal in enumerate(mask)], 3) == -1.0
    visit(obs, mask, 4, WRITE)  # the only entry is replaced
    assert visit(obs, mask, 3) == -1.0
    assert visit(obs, mask, 4) == 4.5
