"""The form of tiles, on a CPU, against the form of rows and against PyTorch in float64."""

from contextlib import contextmanager

import pytest
import torch
import warp as wp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from network_cases import BATCHES, NETWORKS, SEEDS, Minibatch, assert_close, networks

from warp_kernels.networks.mlp import MAX_INPUTS, MAX_WIDTH, Mlp
from warp_kernels.networks.tile_memory import BLOCK_DIM, SHARED_MEMORY, TILE_ROWS, fits, shared_bytes
from warp_kernels.networks.tiles import build_tile_forward

SEVERAL = {name: NETWORKS[name] for name in ("masked", "categorical", "gaussian", "tanh_gaussian", "value")}
"""Networks with few kernels to compile, and with a mask, come first."""


@contextmanager
def block_threads():
    """Run blocks of several threads on the CPU, too."""
    previous, wp.config.enable_cpu_blocks = wp.config.enable_cpu_blocks, True
    try:
        yield
    finally:
        wp.config.enable_cpu_blocks = previous


def assert_forms_agree(minibatch, tile_rows, block_dim=BLOCK_DIM):
    rows, tiles = minibatch.rows(), minibatch.tiles(tile_rows, block_dim)
    assert_close(tiles, rows)
    assert_close(tiles, minibatch.torch())


def outputs(minibatch, tile_rows, normalize, listed, block_dim=BLOCK_DIM):
    """Return inputs as the kernel normalizes them, outputs by the kernel, and the place of each policy's rows."""
    mlp, policies = minibatch.mlp, len(minibatch.weights)
    counts = torch.tensor([minibatch.num_rows - k for k in range(policies)], dtype=torch.int32)
    index = minibatch.index if listed else torch.zeros(policies, 0, dtype=torch.int64)
    normalized, out = torch.full_like(minibatch.x, 7.0), torch.full((policies, len(minibatch.x), mlp.head_width), 7.0)
    kernel = build_tile_forward(mlp, tile_rows, normalize, block_dim)
    tiles = -(-minibatch.num_rows // tile_rows)
    for policy in range(policies):
        inputs = [policy * tiles, (policy + 1) * tiles, 1, minibatch.offset, wp.from_torch(minibatch.weights), tiles]
        inputs += [wp.from_torch(tensor) for tensor in (counts, index, minibatch.x, normalized, out[policy])]
        wp.launch_tiled(kernel, dim=[1], inputs=inputs, block_dim=block_dim, device="cpu")
    places = [minibatch.index[k, : counts[k]] if listed else torch.arange(int(counts[k])) for k in range(policies)]
    return normalized, out, places


def assert_outputs(minibatch, tile_rows, normalize, listed, block_dim=BLOCK_DIM):
    mlp = minibatch.mlp
    normalized, out, places = outputs(minibatch, tile_rows, normalize, listed, block_dim)
    for policy, rows in enumerate(places):
        x = minibatch.x[rows]
        if normalize:
            mean, rstd = minibatch.mean[policy], torch.rsqrt(minibatch.var[policy] + 1e-8)
            x = ((x - mean) * rstd).clamp(-10.0, 10.0)
            if len(places) == 1:
                torch.testing.assert_close(normalized[rows], x, rtol=1e-6, atol=1e-6)
        layers = minibatch.layers(policy)
        expected = minibatch.outputs(layers, x).float().detach()
        torch.testing.assert_close(out[policy, rows, : mlp.outputs], expected, rtol=1e-5, atol=1e-5)
        if mlp.extra:
            extra = layers[-1].float().detach().expand(len(rows), -1)
            assert torch.equal(out[policy, rows, mlp.outputs : mlp.outputs + mlp.extra], extra)
        unlisted = torch.ones(len(minibatch.x), dtype=torch.bool)
        unlisted[rows] = False
        assert (out[policy, unlisted] == 7.0).all()
    if not normalize:
        assert (normalized == 7.0).all()


@pytest.mark.variations
@pytest.mark.parametrize("name", SEVERAL)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(batch=BATCHES)
def test_tiles_give_the_gradients_of_rows_and_of_autograd(name, batch):
    assert_forms_agree(Minibatch(SEVERAL[name], **batch), 32)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(batch=BATCHES, clip_range_vf=st.sampled_from([0.0, 0.2, 1.0]))
def test_clipped_values_have_the_gradients_of_rows_and_of_autograd(batch, clip_range_vf):
    assert_forms_agree(Minibatch(NETWORKS["value"], **batch, clip_range_vf=clip_range_vf), 32)


@pytest.mark.parametrize("normalize", [False, True])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=SEEDS, num_rows=st.integers(3, 150), policies=st.integers(1, 3), listed=st.booleans())
def test_outputs_equal_those_of_pytorch(normalize, seed, num_rows, policies, listed):
    assert_outputs(Minibatch(NETWORKS["gaussian"], seed, num_rows, policies), 32, normalize, listed)


@pytest.mark.parametrize("name", ["gaussian", pytest.param("tanh_gaussian", marks=pytest.mark.slow)])
def test_outputs_are_equal_for_blocks_of_several_threads(name):
    with block_threads():
        assert_outputs(Minibatch(NETWORKS[name], 5, 130, 2), 32, True, True)


def test_normalized_inputs_are_clipped():
    minibatch = Minibatch(NETWORKS["gaussian"], 1, 40)
    minibatch.x *= 100.0
    normalized = outputs(minibatch, 32, True, False)[0][:40]
    assert normalized.abs().max() == 10.0
    assert (normalized.abs() < 10.0).any()


@pytest.mark.slow
@pytest.mark.parametrize("block_dim", [1, 64])
@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate])
@given(network=networks(), batch=BATCHES, tile_rows=st.sampled_from(TILE_ROWS), normalize=st.booleans())
def test_any_network_has_the_gradients_and_outputs_of_pytorch(block_dim, network, batch, tile_rows, normalize):
    minibatch = Minibatch(network, **batch)
    with block_threads():
        assert_forms_agree(minibatch, tile_rows, block_dim)
        if batch["num_rows"] > 3:
            assert_outputs(minibatch, tile_rows, normalize, True, block_dim)


# ---------------------------------------------------------------- shared memory


@pytest.mark.parametrize(
    ("hidden", "expected"),
    [((32, 32), (64, 64, 32)), ((64, 64), (64, 64, 32)), ((128, 128), (32, 64, 32)), ((128, 128, 128), (32, 32, 32))],
)
def test_tile_rows_of_architectures(hidden, expected):
    assert tuple(fits(Mlp(18, hidden, 5), architecture) for architecture in (80, 90, 120)) == expected


def test_largest_network_fits_every_architecture_with_enough_memory():
    largest = Mlp(MAX_INPUTS, (MAX_WIDTH,) * 3, 64)
    assert [architecture for architecture in SHARED_MEMORY if fits(largest, architecture) is None] == [75]
    assert shared_bytes(largest, 32) <= 99 << 10


def test_older_architectures_have_no_tiles():
    assert fits(Mlp(18, (64, 64), 5), 70) is None


def test_unknown_architecture_has_the_memory_of_the_next_older_one():
    assert fits(Mlp(18, (128,), 5), 110) == fits(Mlp(18, (128,), 5), 103)
