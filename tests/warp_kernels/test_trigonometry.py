"""Sine, cosine and angles of classic control against double precision."""

import numpy as np
import pytest
import warp as wp

import warp_kernels
from warp_kernels.spatial.trigonometry import sine_cosine, wrap


@wp.kernel(module="unique")
def evaluate(angle: wp.array(dtype=float), turned: wp.array(dtype=wp.vec2), wrapped: wp.array(dtype=float)):
    index = wp.tid()
    turned[index] = sine_cosine(angle[index])
    wrapped[index] = wrap(angle[index])


def results(angle):
    """Sine and cosine (N, 2), and the angle within one turn (N,), of float32 angles, as float64."""
    warp_kernels.start()
    turned = wp.zeros(len(angle), dtype=wp.vec2, device="cpu")
    wrapped = wp.zeros(len(angle), dtype=float, device="cpu")
    wp.launch(evaluate, len(angle), [wp.array(angle, dtype=float, device="cpu")], [turned, wrapped], device="cpu")
    return turned.numpy().astype(np.float64), wrapped.numpy().astype(np.float64)


@pytest.mark.parametrize("limit", [0.78, 3.15, 100.0, 4096.0])
def test_errors_are_rounding_errors(limit):
    angle = np.random.default_rng(0).uniform(-limit, limit, 300_000).astype(np.float32)
    turned, wrapped = results(angle)
    exact = np.stack([np.sin(angle.astype(np.float64)), np.cos(angle.astype(np.float64))], 1)
    assert np.abs(turned - exact).max() < 1e-7
    assert np.abs(turned).max() <= 1.0
    assert np.abs(wrapped).max() <= np.pi + limit * 1e-7  # a large angle is rounded that much itself
    assert np.abs(np.sin(wrapped) - exact[:, 0]).max() < limit * 6e-8 + 2e-7


def test_accuracy_at_special_angles():
    angle = np.array([0.0, np.pi / 2, np.pi, -np.pi / 2, -np.pi, 1e-20, 2 * np.pi], np.float32)
    turned, wrapped = results(angle)
    exact = angle.astype(np.float64)
    np.testing.assert_allclose(turned, np.stack([np.sin(exact), np.cos(exact)], 1), atol=6e-8, rtol=0)
    assert turned[0].tolist() == [0.0, 1.0]
    assert turned[5, 0] == angle[5]
    np.testing.assert_array_equal(wrapped[:6], exact[:6])  # what lies within a turn stays
    assert abs(wrapped[6]) < 1e-6
