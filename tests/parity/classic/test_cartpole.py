"""CartPole-v1 against Gymnasium 1.4.0's, transition by transition, with the state copied across before every step."""

import numpy as np
import pytest

from parity.classic import originals

TOLERANCE = 1e-6
SETTINGS = {
    "default": ({}, {}),
    "sutton and barto": ({"sutton_barto_reward": True}, {"_sutton_barto_reward": True}),
    "semi-implicit": ({"kinematics_integrator": "semi-implicit euler"}, {"kinematics_integrator": "semi-implicit"}),
    "another cart": (
        {
            "gravity": 3.7,
            "masscart": 0.8,
            "masspole": 0.3,
            "length": 0.7,
            "force_mag": 6.0,
            "tau": 0.03,
            "theta_threshold_radians": 0.15,
            "x_threshold": 1.5,
        },
        {
            "gravity": 3.7,
            "masscart": 0.8,
            "masspole": 0.3,
            "total_mass": 1.1,
            "length": 0.7,
            "polemass_length": 0.21,
            "force_mag": 6.0,
            "tau": 0.03,
            "theta_threshold_radians": 0.15,
            "x_threshold": 1.5,
        },
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_transitions_equal_the_reference(name):
    settings, attributes = SETTINGS[name]
    count = 5000 if name == "default" else 1500
    rng = np.random.default_rng(0)
    x, theta = settings.get("x_threshold", 2.4), settings.get("theta_threshold_radians", np.pi / 15)
    motion = (rng.uniform(-1, 1, (count, 4)) * [1.02 * x, 3, 1.05 * theta, 3]).astype(np.float32)
    steps = originals.step("CartPole-v1", motion, rng.integers(0, 2, count), settings, attributes)
    position, angle = steps.their_obs[:, 0], steps.their_obs[:, 2]
    doubtful = (np.abs(np.abs(position) - x) < 1e-6) | (np.abs(np.abs(angle) - theta) < 1e-7)
    steps.hold(TOLERANCE, doubtful)
    # every way to fall was there, and none that only seems to
    for outside in (position < -x, position > x, angle < -theta, angle > theta):
        assert (outside & steps.terminated).sum() > count / 200
    assert (steps.terminated == ((np.abs(position) > x) | (np.abs(angle) > theta)))[~doubtful].all()
    assert (~steps.terminated).sum() > count / 2


def test_large_angles():
    """Without thresholds the pole can turn full circles, where sine and cosine must be exact."""
    rng = np.random.default_rng(1)
    motion = (rng.uniform(-1, 1, (1500, 4)) * [2, 3, 60, 3]).astype(np.float32)
    wide = {"theta_threshold_radians": 100.0}
    steps = originals.step("CartPole-v1", motion, rng.integers(0, 2, 1500), wide, wide)
    error = np.abs(steps.obs - steps.their_obs)
    assert error[:, [0, 1, 3]].max() < TOLERANCE
    assert error[:, 2].max() < 4e-6  # half the distance of neighboring numbers near 60
    assert not steps.terminated.any()


def test_spaces_match():
    originals.spaces_match("CartPole-v1")


def test_episodes_equal_the_reference():
    """Balanced to the time limit, which truncates; left alone, it falls."""
    balance = originals.episode("CartPole-v1", lambda obs: int(obs @ [0.1, 0.3, 1.0, 1.0] > 0), TOLERANCE)
    assert balance == (500, False, 500.0)
    length, terminated, _ = originals.episode("CartPole-v1", lambda obs: 1, TOLERANCE)
    assert terminated
    assert length < 15


def test_initial_states_are_distributed_as_in_the_reference():
    motion = originals.starts("CartPole-v1")
    originals.independent(motion)
    for column in motion.T:
        originals.uniform(column, -0.05, 0.05)
