"""Pendulum-v1 against Gymnasium 1.4.0's, transition by transition, with the state copied across before every step."""

import numpy as np
import pytest

from gpu_envs.errors import ActionError
from parity.classic import originals

TOLERANCE = 5e-6
OTHER = {"g": 3.7, "m": 0.6, "l": 1.4, "dt": 0.08, "max_speed": 5.0, "max_torque": 3.0}


@pytest.mark.parametrize("settings", [{}, {"g": 9.81}, OTHER], ids=["default", "g", "another"])
def test_transitions_equal_the_reference(settings):
    count = 2000 if settings else 6000
    rng = np.random.default_rng(0)
    fastest, torque = settings.get("max_speed", 8.0), settings.get("max_torque", 2.0)
    motion = rng.uniform([-np.pi, -fastest], [np.pi, fastest], (count, 2)).astype(np.float32)
    action = rng.uniform(-torque, torque, (count, 1)).astype(np.float32)
    steps = originals.step("Pendulum-v1", motion, action, settings, settings)
    steps.hold(TOLERANCE)
    assert not steps.terminated.any()
    assert (np.abs(steps.their_obs[:, 2]) == np.float32(fastest)).sum() > count / 100
    turned = np.arctan2(steps.their_obs[:, 1], steps.their_obs[:, 0])
    assert (np.abs(turned - motion[:, 0]) > 5).sum() > count / 100  # past hanging down
    assert (steps.their_reward < -9.9).sum() > count / 100


def test_angles_wrap_after_full_turns():
    """Angles beyond one turn, which the original keeps and gpu-envs wraps, have equal rewards."""
    rng = np.random.default_rng(1)
    motion = rng.uniform([-np.pi, -8], [np.pi, 8], (1000, 2)).astype(np.float32)
    action = rng.uniform(-2, 2, (1000, 1)).astype(np.float32)
    mine = originals.step("Pendulum-v1", motion, action)
    far = motion + np.array([4 * np.pi, 0])
    theirs = originals.step("Pendulum-v1", far.astype(np.float32), action)
    assert np.abs(mine.obs - theirs.their_obs).max() < 1e-5  # float32 is that coarse near 15
    assert np.abs(mine.reward - theirs.their_reward).max() < 2e-5


def test_torques_beyond_the_limit_are_clipped():
    """If accepted, they act as the largest torque, as in the reference."""
    rng = np.random.default_rng(1)
    motion = rng.uniform([-np.pi, -8], [np.pi, 8], (1000, 2)).astype(np.float32)
    action = rng.uniform(-6, 6, (1000, 1)).astype(np.float32)
    originals.step("Pendulum-v1", motion, action, illegal_actions="saturate").hold(TOLERANCE)
    with pytest.raises(ActionError, match="out of range"):
        originals.step("Pendulum-v1", motion, action)


def test_spaces_match():
    originals.spaces_match("Pendulum-v1")


def test_episodes_equal_the_reference():
    """Episodes never terminate; the time limit truncates them."""
    rng = np.random.default_rng(0)
    for policy in (lambda obs: np.zeros(1, np.float32), lambda obs: rng.uniform(-2, 2, 1).astype(np.float32)):
        length, terminated, total = originals.episode("Pendulum-v1", policy, TOLERANCE)
        assert (length, terminated) == (200, False)
        assert total < -100


def test_initial_states_are_distributed_as_in_the_reference():
    cosine, sine, speed = originals.starts("Pendulum-v1").T
    angle = np.arctan2(sine, cosine)
    originals.uniform(angle, -np.pi, np.pi + 1e-6)
    originals.uniform(speed, -1.0, 1.0)
    originals.independent(np.stack([angle, speed], 1))
