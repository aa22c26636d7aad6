"""DiscGame-v0 against the formula of Balduzzi et al. 2019, in NumPy."""

import math

import numpy as np
import pytest
import torch

from gpu_envs.errors import ActionError
from gpu_envs.runtime.factory import make_core

TOLERANCE = 1e-6


def on_disc(point):
    """Return the nearest points of the unit disc."""
    radius = np.linalg.norm(point, axis=-1, keepdims=True)
    return np.where(radius > 1, point / np.maximum(radius, 1e-300), point)


def test_payoffs_of_random_points():
    """Inside and outside of the disc, over whole episodes, as both players see it."""
    core = make_core("DiscGame-v0", 2000, "cpu", seed=1, num_repetitions=3)
    assert (core.reset()[0] == 0).all()
    outside = 0
    for step in range(1, 6):
        action = core.sample_actions().clone()
        points = on_disc(action.double().numpy())
        outside += (np.linalg.norm(action.numpy(), axis=-1) > 1).sum()
        obs, reward, terminated, truncated, _ = core.step(action)
        (x0, y0), (x1, y1) = points[:, 0].T, points[:, 1].T
        gain = x0 * y1 - y0 * x1
        np.testing.assert_allclose(reward.numpy(), np.stack([gain, -gain], -1), atol=TOLERANCE, rtol=0)
        assert (reward.sum(1) == 0).all()
        assert terminated.all() == (step == 3)
        assert not truncated.any()
        actual = core.final_obs if step == 3 else obs
        mine = np.stack([points[:, [0, 1]].reshape(-1, 4), points[:, [1, 0]].reshape(-1, 4)], 1)
        np.testing.assert_allclose(actual[..., :4].numpy(), mine, atol=TOLERANCE, rtol=0)
        np.testing.assert_allclose(actual[..., 4].numpy(), ((step - 1) % 3 + 1) / 3, atol=TOLERANCE, rtol=0)
    assert outside > 1000


def test_known_points():
    """A quarter turn behind wins the most, the same and the opposite point draw; corners count as the edge."""
    core = make_core("DiscGame-v0", 5, "cpu")
    core.reset()
    right, up, left, corner = (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (1.0, 1.0)
    pairs = [(right, up), (up, right), (right, right), (right, left), (right, corner)]
    reward, terminated = core.step(torch.tensor(pairs))[1:3]
    expected = [1.0, -1.0, 0.0, 0.0, math.sqrt(0.5)]
    np.testing.assert_allclose(reward[:, 0].numpy(), expected, atol=TOLERANCE, rtol=0)
    assert terminated.all()


def test_points_outside_of_the_box_raise():
    core = make_core("DiscGame-v0", 2, "cpu")
    core.reset()
    with pytest.raises(ActionError, match="player_1"):
        core.step(torch.tensor([[[0.0, 0.0], [0.0, 1.5]], [[0.0, 0.0], [0.0, 0.0]]]))
