"""Philox4x32-10 against the published Random123 known-answer vectors (kat_vectors of Random123 1.14)."""

import numpy as np
import pytest
import warp as wp

import warp_kernels
from warp_kernels import philox

VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@wp.kernel(enable_backward=False)
def _draw(counter: wp.array(dtype=wp.vec4ui), key: wp.array(dtype=wp.vec2ui), out: wp.array(dtype=wp.vec4ui)):
    i = wp.tid()
    out[i] = philox.philox4x32(counter[i], key[i][0], key[i][1])


@wp.kernel(enable_backward=False)
def _uniforms(seed: wp.uint64, out: wp.array(dtype=wp.vec4)):
    i = wp.tid()
    rng = philox.Stream()
    rng.seed = seed
    rng.world = wp.uint32(i)
    out[i] = philox.uniform4(rng, 3, philox.RESET, 1)


@pytest.fixture(autouse=True)
def _started():
    warp_kernels.start()


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers(counter, key, expected):
    out = wp.zeros(1, dtype=wp.vec4ui, device="cpu")
    words = [
        wp.array(np.array([v], np.uint32), dtype=t, device="cpu") for v, t in ((counter, wp.vec4ui), (key, wp.vec2ui))
    ]
    wp.launch(_draw, 1, inputs=[*words, out], device="cpu")
    assert tuple(int(word) for word in out.numpy()[0]) == expected


def test_uniforms_are_uniform_and_in_range():
    out = wp.zeros(50_000, dtype=wp.vec4, device="cpu")
    wp.launch(_uniforms, 50_000, inputs=[wp.uint64(7), out], device="cpu")
    u = out.numpy()
    assert u.min() >= 0.0
    assert u.max() < 1.0
    counts = np.histogram(u, 20, (0, 1))[0]
    chi2 = ((counts - u.size / 20) ** 2 / (u.size / 20)).sum()
    assert chi2 < 43.8  # 0.999 quantile of chi-squared with 19 degrees of freedom
    assert np.abs(np.corrcoef(u.T) - np.eye(4)).max() < 0.02
    assert len(np.unique(u[:, 0])) > 49_800  # 24 bits: about 75 repeats expected among 50,000


def test_world_keys_do_not_wrap_into_seeds():
    """Seed 0 world 1 is not seed 1 world 0, and all 64 bits of the seed count."""
    draws = {}
    for seed in (0, 1, 1 << 32, (1 << 64) - 1):
        out = wp.zeros(2, dtype=wp.vec4, device="cpu")
        wp.launch(_uniforms, 2, inputs=[wp.uint64(seed), out], device="cpu")
        draws |= {(seed, world): tuple(out.numpy()[world]) for world in (0, 1)}
    assert len(set(draws.values())) == 8
