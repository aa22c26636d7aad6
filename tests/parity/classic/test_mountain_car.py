"""MountainCar-v0 against Gymnasium 1.4.0's, transition by transition, the state copied across before every step."""

import numpy as np
import pytest

from parity.classic import originals

TOLERANCE = 1e-6
OTHER = {
    "goal_velocity": 0.03,
    "goal_position": 0.3,
    "min_position": -1.0,
    "max_position": 0.5,
    "max_speed": 0.05,
    "force": 0.002,
    "gravity": 0.003,
}


@pytest.mark.parametrize("settings", [{}, OTHER, {"goal_velocity": 0.02}], ids=["default", "another", "fast arrivals"])
def test_transitions_equal_the_reference(settings):
    count = 2000 if settings else 6000
    rng = np.random.default_rng(0)
    low, high = settings.get("min_position", -1.2), settings.get("max_position", 0.6)
    fastest, goal = settings.get("max_speed", 0.07), settings.get("goal_position", 0.5)
    position = np.concatenate([rng.uniform(low, high, count // 2), rng.uniform(low, low + 0.1, count // 4)])
    position = np.concatenate([position, rng.uniform(goal - 0.08, goal, count - len(position))])
    motion = np.stack([position, rng.uniform(-fastest, fastest, count)], 1).astype(np.float32)
    action = rng.integers(0, 3, count)
    steps = originals.step("MountainCar-v0", motion, action, settings, settings)
    position, velocity = steps.their_obs.T
    slowest = settings.get("goal_velocity", 0.0)
    near = (np.abs(position - goal) < 1e-6) & (velocity > 0)
    near |= (np.abs(velocity - slowest) < 1e-8) & (position >= goal) & (slowest > 0)
    steps.hold(TOLERANCE, near)
    assert steps.terminated.sum() > count / 50
    assert ((position >= goal) & (velocity >= 0) & ~steps.terminated).sum() > (count / 200 if slowest else -1)
    at_the_wall = position == np.float32(low)
    assert at_the_wall.sum() > count / 50
    assert not steps.obs[at_the_wall, 1].any()  # it stopped
    assert (position == np.float32(high)).sum() > count / 300
    assert (np.abs(velocity) == np.float32(fastest)).sum() > count / 100
    assert {(choice, moved) for choice, moved in zip(action, steps.terminated, strict=True)} >= {(0, True), (1, True)}


def test_spaces_match():
    originals.spaces_match("MountainCar-v0")


def test_episodes_equal_the_reference():
    """Waiting ends at the time limit, which truncates; swinging with the motion arrives."""
    assert originals.episode("MountainCar-v0", lambda obs: 1, TOLERANCE) == (200, False, -200.0)
    length, terminated, total = originals.episode("MountainCar-v0", lambda obs: 2 if obs[1] >= 0 else 0, TOLERANCE)
    assert terminated
    assert total == -length
    assert length < 170


def test_initial_states_are_distributed_as_in_the_reference():
    position, velocity = originals.starts("MountainCar-v0").T
    originals.uniform(position, -0.6, -0.4)
    originals.independent(position[:, None])
    assert not velocity.any()
