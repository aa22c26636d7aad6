"""Acrobot-v1 against Gymnasium 1.4.0's, transition by transition, with the state copied across before every step."""

import numpy as np
import pytest
import torch

from gpu_envs.runtime.factory import make_core
from parity.classic import originals

TOLERANCE = 2e-6
SETTINGS = {
    "default": ({}, {}),
    "nips": ({"book_or_nips": "nips"}, {"book_or_nips": "nips"}),
    "another": (
        {
            "torque": 2.5,
            "dt": 0.07,
            "link_length_1": 1.3,
            "link_mass_1": 0.7,
            "link_mass_2": 1.6,
            "link_com_pos_1": 0.6,
            "link_com_pos_2": 0.35,
            "link_moi": 0.8,
            "max_vel_1": 6.0,
            "max_vel_2": 9.0,
        },
        {
            "AVAIL_TORQUE": [-2.5, 0.0, 2.5],
            "dt": 0.07,
            "LINK_LENGTH_1": 1.3,
            "LINK_MASS_1": 0.7,
            "LINK_MASS_2": 1.6,
            "LINK_COM_POS_1": 0.6,
            "LINK_COM_POS_2": 0.35,
            "LINK_MOI": 0.8,
            "MAX_VEL_1": 6.0,
            "MAX_VEL_2": 9.0,
        },
    ),
}


def states(rng, count, fastest=(4 * np.pi, 9 * np.pi)):
    """Return states of all angles, with speeds up to the bounds and slow ones more often."""
    speed = rng.uniform(-1, 1, (count, 2)) * rng.choice([0.1, 0.5, 1.0], (count, 1)) * fastest
    return np.concatenate([rng.uniform(-np.pi, np.pi, (count, 2)), speed], 1).astype(np.float32)


@pytest.mark.parametrize("name", SETTINGS)
def test_transitions_equal_the_reference(name):
    settings, attributes = SETTINGS[name]
    count = 5000 if name == "default" else 1500
    rng = np.random.default_rng(0)
    fastest = (settings.get("max_vel_1", 4 * np.pi), settings.get("max_vel_2", 9 * np.pi))
    steps = originals.step("Acrobot-v1", states(rng, count, fastest), rng.integers(0, 3, count), settings, attributes)
    c1, s1, c2, s2, _, _ = steps.their_obs.astype(np.float64).T
    height = -c1 - (c1 * c2 - s1 * s2)
    steps.hold(TOLERANCE, np.abs(height - 1.0) < 1e-6)
    assert steps.terminated.sum() > count / 10
    assert (steps.terminated == (height > 1.0))[np.abs(height - 1.0) > 1e-6].all()
    for column, bound in zip((4, 5), fastest, strict=True):
        assert (np.abs(steps.their_obs[:, column]) == np.float32(bound)).sum() > count / 100
    assert set(steps.reward.tolist()) == {-1.0, 0.0}


def test_torque_noise():
    """The noise, computed from the speeds, is uniform around the given torque."""
    count, noise = 3000, 0.5
    motion = np.tile(np.array([0.3, -0.4, 0.2, 0.1], np.float32), (count, 1))
    action = np.full(count, 2)
    quiet, loud = ({"torque": torque} for torque in (1.0 - noise, 1.0 + noise))
    low, high = (originals.step("Acrobot-v1", motion[:1], action[:1], extreme).obs[0, 5] for extreme in (quiet, loud))
    core = make_core("Acrobot-v1", count, "cpu", seed=4, torque_noise_max=noise, autoreset="disabled")
    core.reset()
    core.world_state["motion"].copy_(torch.from_numpy(motion))
    speed = core.step(torch.full((count, 1), 2))[0][:, 0, 5].numpy()
    # over so small a range the speed follows the torque along a line, nearly
    originals.uniform(speed, min(low, high) - 1e-5, max(low, high) + 1e-5)
    core.world_state["motion"].copy_(torch.from_numpy(motion))
    next_speed = core.step(torch.full((count, 1), 2))[0][:, 0, 5].numpy()
    originals.independent(np.concatenate([speed, next_speed])[:, None])


def test_spaces_match():
    originals.spaces_match("Acrobot-v1")


def test_episodes_equal_the_reference():
    """Left hanging it ends at the time limit, which truncates; pushed with the motion it gets up."""
    assert originals.episode("Acrobot-v1", lambda obs: 1, TOLERANCE) == (500, False, -500.0)
    length, terminated, total = originals.episode("Acrobot-v1", lambda obs: 2 if obs[4] < 0 else 0, TOLERANCE)
    assert terminated
    assert total == 1.0 - length


def test_initial_states_are_distributed_as_in_the_reference():
    """Uniform in every part; the observation shows angles by sine and cosine."""
    c1, s1, c2, s2, speed_1, speed_2 = originals.starts("Acrobot-v1").T
    motion = np.stack([np.arctan2(s1, c1), np.arctan2(s2, c2), speed_1, speed_2], 1)
    originals.independent(motion)
    for column in motion.T:
        originals.uniform(column, -0.1 - 1e-7, 0.1 + 1e-7)
