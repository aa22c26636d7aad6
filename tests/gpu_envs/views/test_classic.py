"""Classic control through gymnasium.make and make_vec, side by side with Gymnasium's own environments."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from parity.classic.originals import put

import gpu_envs
from gpu_envs.errors import ActionError, ConfigError

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
IDS = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"]
TOLERANCE = 1e-5
WORLDS = 5
# Options of the first reset, a short limit, and a state that is about to end.
STARTS = {
    "CartPole-v1": ({"low": -0.2, "high": 0.2}, 12, [2.39, 2.0, 0.0, 0.0]),
    "MountainCar-v0": ({"low": 0.2, "high": 0.45}, 10, [0.49, 0.05]),
    "MountainCarContinuous-v0": ({"low": 0.2, "high": 0.4}, 10, [0.44, 0.05]),
    "Pendulum-v1": ({"x_init": 1.0, "y_init": 0.2}, 10, None),
    "Acrobot-v1": ({"low": 1.5, "high": 2.5}, 12, [3.1, 0.1, 0.1, 0.0]),
}


def pair(env_id, mode, worlds=WORLDS, limit=None):
    """Return the vector environments of gpu-envs and of Gymnasium, a SyncVectorEnv."""
    more = {} if limit is None else {"max_episode_steps": limit}
    ours = gymnasium.make_vec(f"gpu_envs/{env_id}", worlds, autoreset_mode=mode, to_numpy=True, device="cpu", **more)
    theirs = gymnasium.make_vec(
        env_id, worlds, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **more
    )
    return ours, theirs


def copy_across(ours, theirs):
    """Copy the states of the worlds of gpu-envs into Gymnasium's environments."""
    for env, motion in zip(theirs.envs, ours.core.world_state["motion"].numpy(), strict=True):
        put(env, motion)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED], ids=lambda mode: mode.value)
@pytest.mark.parametrize("env_id", IDS)
def test_vector_envs_agree_with_gymnasium(env_id, mode):
    """Observations, rewards, flags, what becomes of ended episodes: all as SyncVectorEnv has it.

    Where an episode terminates on the very step of its limit, both flags are True.
    """
    options, limit, about_to_end = STARTS[env_id]
    ours, theirs = pair(env_id, mode, limit=limit)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    obs, _ = ours.reset(seed=1, options=dict(options))
    theirs.reset(seed=1, options=dict(options))
    assert theirs.observation_space.contains(obs)
    ours.action_space.seed(0)
    ended = np.zeros(WORLDS, bool)
    kinds = {"terminated": 0, "truncated": 0, "both": 0}
    for t in range(6 * limit):
        if about_to_end and t % 3 == 0:
            ours.core.world_state["motion"][t % WORLDS] = torch.tensor(about_to_end)
        copy_across(ours, theirs)
        if mode is DISABLED and ended.any():  # a mask of rows; the others keep their episodes
            obs, _ = ours.reset(options={"reset_mask": ended.copy(), **options})
            their_obs, _ = theirs.reset(options={"reset_mask": ended.copy(), **options})
            assert theirs.observation_space.contains(obs)
            copy_across(ours, theirs)
        action = ours.action_space.sample()
        obs, reward, terminated, truncated, info = ours.step(action)
        their_obs, their_reward, their_terminated, their_truncated, their_info = theirs.step(action)
        waited = ended & (mode is NEXT_STEP)
        for mine, their in ((obs, their_obs), (reward, their_reward), (terminated, their_terminated)):
            assert (mine.shape, mine.dtype) == (their.shape, their.dtype)
        np.testing.assert_array_equal(terminated, their_terminated)
        np.testing.assert_array_equal(truncated, their_truncated)
        np.testing.assert_allclose(reward, their_reward, atol=TOLERANCE)
        done = terminated | truncated
        for name, flags in zip(kinds, (terminated, truncated, their_terminated & their_truncated), strict=True):
            kinds[name] += int(flags.sum())
        if mode is SAME_STEP:
            assert ("final_obs" in info) == ("final_obs" in their_info) == bool(done.any())
            assert ("final_info" in info) == ("final_info" in their_info)
            if done.any():
                np.testing.assert_array_equal(info["_final_obs"], their_info["_final_obs"])
                for row in np.flatnonzero(done):
                    np.testing.assert_allclose(info["final_obs"][row], their_info["final_obs"][row], atol=TOLERANCE)
        fresh = done if mode is SAME_STEP else waited
        np.testing.assert_allclose(obs[~fresh], their_obs[~fresh], atol=TOLERANCE)
        if mode is NEXT_STEP:
            assert not reward[waited].any()
            assert not done[waited].any()
        if fresh.any():  # by itself, so as usual: the options were for their own reset only
            position = np.abs(ours.core.world_state["motion"].numpy()[fresh, 0])
            assert position.max() <= USUAL[env_id][0] + 1e-6
        ended = done
    assert kinds["truncated"] > WORLDS, kinds
    assert not about_to_end or (kinds["terminated"] > 2 * WORLDS and kinds["both"] > 0), kinds


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_check_env_passes(env_id):
    """On what gymnasium.make gives, and on the environment inside, it says no more than of Gymnasium's own."""

    def complaints(env):
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            check_env(env, skip_render_check=True)
        return {str(warning.message) for warning in records if "has a wrapper applied" not in str(warning.message)}

    ours, theirs = gymnasium.make(f"gpu_envs/{env_id}"), gymnasium.make(env_id)
    assert complaints(ours.unwrapped) <= complaints(theirs.unwrapped)
    assert complaints(ours) <= complaints(theirs)
    assert [type(wrapper) for wrapper in layers(ours)[:-1]] == [type(wrapper) for wrapper in layers(theirs)[:-1]]


def layers(env):
    """Return the wrappers of an environment, outermost first, and the environment."""
    stack = [env]
    while isinstance(stack[-1], gymnasium.Wrapper):
        stack.append(stack[-1].env)
    return stack


@pytest.mark.parametrize("limit", [3, 1000, -1])
def test_time_limits_equal_gymnasiums(limit):
    """gymnasium.make cuts sooner, later or never, as with its own environments."""
    env = gymnasium.make("gpu_envs/MountainCar-v0", max_episode_steps=limit)
    env.reset(seed=0)
    cuts = [env.step(1)[3] for _ in range(1001)]
    assert (cuts.index(True) if any(cuts) else -2) == limit - 1
    if limit > 0:
        many = gymnasium.make_vec("gpu_envs/MountainCar-v0", 2, max_episode_steps=limit, device="cpu")
        many.reset(seed=0)
        ones = torch.ones(2, dtype=torch.int64)
        cuts = [bool(many.step(ones)[3].all()) for _ in range(limit)]
        assert cuts == [False] * (limit - 1) + [True]


def spread(env_id, obs):
    """Return the largest angle or position, and speed, that reset options set."""
    obs = np.atleast_2d(np.asarray(obs))
    if env_id == "Pendulum-v1":
        return np.abs(np.arctan2(obs[:, 1], obs[:, 0])).max(), np.abs(obs[:, 2]).max()
    if env_id == "Acrobot-v1":
        return np.abs(np.arctan2(obs[:, 1], obs[:, 0])).max(), np.abs(obs[:, 4]).max()
    return np.abs(obs[:, 0]).max(), np.abs(obs[:, 1]).max()


USUAL = {
    "CartPole-v1": (0.05, 0.05),
    "MountainCar-v0": (0.6, 0.0),
    "MountainCarContinuous-v0": (0.6, 0.0),
    "Pendulum-v1": (np.pi, 1.0),
    "Acrobot-v1": (0.1, 0.1),
}
GIVEN = {
    "CartPole-v1": ({"low": -0.3, "high": 0.3}, (0.3, 0.3)),
    "MountainCar-v0": ({"low": -0.9, "high": -0.7}, (0.9, 0.0)),
    "MountainCarContinuous-v0": ({"low": -0.9, "high": -0.7}, (0.9, 0.0)),
    "Pendulum-v1": ({"x_init": 0.5, "y_init": 3.0}, (0.5, 3.0)),
    "Acrobot-v1": ({"low": -1.2, "high": 1.2}, (1.2, 1.2)),
}


@pytest.mark.parametrize("env_id", IDS)
def test_reset_options_apply_to_one_reset(env_id):
    """Options apply in all interfaces; the next reset and autoresets use the defaults."""
    options, (position, speed) = GIVEN[env_id]
    usual_place, usual_speed = USUAL[env_id]

    def check_given(obs):
        limits = spread(env_id, obs)
        assert limits[0] == pytest.approx(position, rel=0.05)
        assert limits[0] <= position + 1e-6
        assert limits[1] == pytest.approx(speed, rel=0.05)
        assert limits[1] <= speed

    def usual(obs):
        limits = spread(env_id, obs)
        assert limits[0] == pytest.approx(usual_place, rel=0.05)
        assert limits[1] == pytest.approx(usual_speed, rel=0.05)

    kinds = {"device": "cpu", "max_episode_steps": 1, "autoreset_mode": SAME_STEP, "to_numpy": True}
    rows = gymnasium.make_vec(f"gpu_envs/{env_id}", 2000, **kinds)
    usual(rows.reset(seed=0)[0])
    check_given(rows.reset(options=dict(options))[0])
    usual(rows.step(rows.sample_actions())[0])  # the episodes after, by themselves
    usual(rows.reset()[0])
    with pytest.raises(ConfigError, match="no reset option named 'something else'; expected one of reset_mask, "):
        rows.reset(options={"something else": 3})
    batch = gpu_envs.make(env_id, 2000, device="cpu")
    check_given(batch.reset(seed=0, options=dict(options))[0]["agent_0"])
    usual(batch.reset()[0]["agent_0"])
    mask = torch.arange(2000) < 1000
    obs = batch.reset(options={"reset_mask": mask, **options})[0]["agent_0"]
    check_given(obs[mask])
    usual(obs[~mask])
    for env in (
        gymnasium.make(f"gpu_envs/{env_id}"),
        gymnasium.make(env_id),
    ):  # the original fulfills the same conditions
        check_given(np.stack([env.reset(seed=seed, options=dict(options))[0] for seed in range(150)]))
        usual(np.stack([env.reset(seed=seed)[0] for seed in range(150)]))


def test_reset_options_with_parameters_per_world():
    """Constants that differ by world come back as they were."""
    env = gpu_envs.make("CartPole-v1", 3, device="cpu")
    env.core.set_params(start_high=torch.tensor([0.01, 0.02, 0.03]), gravity=torch.tensor([1.0, 2.0, 3.0]))
    env.reset(seed=0, options={"low": 0.3, "high": 0.4})
    assert (env.core.obs >= 0.3).all()
    params = env.core.get_params()
    torch.testing.assert_close(params["start_high"], torch.tensor([0.01, 0.02, 0.03]))
    torch.testing.assert_close(params["start_low"], torch.full((3,), -0.05))
    torch.testing.assert_close(params["gravity"], torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("env_id", "options", "words"),
    [
        ("CartPole-v1", {"low": "x"}, "options['low']: expected a finite number, got 'x'"),
        ("CartPole-v1", {"high": None}, "options['high']: expected a finite number, got None"),
        ("CartPole-v1", {"low": 0.2}, "options['low']: expected at most options['high'], got 0.2 and 0.05"),
        ("MountainCar-v0", {"low": float("inf")}, "options['low']: expected a finite number, got inf"),
        ("MountainCarContinuous-v0", {"low": 1, "high": 0}, "options['low']: expected at most"),
        ("Acrobot-v1", {"high": -1}, "options['low']: expected at most options['high'], got -0.1 and -1.0"),
        ("Pendulum-v1", {"x_init": -1}, "options['x_init']: expected a finite number >= 0, got -1"),
        ("Pendulum-v1", {"y_init": []}, "options['y_init']: expected a finite number, got []"),
    ],
)
def test_invalid_reset_options_raise(env_id, options, words):
    """One line, from where Gymnasium has an error too."""
    with pytest.raises((ValueError, OverflowError)):
        gymnasium.make(env_id).reset(options=dict(options))
    for env in (gymnasium.make(f"gpu_envs/{env_id}"), gymnasium.make_vec(f"gpu_envs/{env_id}", 2, device="cpu")):
        env.reset(seed=0)
        state = env.unwrapped.core.get_state()
        with pytest.raises(ConfigError) as caught:
            env.reset(options=dict(options))
        assert words in str(caught.value)
        after = env.unwrapped.core.get_state()
        assert all(torch.equal(state[name], after[name]) for name in state)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_actions_outside_of_the_box_saturate(env_id):
    """Gymnasium's environments and views accept these actions; the core and other interfaces raise."""
    ours, theirs = gymnasium.make(f"gpu_envs/{env_id}"), gymnasium.make(env_id)
    ours.reset(seed=0)
    theirs.reset(seed=0)
    many = gymnasium.make_vec(f"gpu_envs/{env_id}", 1, device="cpu", to_numpy=True)
    many.reset(seed=0)
    for action in (np.array([5.0]), np.array([-3.0], np.float32), [2.5]):
        put(theirs, ours.unwrapped.core.world_state["motion"][0].numpy())
        many.core.world_state["motion"].copy_(ours.unwrapped.core.world_state["motion"])
        obs, reward, *_ = ours.step(action)
        their_obs, their_reward, *_ = theirs.step(np.asarray(action))
        rows_obs, rows_reward, *_ = many.step(np.asarray(action)[None])
        np.testing.assert_allclose(obs, their_obs, atol=TOLERANCE)
        np.testing.assert_array_equal(obs, rows_obs[0])
        assert reward == rows_reward[0] == pytest.approx(their_reward, abs=TOLERANCE)
    for bad in (np.nan, np.inf):
        with pytest.raises(ActionError, match="is not finite"):
            ours.step(np.array([bad], np.float32))
        with pytest.raises(ActionError, match="is not finite"):
            many.step(np.array([[bad]], np.float32))
    strict = gymnasium.make(f"gpu_envs/{env_id}", illegal_actions="error")
    strict.reset(seed=0)
    with pytest.raises(ActionError, match="out of range"):
        strict.step(np.array([5.0]))
    batched, single = gpu_envs.make(env_id, 1, device="cpu"), gpu_envs.parallel_env(env_id)
    for env, action in ((batched, torch.tensor([[5.0]])), (single, np.array([5.0]))):
        env.reset(seed=0)
        with pytest.raises(ActionError, match="out of range"):
            env.step({"agent_0": action})
