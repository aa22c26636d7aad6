"""Stable-Baselines3: rows as a VecEnv, its wrappers, and training beside random, scripted and frozen opponents."""

import copy
import pickle
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from small_environments import SMALL, group_of
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecMonitor, VecNormalize

from gpu_envs.errors import ActionError, ConfigError, ResetNeededError
from gpu_envs.runtime.factory import make_core
from gpu_envs.views.sb3 import SB3VecEnv, _Model

sys.path.append(str(Path(__file__).parents[2] / "examples"))


def make(env_id="SimpleTag-v0", num_envs=4, **settings):
    usual = {"group": group_of(env_id) if env_id in SMALL else None, "device": "cpu", **SMALL.get(env_id, {})}
    return SB3VecEnv(env_id, num_envs, **{**usual, **settings})


def actions_of(env):
    """Return random legal actions from the worlds' own streams, in the format of SB3."""
    return env.rows.sample_actions()


# ---------------------------------------------------------------- the rows are the core


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TagContinuous-v0", "CartPole-v1", "Toy-v0"])
def test_rows_are_the_core(toys, env_id):
    """Ends, last observations and time limits agent by agent, where agents leave one by one, too."""
    settings = {"max_episode_steps": 25} if env_id == "CartPole-v1" else {"tires": 3} if env_id == "Toy-v0" else {}
    env = make(env_id, 5, seed=3, **settings)
    core = make_core(env_id, 5, "cpu", **{**SMALL.get(env_id, {}), "seed": 3, **settings})
    members = core.groups[group_of(env_id) if env_id in SMALL else "walker"]
    places = [(world, row) for world in range(5) for row in members]
    width = env.observation_space.shape[0]
    assert env.num_envs == len(places)
    obs = env.reset()
    first, _ = core.reset()
    np.testing.assert_array_equal(obs, np.stack([first[world, row, :width] for world, row in places]))
    ended, limits, cut = 0, set(), torch.zeros(5, core.num_agents, dtype=torch.bool)
    for _ in range(60):
        action = actions_of(env)
        joint = core.sample_actions()
        np.testing.assert_array_equal(action, np.stack([joint[world, row] for world, row in places]))
        obs, rewards, dones, infos = env.step(action)
        c_obs, c_rewards, terminated, truncated, info = core.step(joint)
        assert obs.dtype == rewards.dtype == np.float32
        assert dones.dtype == bool
        cut |= truncated
        over = ~(info["valid"] & ~(terminated | truncated)).any(1)
        for k, (world, row) in enumerate(places):
            np.testing.assert_array_equal(obs[k], c_obs[world, row, :width])
            assert rewards[k] == c_rewards[world, row]
            assert infos[k]["alive"] == info["alive"][world, row]
            assert infos[k]["valid"] == info["valid"][world, row]
            assert dones[k] == over[world]
            assert infos[k]["TimeLimit.truncated"] == bool(over[world] and cut[world, row])
            assert ("terminal_observation" in infos[k]) == ("episode" in infos[k]) == dones[k]
            if dones[k]:
                ended += 1
                limits.add(infos[k]["TimeLimit.truncated"])
                np.testing.assert_array_equal(infos[k]["terminal_observation"], info["final_obs"][world, row, :width])
                assert infos[k]["episode"]["r"] == info["episode_return"][world, row]
                assert infos[k]["episode"]["l"] == info["episode_length"][world, row]
        cut[over] = False
    assert ended > 10
    assert limits == {"SimpleTag-v0": {True}, "TagContinuous-v0": {False}}.get(env_id, {True, False})


# ---------------------------------------------------------------- VecEnv


def test_vec_env_contract_holds():
    env = make(render_mode="rgb_array")
    assert isinstance(env, VecEnv)
    assert env.num_envs == 12
    assert env.spec.id == "gpu_envs/SimpleTag-v0"
    assert env.observation_space.shape == (16,)
    assert env.action_space == gymnasium.spaces.Discrete(5)
    assert env.render_mode == "rgb_array"
    with pytest.raises(ResetNeededError, match="before the first reset"):
        env.step(np.zeros(12, np.int64))
    env.reset()
    with pytest.raises(ResetNeededError, match="call step_async"):
        env.step_wait()
    assert len(env.reset_infos) == 12
    assert all(info["alive"] for info in env.reset_infos)
    env.step_async(np.zeros(12, np.int64))
    assert env.step_wait()[0].shape == (12, 16)
    with pytest.raises(ActionError, match="out of range"):
        env.step(np.full(12, 5))
    # attributes and methods belong to the batch
    assert env.get_attr("num_envs", [0, 5]) == [12, 12]
    assert env.get_attr("obs_width", 3) == [16]
    assert not env.has_attr("no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"):
        env.env_method("no_such_thing")
    assert env.env_method("set_params", tag_reward=3.0, indices=[0, 1]) == [None, None]
    assert env.core.get_params()["tag_reward"] == 3
    for name, words in (
        ("num_envs", "num_envs is fixed when the environment is created; .*set_params.*adversary_size"),
        ("num_good", "num_good is fixed"),
        ("tag_reward", r"is an environment parameter; use env_method\('set_params', tag_reward=...\)"),
    ):
        with pytest.raises(ConfigError, match=words):
            env.set_attr(name, 1)
    env.set_attr("note", 7)
    assert env.get_attr("note") == [7] * 12
    with pytest.raises(ConfigError, match="holds for all rows"):
        env.set_attr("note", 7, [0])
    assert env.env_is_wrapped(Monitor) == [True] * 12  # the infos have a Monitor's "episode"
    assert env.env_is_wrapped(gymnasium.Wrapper, [1, 2]) == [False] * 2
    assert not is_wrapped(env, Monitor)
    # pictures: one per world
    assert [picture.shape for picture in env.get_images()] == [(256, 256, 3)] * 4
    assert env.render().shape == (512, 512, 3)
    env.close()
    with pytest.raises(ResetNeededError, match="closed"):
        env.reset()


def test_rows_share_an_info_that_refuses_changes_until_their_episode_ends():
    env = make()
    env.reset()
    _, _, _, infos = env.step(actions_of(env))
    for change in (lambda info: info.update(note=1), lambda info: info.clear()):
        with pytest.raises(TypeError, match=r"change a copy, dict\(info\)"):
            change(infos[0])
    with pytest.raises(TypeError, match=r"several rows.* VecEnvWrapper .* infos = \[dict\(info\) for info in infos\]"):
        infos[0]["note"] = 1
    for copied in (dict(infos[0]), infos[0].copy(), copy.deepcopy(infos[0]), pickle.loads(pickle.dumps(infos[0]))):
        assert type(copied) is dict
        copied["note"] = 1
    assert infos[1] == {"alive": True, "valid": True, "TimeLimit.truncated": False}
    dones = np.zeros(12, bool)
    while not dones.any():
        _, _, dones, infos = env.step(actions_of(env))
    assert dones[:2].all()
    infos[0]["note"] = 1
    _, _, _, later = env.step(actions_of(env))
    assert not any("note" in info for info in [*infos[1:], *later])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_are_rebuilt_with_equal_arguments(copied):
    """The arguments include a frozen model, also a trained one."""
    chasers = PPO("MlpPolicy", make(group="adversary"), n_steps=5, batch_size=60, n_epochs=1, device="cpu").learn(60)
    env = make(group="agent", seed=5)
    env.set_opponents({"adversary": chasers})
    twin = copied(env)
    assert (twin.num_envs, twin.spec.id) == (4, "gpu_envs/SimpleTag-v0")
    assert twin.core is not env.core
    assert twin.rows.spec.id == twin.spec.id
    np.testing.assert_array_equal(twin.reset(), env.reset())
    twin.step(actions_of(twin))
    twin.close()
    env.step(actions_of(env))


def test_frozen_opponent_gets_normalized_observations():
    """A model trained with VecNormalize gets normalized observations as an opponent, too."""
    learner = VecNormalize(make(group="adversary", seed=1))
    chasers = PPO("MlpPolicy", learner, n_steps=5, batch_size=60, n_epochs=1, device="cpu").learn(120)
    observations, predict = [], chasers.predict
    chasers.predict = lambda obs, **more: observations.append(obs) or predict(obs, **more)
    env = make(group="agent", opponents={"adversary": chasers}, seed=2)
    env.reset()
    raw = env.core.obs[:, :3, :16].reshape(12, 16).numpy().copy()
    env.step(actions_of(env))
    np.testing.assert_array_equal(observations[0], learner.normalize_obs(raw))
    assert not np.allclose(observations[0], raw)


def test_render_modes(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    silent = make()
    silent.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None
    window = make(render_mode="human")
    window.reset()
    assert window.render() is None
    window.close()
    with pytest.raises(ConfigError, match="render_mode"):
        make(render_mode="ansi")


def test_equal_seeds_give_equal_resets():
    """SB3 seeds at the next reset; every world has its own random stream under the first seed."""
    env, twin = make(), make()
    assert env.seed(11) == list(range(11, 23))
    first = env.reset()
    second = env.reset()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first.reshape(4, 3, 16), twin.rows.reset(seed=11)[0].reshape(4, 3, 16))
    assert len(np.unique(first[::3], axis=0)) == 4
    env.seed(11)
    np.testing.assert_array_equal(env.reset(), first)
    assert len(env.seed(None)) == 12
    assert not np.array_equal(env.reset(), first)


def test_list_of_seeds_gives_every_world_its_own():
    env, single = make("CartPole-v1"), gymnasium.make("gpu_envs/CartPole-v1")
    assert env.seed([7, 8, 7, 9]) == [7, 8, 7, 9]
    obs = env.reset()
    for row, seed in enumerate((7, 8, 7, 9)):
        np.testing.assert_array_equal(obs[row], single.reset(seed=seed)[0])
    assert not np.array_equal(env.reset(), obs)  # the next episodes
    rows = make(num_envs=2)  # three rows per world
    assert rows.seed(np.array([4, 4])) == [4] * 6
    obs = rows.reset()
    np.testing.assert_array_equal(obs[:3], obs[3:])
    with pytest.raises(ConfigError, match="seed: expected an int or one int per world, 2 of them, got 6 seeds"):
        rows.seed([1] * 6)


def test_truncation_of_an_episode_that_terminates_at_its_limit_is_not_reported():
    """SB3's own vector environments bootstrap such an episode with 0."""
    env = make("CartPole-v1", 2, max_episode_steps=2)
    env.reset()
    env.step(np.zeros(2, np.int64))
    env.core.world_state["motion"][0] = torch.tensor([2.4, 5.0, 0.0, 0.0])
    _, _, dones, infos = env.step(np.ones(2, np.int64))
    assert dones.tolist() == [True, True]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True]


def test_options_of_a_reset():
    env = make("CartPole-v1")
    env.set_options({"low": 0.01, "high": 0.02})
    obs = env.reset()
    assert (obs >= 0.01).all()
    assert (obs <= 0.02).all()
    assert (env.reset() < 0.01).any()
    env.set_options([{"low": 0.01, "high": 0.02}, {}, {}, {}])
    with pytest.raises(ConfigError, match="options of a reset hold for all rows"):
        env.reset()


def test_invalid_settings_raise():
    for name in ("autoreset", "autoreset_mode", "reuse_buffers", "to_numpy"):
        with pytest.raises(ConfigError, match=f"{name} is fixed in the view for SB3"):
            make(**{name: True})
    with pytest.raises(ConfigError, match="choose group='adversary' or group='agent'"):
        SB3VecEnv("SimpleTag-v0", 2)
    with pytest.raises(ConfigError, match="unexpected keyword argument 'num_goods'"):
        make(num_goods=2)


def test_action_masks_are_returned_for_every_row(toys):
    """MaskablePPO of sb3-contrib reads a mask for every row."""
    env = make("Toy-v0", 3)
    env.reset()
    for _ in range(12):
        masks = np.stack(env.env_method("action_masks"))
        assert masks.shape == (9, 3)
        assert env.has_attr("action_masks")
        np.testing.assert_array_equal(masks, env.core.action_mask.reshape(9, 3))
        np.testing.assert_array_equal(np.stack(env.env_method("action_masks", indices=[4, 7])), masks[[4, 7]])
        _, _, _, infos = env.step(masks.argmax(1))
        np.testing.assert_array_equal(infos[4]["action_mask"], env.core.action_mask.reshape(9, 3)[4])
    assert not make().has_attr("action_masks")


# ---------------------------------------------------------------- SB3's wrappers


def test_sb3s_wrappers_compose(tmp_path):
    inner = make("CartPole-v1", 6, max_episode_steps=25, seed=1)
    env = VecNormalize(VecFrameStack(VecMonitor(inner, str(tmp_path / "log")), 2), gamma=0.9)
    assert env.unwrapped is inner
    obs = env.reset()
    assert obs.shape == (6, 8)
    ended = 0
    for _ in range(60):
        _, _, dones, infos = env.step(actions_of(inner))
        for row in np.flatnonzero(dones):
            ended += 1
            assert infos[row]["terminal_observation"].shape == (8,)
            assert infos[row]["episode"]["r"] == infos[row]["episode"]["l"] <= 25  # a point a step
    assert ended > 10
    assert env.get_attr("num_envs") == [6] * 6
    env.close()
    assert len((tmp_path / "log.monitor.csv").read_text().splitlines()) == ended + 2


def test_single_agent_environment_passes_sb3_check_env():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("gpu_envs/SimpleTag-v0", agent="agent_0").unwrapped, skip_render_check=True)


# ---------------------------------------------------------------- opponents


class Always:
    """An object with the `predict` method of an SB3 model."""

    def __init__(self, choice):
        self.choice, self.observations = choice, []

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.observations.append(observation.copy())
        return np.full(len(observation), self.choice), None


def test_opponents_are_models_callables_or_random():
    model = Always(2)
    settings = {"group": "agent", "seed": 5}
    models, callables = (
        make(opponents={"adversary": model}, **settings),
        make(opponents=lambda obs: torch.full(obs.shape[:2], 2), **settings),
    )
    np.testing.assert_array_equal(models.reset(), callables.reset())
    for t in range(8):
        expected = models.core.obs[:, :3, :16].reshape(12, 16).numpy().copy()
        action = actions_of(models)
        for left, right in zip(models.step(action)[:3], callables.step(action)[:3], strict=True):
            np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(model.observations[t], expected)
    models.set_opponents("random")
    models.step(actions_of(models))
    assert len(model.observations) == 8
    with pytest.raises(ConfigError, match="opponents has no 'fox' to play"):
        models.set_opponents({"fox": model})


def test_sb3_model_with_continuous_actions_acts_as_an_opponent():
    chase = make(seed=6, continuous_actions=True)
    chasers = PPO("MlpPolicy", chase, n_steps=2, batch_size=24, device="cpu", seed=0)
    flight = make(group="agent", opponents=chasers, seed=6, continuous_actions=True)
    obs = flight.reset()
    for _ in range(9):
        obs, *_ = flight.step(actions_of(flight))
    assert np.isfinite(obs).all()


def test_opponent_with_action_masks_receives_them(toys):
    """MaskablePPO of sb3-contrib has such a method."""

    class Legal:
        def predict(self, observation, state=None, episode_start=None, deterministic=False, action_masks=None):
            assert action_masks.shape == (len(observation), 3)
            return action_masks.argmax(1), None

    core = make_core("Toy-v0", 4, "cpu", seed=0)
    obs, info = core.reset()
    chosen = _Model(Legal())(obs, info["action_mask"])
    assert chosen.shape == (4, 3)
    assert info["action_mask"].gather(2, chosen[..., None]).all()
    assert (_Model(Always(1))(obs, info["action_mask"]) == 1).all()


# ---------------------------------------------------------------- training


def test_ppo_beats_random_on_simple_tag(recwarn):
    env = SB3VecEnv("SimpleTag-v0", 64, group="adversary", device="cpu", seed=0)
    settings = {"n_steps": 25, "batch_size": 1200, "n_epochs": 4, "learning_rate": 3e-3, "gamma": 0.95}
    scaled = VecNormalize(env, norm_obs=False, gamma=0.95)
    model = PPO("MlpPolicy", scaled, seed=0, device="cpu", **settings).learn(160_000)
    assert len(model.ep_info_buffer) == 100  # the view's own "episode"
    fresh = SB3VecEnv("SimpleTag-v0", 32, group="adversary", device="cpu", seed=99)
    mean, _ = evaluate_policy(model, fresh, n_eval_episodes=192, deterministic=False)
    assert not [str(warning.message) for warning in recwarn if "Monitor" in str(warning.message)]
    returns = []
    fresh.reset()
    while len(returns) < 192:
        _, _, _, infos = fresh.step(actions_of(fresh))
        returns += [info["episode"]["r"] for info in infos if "episode" in info]
    chance = np.mean(returns)
    assert mean > chance + 6, f"PPO {mean:.1f}, random {chance:.1f}"


def test_off_policy_learners_run():
    env = make(num_envs=2)
    DQN("MlpPolicy", env, learning_starts=20, buffer_size=200, train_freq=2, device="cpu", seed=0).learn(120)


def test_example_trains_with_small_settings():
    import sb3_simple_tag

    results = sb3_simple_tag.train(steps=9_600, num_envs=8, verbose=0)
    assert len(results) == 5
    assert all(np.isfinite(value) for value in results.values())
