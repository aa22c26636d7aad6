"""Image spaces: the core stores flat rows of float32, and every view shows the declared shape and dtype."""

import gymnasium
import numpy as np
import pictures
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium
from pettingzoo.test import parallel_api_test
from pictures import NAMED, SPACES, WIDTH, equal
from toy import announce

import gpu_envs
from gpu_envs import wrappers
from gpu_envs.definition.observation_shapes import flat_space, shape_observation
from gpu_envs.errors import ConfigError
from gpu_envs.testing import check_env
from gpu_envs.views.skrl import SkrlEnv

KINDS = pytest.mark.parametrize("kind", ["float32", "uint8", "bool", "named"])
IMAGES = pytest.mark.parametrize("kind", ["float32", "uint8", "bool"])


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Pictures-v0", pictures)


@KINDS
@pytest.mark.parametrize("reuse", [False, True])
def test_dictionaries_of_tensors_have_the_shape_of_the_space(kind, reuse):
    env = gpu_envs.make("Pictures-v0", 5, "cpu", kind=kind, reuse_buffers=reuse)
    assert env.core.observation_spaces["viewer_0"].shape == (WIDTH,)
    space = env.observation_space("viewer_0")
    assert space == SPACES[kind]
    observations, _ = env.reset(seed=0)
    equal(observations["viewer_1"], 0, kind, (5,))
    for step in (1, 2, 3, 0):
        observations, *_, infos = env.step(env.sample_actions())
        equal(observations["viewer_0"], step, kind, (5,))
        assert env.core.obs.shape == (5, 2, WIDTH)
    equal(infos["viewer_1"]["final_obs"], 4, kind, (5,))
    assert env.state().shape == (5, 2 * WIDTH)


@KINDS
@pytest.mark.parametrize("to_numpy", [False, True])
def test_rows_have_the_shape_of_the_space(kind, to_numpy):
    env = gymnasium.make_vec(
        "gpu_envs/Pictures-v0", num_envs=3, device="cpu", kind=kind, to_numpy=to_numpy, autoreset_mode="same_step"
    )
    assert env.single_observation_space == SPACES[kind]
    observations, _ = env.reset(seed=0)
    equal(observations, 0, kind, (6,))
    if to_numpy:
        assert env.observation_space.contains(observations)
    for step in (1, 2, 3, 0):
        observations, *_, info = env.step(env.sample_actions())
        equal(observations, step, kind, (6,))
    equal(info["final_obs"], 4, kind, (6,))


@IMAGES
@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_stacked_frames_of_rows_have_the_dtype_of_the_space(kind, padding):
    rows = gymnasium.make_vec("gpu_envs/Pictures-v0", num_envs=3, device="cpu", kind=kind, autoreset_mode="same_step")
    env = wrappers.FrameStackObservation(rows, 2, padding_type=padding)
    frames, _ = env.reset(seed=0)
    for step in (1, 2, 3, 4):
        assert env.observation_space.contains(frames.numpy())
        equal(frames[:, 1], step - 1, kind, (6,))
        frames, *_, info = env.step(rows.sample_actions())
    for frame, step in ((0, 3), (1, 4)):
        equal(info["final_obs"][:, frame], step, kind, (6,))


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_normalized_rows_of_images_are_those_of_floats(dtype):
    env, floats = (
        wrappers.NormalizeObservation(gymnasium.make_vec("gpu_envs/Pictures-v0", num_envs=3, device="cpu", kind=kind))
        for kind in (dtype, "float32")
    )
    observations, expected = env.reset(seed=0)[0], floats.reset(seed=0)[0]
    for _ in range(3):
        assert observations.dtype == torch.float32
        torch.testing.assert_close(observations, expected, rtol=0, atol=0)
        action = torch.zeros(6, dtype=torch.int64)
        observations, expected = env.step(action)[0], floats.step(action)[0]
    assert float(observations.std()) > 0.5


@KINDS
def test_views_of_one_world_have_the_shape_of_the_space(kind):
    world = gpu_envs.parallel_env("Pictures-v0", kind=kind)
    observations, _ = world.reset(seed=0)
    equal(observations["viewer_1"], 0, kind)
    observations, *_ = world.step(dict.fromkeys(world.agents, 1))
    equal(observations["viewer_0"], 1, kind)
    assert world.observation_space("viewer_0").contains(observations["viewer_0"])
    assert world.state_space.shape == world.state().shape == (2 * WIDTH,)
    single = gymnasium.make("gpu_envs/Pictures-v0", agent="viewer_0", kind=kind)
    observation, _ = single.reset(seed=0)
    equal(observation, 0, kind)
    assert single.observation_space.contains(observation)


@KINDS
def test_opponents_that_are_functions_see_the_shape_of_the_space(kind):
    received = []

    def policy(observations):
        received.append(observations)
        return torch.zeros((3, 1), dtype=torch.int64)

    rows = gymnasium.make_vec(
        "gpu_envs/Pictures-v0", num_envs=3, agent="viewer_0", opponents=policy, device="cpu", kind=kind
    )
    rows.reset(seed=0)
    for _ in range(2):
        rows.step(np.zeros(3, dtype=np.int64))
    for step in range(2):
        equal(received[step], step, kind, (3, 1))


def test_skrl_has_flat_observations():
    env = SkrlEnv(gpu_envs.make("Pictures-v0", 3, "cpu").core)
    observations, _ = env.reset(seed=0)
    assert observations["viewer_0"].shape == (3, WIDTH)
    assert env.observation_space("viewer_0").shape == (WIDTH,)


@pytest.mark.slow
@KINDS
def test_environment_with_images_passes_check_env(kind):
    check_env("Pictures-v0", kind=kind)


@KINDS
def test_pettingzoo_and_gymnasium_accept_the_spaces(kind):
    parallel_api_test(gpu_envs.parallel_env("Pictures-v0", kind=kind), num_cycles=20)
    check_gymnasium(
        gymnasium.make("gpu_envs/Pictures-v0", agent="viewer_0", kind=kind).unwrapped, skip_render_check=True
    )


def test_blocks_of_a_dict_are_the_parts_of_the_flat_row_in_its_order():
    row = torch.arange(2.0 * WIDTH).view(2, WIDTH)
    shaped = shape_observation(row, NAMED)
    flat = np.stack([spaces.flatten(NAMED, {name: block[i].numpy() for name, block in shaped.items()}) for i in (0, 1)])
    assert list(shaped) == ["vector", "image", "flags", "map"]
    assert (np.delete(flat, [17, 18, 19], 1) == np.delete(row.numpy(), [17, 18, 19], 1)).all()  # without flags
    box = flat_space(NAMED, "here")
    assert box.shape == (WIDTH,)
    assert box.low.tolist() == [-1] * 5 + [0] * 19
    assert box.high.tolist() == [1] * 5 + [9] * 12 + [1] * 7


def test_wrappers_of_rows_refuse_named_blocks():
    rows = gymnasium.make_vec("gpu_envs/Pictures-v0", num_envs=3, device="cpu", kind="named")
    with pytest.raises(ConfigError, match="FrameStackObservation needs a Box observation space, got Dict"):
        wrappers.FrameStackObservation(rows, 2)


def test_spaces_that_no_flat_row_can_hold_are_refused():
    message = "expected a Box with one or more axes, of float32, uint8, bool, or a Dict of such Boxes, got"
    nested = spaces.Dict(a=spaces.Dict(b=spaces.Box(0, 1)))
    numbers = spaces.Discrete(3), spaces.Box(0, 1, (), np.float32), spaces.Box(0, 1, (2,), np.float64)
    for space in (*numbers, spaces.Dict(), nested):
        with pytest.raises(ConfigError, match=message):
            flat_space(space, "here")
    with pytest.raises(ConfigError, match="here: expected blocks of other names, got action_mask"):
        flat_space(spaces.Dict(action_mask=spaces.Box(0, 1)), "here")
