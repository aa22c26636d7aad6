"""Clipping, rescaling and frames of tensor rows, compared with Gymnasium's; all wrappers combined."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FrameStackObservation as FrameStackOfOne
from gymnasium.wrappers import vector as gymnasiums
from pairs import DISABLED, FALLS, MODES, NEXT_STEP, SAME_STEP, Pair, close, rows
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_envs import wrappers
from gpu_envs.errors import ActionError, ConfigError

# ---------------------------------------------------------------- clipping and rescaling


def test_rewards_are_clipped_as_by_gymnasium():
    for bounds in ((-0.5, 0.5), (None, 0.0), (-1.0, None)):
        pair = Pair(
            "SimpleTag-v0",
            NEXT_STEP,
            lambda env, bounds=bounds: wrappers.ClipReward(env, *bounds),
            lambda env, bounds=bounds: gymnasiums.ClipReward(env, *bounds),
            group="agent",
        )
        pair.reset(seed=6)
        for left, right in pair.steps(12):
            np.testing.assert_array_equal(left[1].numpy(), right[1].astype(np.float32))


@pytest.mark.parametrize("kind", ["clip", "rescale"])
def test_actions_are_changed_as_by_gymnasium(kind):
    def wrap(room):
        return room.ClipAction if kind == "clip" else lambda env: room.RescaleAction(env, -1.0, np.array([3.0]))

    ours, theirs = wrap(wrappers), wrap(gymnasiums)
    pair = Pair("Pendulum-v1", NEXT_STEP, ours, theirs, max_episode_steps=30)
    assert pair.ours.single_action_space == pair.theirs.single_action_space
    assert pair.ours.action_space == pair.theirs.action_space
    pair.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-6, 6, (6, 1)) if kind == "clip" else rng.uniform(-1, 3, (6, 1))
        action = action.astype(np.float32)
        obs, reward, *_ = pair.ours.step(torch.as_tensor(action))
        theirs_obs, theirs_reward, *_ = pair.theirs.step(action.copy())
        close(obs, theirs_obs, 1e-4)
        close(reward, theirs_reward, 1e-4)


def test_actions_at_the_ends_stay_in_bounds():
    """SimpleTag raises on actions that exceed the bounds by one bit; arrays and lists are accepted."""
    env = rows("SimpleTag-v0", continuous_actions=True)
    env.reset(seed=0)
    outside = torch.full((env.num_envs, 5), 1.5)
    with pytest.raises(ActionError, match="out of range"):
        env.step(outside)
    wrappers.ClipAction(env).step(outside)
    for low, high in ((-1.0, 1.0), (-0.3, 0.7), (-1 / 3, 1e5)):
        wrapped = wrappers.RescaleAction(env, low, high)
        for end, bound in ((low, 0.0), (high, 1.0)):
            action = np.full((env.num_envs, 5), end, np.float32)
            assert (wrapped.actions(action) == bound).all()
            wrapped.step(action.tolist())
        inside = torch.empty(1000, 5).uniform_(low, high)
        assert (wrapped.actions(inside) <= 1).all()
        assert (wrapped.actions(inside) >= 0).all()


UNBOUNDED = np.array([0.0, -np.inf, -1.0, -np.inf], np.float32)  # as CartPole's speeds are


@pytest.mark.parametrize("mode", [NEXT_STEP, DISABLED])  # Gymnasium's knows no final_obs
@pytest.mark.parametrize(
    ("env_id", "low", "high"),
    [("MountainCar-v0", -5.0, np.array([5.0, 7.0], np.float32)), ("CartPole-v1", UNBOUNDED, -UNBOUNDED + 1)],
)
def test_observations_are_rescaled_as_by_gymnasium(env_id, low, high, mode):
    pair = Pair(
        env_id,
        mode,
        lambda env: wrappers.RescaleObservation(env, low, high),
        lambda env: gymnasiums.RescaleObservation(env, low, high),
    )
    assert pair.ours.single_observation_space == pair.theirs.single_observation_space
    assert pair.ours.observation_space == pair.theirs.observation_space
    close(*pair.reset(seed=1))
    for left, right in pair.steps(20):
        active = left[4]["valid"] | left[4]["alive"]  # rows that wait for a reset stay 0
        close(left[0][active], right[0][active.numpy()])
        assert not left[0][~active].any()


def test_rescaled_final_observations_and_agents_that_have_left():
    """Old bounds map to the new bounds; agents that have left get zeros."""
    plain, env = rows("TagContinuous-v0", mode=SAME_STEP), rows("TagContinuous-v0", mode=SAME_STEP)
    low, high = -10.0, 30.0
    env.single_observation_space = gymnasium.spaces.Box(low, high, env.single_observation_space.shape)
    env = wrappers.RescaleObservation(env, 2, 3)
    plain.reset(seed=3)
    env.reset(seed=3)
    ends = gone = 0
    for _ in range(30):
        plain_obs, _, _, _, plain_info = plain.step(plain.sample_actions())
        obs, _, _, _, info = env.step(env.unwrapped.sample_actions())
        active, ended = plain_info["valid"] | plain_info["alive"], plain_info["_final_obs"]
        assert not obs[~active].any()
        for ours, theirs, mask in ((obs, plain_obs, active), (info["final_obs"], plain_info["final_obs"], ended)):
            torch.testing.assert_close(ours[mask], 2 + (theirs[mask] - low) / (high - low))
        ends, gone = ends + int(ended.sum()), gone + int((~active).sum())
    assert ends > 3
    assert gone > 3


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize("padding", ["reset", "zero", np.full(4, 0.25, np.float32)], ids=["reset", "zero", "custom"])
@pytest.mark.parametrize("mode", MODES)
def test_frames_equal_gymnasiums_of_a_single_world(mode, padding):
    """World 0 of a batch is the single world of the same seed; Gymnasium has no such wrapper for vectors."""
    env = wrappers.FrameStackObservation(rows("CartPole-v1", mode=mode, **FALLS), 3, padding_type=padding)
    single = gymnasium.make("gpu_envs/CartPole-v1", **FALLS)
    reference = FrameStackOfOne(single, 3, padding_type=padding)
    assert env.single_observation_space == reference.observation_space
    assert env.observation_space.shape == (6, 3, 4)
    obs, _ = env.reset(seed=8)
    expected, _ = reference.reset(seed=8)
    ended, over = 0, False
    for _ in range(80):
        np.testing.assert_array_equal(obs[0].numpy(), expected)
        obs.add_(100)  # what was handed out may be written to
        action = env.unwrapped.sample_actions()
        obs, _, terminated, truncated, info = env.step(action)
        if over:  # NEXT_STEP: this step was a reset
            expected, _ = reference.reset()
            over = False
            continue
        expected, _, end, cut, _ = reference.step(int(action[0]))
        assert (terminated[0], truncated[0]) == (end, cut)
        if not (end or cut):
            continue
        ended += 1
        if mode is SAME_STEP:
            np.testing.assert_array_equal(info["final_obs"][0].numpy(), expected)
            expected, _ = reference.reset()
        elif mode is DISABLED:
            np.testing.assert_array_equal(obs[0].numpy(), expected)
            mask = terminated | truncated
            obs, _ = env.reset(options={"reset_mask": mask})
            expected, _ = reference.reset()
        else:
            over = True
    assert ended > 2


def test_frames_of_agents_that_leave():
    """Their stack is zeros afterwards, and the final one is from their own end."""
    env = wrappers.FrameStackObservation(rows("TagContinuous-v0", mode=SAME_STEP), 3)
    env.reset(seed=9)
    stacks, early = {}, 0
    for _ in range(40):
        obs, _, _, _, info = env.step(env.unwrapped.sample_actions())
        ended = info["_final_obs"]
        for row in range(env.num_envs):
            if ended[row] and row in stacks:
                assert torch.equal(info["final_obs"][row], stacks.pop(row))
                early += 1
            elif not info["alive"][row]:
                if info["valid"][row]:
                    stacks[row] = obs[row].clone()
                    assert obs[row, -1].any()
                else:
                    assert not obs[row].any()
    assert early > 3


# ---------------------------------------------------------------- all of them


class NoLooking(TorchDispatchMode):
    """Raise an error on operations that synchronize with a GPU."""

    LOOKS = ("_local_scalar_dense", "nonzero", "masked_select", "equal.default", "is_nonzero", "unique")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        assert not any(look in name for look in self.LOOKS), f"{name} waits for the device"
        bools = [i for i in (args[1] if "index.Tensor" in name else ()) if i is not None and i.dtype == torch.bool]
        assert not bools, f"{name} by a mask waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", MODES)
def test_steps_need_no_host_sync(mode):
    env = rows("SimpleTag-v0", mode=mode, continuous_actions=True)
    for wrap in (
        wrappers.RecordEpisodeStatistics,
        wrappers.NormalizeObservation,
        lambda env: wrappers.RescaleObservation(env, -np.inf, np.inf),
        lambda env: wrappers.FrameStackObservation(env, 4),
        wrappers.NormalizeReward,
        lambda env: wrappers.ClipReward(env, -1, 1),
        wrappers.ClipAction,
    ):
        env = wrap(env)
    obs, _ = env.reset(seed=0)
    assert env.autoreset_mode is env.metadata["autoreset_mode"] is mode
    assert env.observation_space.shape == obs.shape == (18, 4, 16)
    assert env.spec.id == "gpu_envs/SimpleTag-v0"
    action = torch.rand(18, 5) * 3 - 1
    with NoLooking():
        for _ in range(9):
            obs, reward, terminated, _, info = env.step(action)
            assert {"episode", "_episode", "alive"} <= set(info)
    with NoLooking(), pytest.raises(AssertionError, match="waits for the device"):
        bool(terminated.any())
    assert reward.abs().max() <= 1
    env.close()
    assert env.closed


def test_gymnasium_wrappers_of_tensors_work():
    """The list is in docs/guides/libraries.md."""
    for wrap in (
        lambda env: gymnasiums.TransformObservation(env, lambda x: x.double()),
        lambda env: gymnasiums.TransformReward(env, lambda x: x / 2),
        lambda env: gymnasiums.TransformAction(env, lambda x: 1 - x),
        gymnasiums.NumpyToTorch,
    ):
        env = wrap(rows("CartPole-v1"))
        env.reset(seed=0)
        obs, reward, *_ = env.step(env.unwrapped.sample_actions())
        assert isinstance(obs, torch.Tensor)
        assert isinstance(reward, torch.Tensor)
    for wrap, error in ((gymnasiums.FlattenObservation, TypeError), (gymnasiums.DictInfoToList, AssertionError)):
        with pytest.raises(error):
            wrap(rows("CartPole-v1")).reset(seed=0)
    obs, _ = gymnasiums.DtypeObservation(rows("CartPole-v1"), np.float64).reset(seed=0)
    assert isinstance(obs, np.ndarray)


def test_unsupported_environments_raise():
    env = rows("SimpleTag-v0")
    with pytest.raises(ConfigError, match=r"wraps gymnasium.make_vec\('gpu_envs/...'\), got CartPoleVectorEnv"):
        wrappers.ClipReward(gymnasium.make_vec("CartPole-v1", 2), 0, 1)
    with pytest.raises(ConfigError, match="wraps rows of tensors; for to_numpy=True"):
        wrappers.RecordEpisodeStatistics(rows("SimpleTag-v0", to_numpy=True))
    for build, words in (
        (lambda: wrappers.ClipAction(env), "ClipAction needs a Box action space, got Discrete"),
        (lambda: wrappers.RescaleAction(env, 0, 1), "RescaleAction needs a Box action space"),
        (lambda: wrappers.ClipReward(env), "needs min_reward, max_reward or both"),
        (lambda: wrappers.ClipReward(env, 1, 0), "min_reward: expected a value <= max_reward, got 1 and 0"),
        (lambda: wrappers.NormalizeObservation(env, 0), "epsilon: expected a value > 0, got 0"),
        (lambda: wrappers.NormalizeReward(env, 2), r"gamma: expected a value in \[0, 1\], got 2"),
        (lambda: wrappers.NormalizeReward(env, epsilon=-1), "epsilon: expected a value > 0"),
        (lambda: wrappers.RecordEpisodeStatistics(env, 0), "buffer_length: expected an int >= 1, got 0"),
        (lambda: wrappers.FrameStackObservation(env, 0), "stack_size: expected an int >= 1, got 0"),
        (
            lambda: wrappers.FrameStackObservation(env, 2, padding_type="last"),
            "padding_type: expected 'reset', 'zero' or",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            build()
    boxes = rows("SimpleTag-v0", continuous_actions=True)
    for low, high, words in (
        (1, 0, r"expected finite and below max_action, got 1 and 0"),
        (-np.inf, 1, r"expected finite"),
        (np.zeros(3), 1, r"expected numbers or of shape \(5,\), got \(3,\) and \(\)"),
    ):
        with pytest.raises(ConfigError, match=words):
            wrappers.RescaleAction(boxes, low, high)
    cars = rows("MountainCar-v0")
    for low, high, words in (
        (1, 0, "min_obs: expected a value <= max_obs, got 1 and 0"),
        (-np.inf, 1, "min_obs: expected infinite exactly where Box.* is, got"),
        (0, np.ones(3), r"expected numbers or of shape \(2,\), got \(\) and \(3,\)"),
    ):
        with pytest.raises(ConfigError, match=words):
            wrappers.RescaleObservation(cars, low, high)
    with pytest.raises(ConfigError, match="max_obs: expected infinite exactly where"):
        wrappers.RescaleObservation(rows("CartPole-v1"), UNBOUNDED, 1)
