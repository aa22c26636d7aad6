"""MountainCarContinuous-v0 against Gymnasium 1.4.0's, with the state copied across before every step."""

import numpy as np
import pytest

from gpu_envs.errors import ActionError
from parity.classic import originals

TOLERANCE = 1e-5  # of rewards around 100; observations are closer
OTHER = {
    "goal_velocity": 0.02,
    "goal_position": 0.3,
    "min_position": -1.0,
    "max_position": 0.5,
    "max_speed": 0.05,
    "power": 0.003,
}


@pytest.mark.parametrize("settings", [{}, OTHER], ids=["default", "another"])
def test_transitions_equal_the_reference(settings):
    count = 2000 if settings else 6000
    rng = np.random.default_rng(0)
    low, high = settings.get("min_position", -1.2), settings.get("max_position", 0.6)
    fastest, goal = settings.get("max_speed", 0.07), settings.get("goal_position", 0.45)
    position = np.concatenate([rng.uniform(low, high, count // 2), rng.uniform(low, low + 0.1, count // 4)])
    position = np.concatenate([position, rng.uniform(goal - 0.08, goal, count - len(position))])
    motion = np.stack([position, rng.uniform(-fastest, fastest, count)], 1).astype(np.float32)
    action = rng.uniform(-1, 1, (count, 1)).astype(np.float32)
    steps = originals.step("MountainCarContinuous-v0", motion, action, settings, settings)
    position, velocity = steps.their_obs.T
    slowest = settings.get("goal_velocity", 0.0)
    near = (np.abs(position - goal) < 1e-6) | ((np.abs(velocity - slowest) < 1e-8) & (position >= goal))
    steps.hold(TOLERANCE, near)
    assert np.abs(steps.obs - steps.their_obs).max() < 1e-6
    assert steps.terminated.sum() > count / 50
    assert (steps.reward[steps.terminated & ~near] > 99).all()
    at_the_wall = position == np.float32(low)
    assert at_the_wall.sum() > count / 50
    assert not steps.obs[at_the_wall, 1].any()
    assert (position == np.float32(high)).sum() > count / 300
    assert (np.abs(velocity) == np.float32(fastest)).sum() > count / 100


def test_actions_beyond_full_throttle_are_clipped():
    """If accepted, they move the car like full throttle and cost their square, as in the reference."""
    rng = np.random.default_rng(1)
    motion = rng.uniform([-1.2, -0.07], [0.4, 0.07], (1000, 2)).astype(np.float32)
    action = rng.uniform(-4, 4, (1000, 1)).astype(np.float32)
    originals.step("MountainCarContinuous-v0", motion, action, illegal_actions="saturate").hold(TOLERANCE)
    with pytest.raises(ActionError, match="out of range"):
        originals.step("MountainCarContinuous-v0", motion, action)


def test_spaces_match():
    originals.spaces_match("MountainCarContinuous-v0")


def test_episodes_equal_the_reference():
    """Waiting ends at the time limit, which truncates; swinging with the motion arrives."""

    def swing(obs):
        return np.array([0.8 if obs[1] >= 0 else -0.8], np.float32)

    idle = np.zeros(1, np.float32)
    assert originals.episode("MountainCarContinuous-v0", lambda obs: idle, TOLERANCE) == (999, False, 0.0)
    length, terminated, total = originals.episode("MountainCarContinuous-v0", swing, TOLERANCE)
    assert terminated
    assert total == pytest.approx(100 - 0.064 * length, abs=1e-3)


def test_initial_states_are_distributed_as_in_the_reference():
    position, velocity = originals.starts("MountainCarContinuous-v0").T
    originals.uniform(position, -0.6, -0.4)
    originals.independent(position[:, None])
    assert not velocity.any()
