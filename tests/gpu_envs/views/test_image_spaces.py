"""Image spaces: the core stores flat rows of float32, and every view shows the declared shape and dtype."""

import gymnasium
import numpy as np
import pictures
import pytest
import torch
from gymnasium import spaces
from pictures import SHAPE, WIDTH, picture
from toy import announce

import gpu_envs
from gpu_envs import wrappers
from gpu_envs.definition.observation_shapes import flat_space
from gpu_envs.errors import ConfigError
from gpu_envs.testing import check_env
from gpu_envs.views.skrl import SkrlEnv

DTYPES = pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Pictures-v0", pictures)


def equal(found, step, dtype, leading=()):
    """Assert that observations are those of a step, in all rows."""
    found = found.numpy() if isinstance(found, torch.Tensor) else found
    assert found.dtype == np.dtype(dtype)
    assert found.shape == (*leading, *SHAPE)
    assert (found == picture(step, dtype)).all()


@DTYPES
@pytest.mark.parametrize("reuse", [False, True])
def test_dictionaries_of_tensors_have_the_shape_of_the_space(dtype, reuse):
    env = gpu_envs.make("Pictures-v0", 5, "cpu", dtype=dtype, reuse_buffers=reuse)
    assert env.core.observation_spaces["viewer_0"].shape == (WIDTH,)
    space = env.observation_space("viewer_0")
    assert (space.shape, space.dtype) == (SHAPE, np.dtype(dtype))
    observations, _ = env.reset(seed=0)
    equal(observations["viewer_1"], 0, dtype, (5,))
    for step in (1, 2, 3, 0):
        observations, *_, infos = env.step(env.sample_actions())
        equal(observations["viewer_0"], step, dtype, (5,))
        assert env.core.obs.shape == (5, 2, WIDTH)
    equal(infos["viewer_1"]["final_obs"], 4, dtype, (5,))
    assert env.state().shape == (5, 2 * WIDTH)


@DTYPES
@pytest.mark.parametrize("to_numpy", [False, True])
def test_rows_have_the_shape_of_the_space(dtype, to_numpy):
    env = gymnasium.make_vec(
        "gpu_envs/Pictures-v0", num_envs=3, device="cpu", dtype=dtype, to_numpy=to_numpy, autoreset_mode="same_step"
    )
    assert env.single_observation_space.shape == SHAPE
    observations, _ = env.reset(seed=0)
    equal(observations, 0, dtype, (6,))
    if to_numpy:
        assert env.observation_space.contains(observations)
    for step in (1, 2, 3, 0):
        observations, *_, info = env.step(env.sample_actions())
        equal(observations, step, dtype, (6,))
    equal(info["final_obs"], 4, dtype, (6,))


@DTYPES
@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_stacked_frames_of_rows_have_the_dtype_of_the_space(dtype, padding):
    rows = gymnasium.make_vec("gpu_envs/Pictures-v0", num_envs=3, device="cpu", dtype=dtype, autoreset_mode="same_step")
    env = wrappers.FrameStackObservation(rows, 2, padding_type=padding)
    frames, _ = env.reset(seed=0)
    for step in (1, 2, 3, 4):
        assert env.observation_space.contains(frames.numpy())
        equal(frames[:, 1], step - 1, dtype, (6,))
        frames, *_, info = env.step(rows.sample_actions())
    for frame, step in ((0, 3), (1, 4)):
        equal(info["final_obs"][:, frame], step, dtype, (6,))


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_normalized_rows_of_images_are_those_of_floats(dtype):
    env, floats = (
        wrappers.NormalizeObservation(gymnasium.make_vec("gpu_envs/Pictures-v0", num_envs=3, device="cpu", dtype=kind))
        for kind in (dtype, "float32")
    )
    observations, wanted = env.reset(seed=0)[0], floats.reset(seed=0)[0]
    for _ in range(3):
        assert observations.dtype == torch.float32
        torch.testing.assert_close(observations, wanted, rtol=0, atol=0)
        action = torch.zeros(6, dtype=torch.int64)
        observations, wanted = env.step(action)[0], floats.step(action)[0]
    assert float(observations.std()) > 0.5


@DTYPES
def test_views_of_one_world_have_the_shape_of_the_space(dtype):
    world = gpu_envs.parallel_env("Pictures-v0", dtype=dtype)
    observations, _ = world.reset(seed=0)
    equal(observations["viewer_1"], 0, dtype)
    observations, *_ = world.step(dict.fromkeys(world.agents, 1))
    equal(observations["viewer_0"], 1, dtype)
    assert world.observation_space("viewer_0").contains(observations["viewer_0"])
    assert world.state_space.shape == world.state().shape == (2 * WIDTH,)
    single = gymnasium.make("gpu_envs/Pictures-v0", agent="viewer_0", dtype=dtype)
    observation, _ = single.reset(seed=0)
    equal(observation, 0, dtype)
    assert single.observation_space.contains(observation)


@DTYPES
def test_sb3_has_the_shape_of_the_space(dtype):
    pytest.importorskip("stable_baselines3")
    from gpu_envs.views.sb3 import SB3VecEnv

    rows = SB3VecEnv("Pictures-v0", 3, device="cpu", dtype=dtype)
    equal(rows.reset(), 0, dtype, (6,))
    assert rows.observation_space.shape == SHAPE
    for _ in range(4):
        observations, *_, infos = rows.step(np.zeros(6, dtype=np.int64))
    equal(observations, 0, dtype, (6,))
    equal(infos[5]["terminal_observation"], 4, dtype)


@DTYPES
def test_opponents_that_are_functions_see_the_shape_of_the_space(dtype):
    seen = []

    def policy(observations):
        seen.append(observations.clone())
        return torch.zeros(observations.shape[:2], dtype=torch.int64)

    rows = gymnasium.make_vec(
        "gpu_envs/Pictures-v0", num_envs=3, agent="viewer_0", opponents=policy, device="cpu", dtype=dtype
    )
    rows.reset(seed=0)
    for step in range(2):
        rows.step(np.zeros(3, dtype=np.int64))
        equal(seen[step], step, dtype, (3, 1))


@DTYPES
def test_torchrl_has_the_shape_of_the_space(dtype):
    pytest.importorskip("torchrl")
    from torchrl.envs.utils import check_env_specs

    from gpu_envs.views.torchrl import TorchRLEnv

    env = TorchRLEnv("Pictures-v0", 3, device="cpu", dtype=dtype)
    check_env_specs(env)
    equal(env.reset()["viewer", "observation"], 0, dtype, (3, 2))


def test_skrl_has_flat_observations():
    env = SkrlEnv(gpu_envs.make("Pictures-v0", 3, "cpu").core)
    observations, _ = env.reset(seed=0)
    assert observations["viewer_0"].shape == (3, WIDTH)
    assert env.observation_space("viewer_0").shape == (WIDTH,)


@pytest.mark.slow
@DTYPES
def test_environment_with_images_passes_check_env(dtype):
    check_env("Pictures-v0", dtype=dtype)


def test_spaces_that_no_flat_row_can_hold_are_refused():
    for space in (spaces.Discrete(3), spaces.Box(0, 1, (), np.float32), spaces.Box(0, 1, (2,), np.float64)):
        with pytest.raises(ConfigError, match="expected a Box with one or more axes, of float32, uint8, bool, got"):
            flat_space(space, "here")
