"""RLlib, new API stack: agents by the single-world view, rows by the vector view; also images and named blocks."""

import copy
from importlib.metadata import version

import gymnasium
import numpy as np
import pictures
import pytest
import ray
from chance import passes_with_one
from pettingzoo.utils import BaseWrapper
from pictures import SPACES, equal
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from ray.tune.registry import register_env
from small_environments import SMALL
from toy import announce

import gpu_envs
from docs.scripts import notebook
from examples import rllib_simple_tag
from gpu_envs.runtime.factory import configured_definition
from gpu_envs.views.rows import RowsEnv


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_gymnasium_is_the_older_one():
    """This is where the lower end of the range in pyproject.toml is tested."""
    assert version("gymnasium") == gymnasium.__version__ == "1.2.2"


MASKED = [name for name in gpu_envs.list_envs() if configured_definition(name, None, SMALL[name])[2].rules.masked]


class Unmasked(BaseWrapper):
    """A world whose observations have no masks: RLlib's default networks take arrays."""

    def observation_space(self, agent):
        return super().observation_space(agent)["observation"]

    def observe(self, agent):
        return super().observe(agent)["observation"]


def parallel(env_id, **settings):
    return ParallelPettingZooEnv(gpu_envs.parallel_env(env_id, **SMALL[env_id], **settings))


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TagContinuous-v0", "TagGridworld-v0"])
def test_multi_agent_episode_ends_when_all_agents_have_left(env_id):
    """RLlib's wrapper reports the end of an episode once no agent is left, and not before."""
    env = parallel(env_id)
    for seed in range(6):
        obs, _ = env.reset(seed=seed)
        assert set(obs) == set(env.par_env.possible_agents)
        over, steps = False, 0
        while not over:
            actions = {agent: env.get_action_space(agent).sample() for agent in env.par_env.agents}
            obs, reward, terminated, truncated, _ = env.step(actions)
            over = terminated["__all__"] or truncated["__all__"]
            assert over == (not env.par_env.agents)
            assert set(obs) == set(reward) == set(actions)
            for agent, value in obs.items():
                assert env.get_observation_space(agent).contains(value)
            steps += 1
        assert steps <= 9


@pytest.mark.parametrize("env_id", MASKED)
def test_masked_worlds_play_through_both_wrappers(env_id):
    """Observations of either wrapper have the mask; rewards through the AEC wrapper sum to the episode's rewards."""
    wrapped = parallel(env_id)
    obs, _ = wrapped.reset(seed=0)
    over = False
    while not over:
        agents = wrapped.par_env.agents
        actions = {agent: wrapped.get_action_space(agent).sample(obs[agent]["action_mask"]) for agent in agents}
        obs, _, terminated, truncated, _ = wrapped.step(actions)
        over = terminated["__all__"] or truncated["__all__"]
    env = PettingZooEnv(gpu_envs.aec_env(env_id, **SMALL[env_id]))
    obs, _ = env.reset(seed=0)
    returns, over = dict.fromkeys(env.env.possible_agents, 0.0), False
    while not over:
        (agent,) = obs
        obs, rewards, terminated, truncated, _ = env.step(
            {agent: env.env.action_space(agent).sample(obs[agent]["action_mask"])}
        )
        for agent, reward in rewards.items():
            returns[agent] += reward
        over = not env.env.agents
    assert over == (terminated["__all__"] or truncated["__all__"])
    episode = env.env._world.core._io["episode_return"][0].tolist()
    np.testing.assert_allclose(list(returns.values()), episode, rtol=1e-5, atol=1e-6)


def build(env_id, batch, num_epochs=2, config=None, policies=None, policy_of=None, **runners):
    """Return PPO in this process."""
    settings = PPOConfig().environment(env_id, env_config=config or {}).learners(num_learners=0).debugging(seed=0)
    settings.env_runners(num_env_runners=0, **runners)
    settings.training(train_batch_size_per_learner=batch, minibatch_size=batch // 2, num_epochs=num_epochs)
    if policies:
        settings.multi_agent(policies=policies, policy_mapping_fn=policy_of)
    return settings.build_algo()


def test_game_of_turns_trains_through_the_aec_wrapper():
    """Each player has a policy; the observation without its mask is the policy's input."""
    register_env("turns", lambda config: PettingZooEnv(Unmasked(gpu_envs.aec_env("TicTacToe-v0"))))
    policies = {"player_0", "player_1"}
    algorithm = build("turns", 100, 1, policies=policies, policy_of=lambda agent, *_, **__: agent)
    initial = weights(algorithm)
    metrics = algorithm.train()["env_runners"]
    assert moved(initial, weights(algorithm)) == policies
    assert metrics["num_episodes"] > 0
    assert abs(sum(metrics["agent_episode_returns_mean"].values())) < 1e-6  # zero-sum
    algorithm.stop()


def weights(algorithm):
    return copy.deepcopy(algorithm.get_weights())


def moved(initial, after):
    """Return the names of the modules that changed."""
    return {
        name
        for name, values in after.items()
        if any(not np.array_equal(np.asarray(value), np.asarray(initial[name][key])) for key, value in values.items())
    }


@pytest.mark.parametrize("env_id", ["SimpleTag-v0", "TagContinuous-v0"])
def test_multi_agent(env_id):
    """One policy per group of unequal spaces; in TagContinuous runners leave early."""
    register_env(env_id, lambda config: parallel(env_id))
    groups = set(gpu_envs.make(env_id, device="cpu", **SMALL[env_id]).core.groups)
    policies = {"policies": groups, "policy_of": rllib_simple_tag.group_of}
    algorithm = build(env_id, 200, num_envs_per_env_runner=3, **policies)
    initial = weights(algorithm)
    for _ in range(2):
        result = algorithm.train()
    assert moved(initial, weights(algorithm)) == groups
    metrics = result["env_runners"]
    assert metrics["num_env_steps_sampled"] >= 200
    assert metrics["num_episodes"] > 0
    assert set(metrics["agent_episode_returns_mean"]) <= set(algorithm.env_runner.env.envs[0].unwrapped.possible_agents)
    for group in groups:
        assert np.isfinite(result["learners"][group]["total_loss"])
    algorithm.stop()


def pack(config):
    """Return the rows of one group; RLlib counts rows."""
    settings = {**config, **SMALL["SimpleTag-v0"], "num_envs": config["num_envs"] // 3}
    return gymnasium.make_vec("gpu_envs/SimpleTag-v0", group="adversary", to_numpy=True, device="cpu", **settings)


@pytest.mark.parametrize(
    ("name", "env_id", "settings"),
    [
        ("gpu_envs:gpu_envs/CartPole-v1", "CartPole-v1", {"to_numpy": True, "device": "cpu", **SMALL["CartPole-v1"]}),
        ("pack", "SimpleTag-v0", {}),
    ],
)
def test_batch_of_worlds_is_a_vector_environment(name, env_id, settings):
    """The rows of a group share a policy."""
    register_env("pack", pack)
    vector = {"num_envs_per_env_runner": 12, "gym_env_vectorize_mode": "vector_entry_point"}
    algorithm = build(name, 240, config=settings, **vector)
    assert isinstance(algorithm.env_runner.env.unwrapped, RowsEnv)
    initial = weights(algorithm)
    for _ in range(3):
        metrics = algorithm.train()["env_runners"]
    assert moved(initial, weights(algorithm)) == {"default_policy"}
    assert metrics["num_env_steps_sampled"] >= 240
    limit = SMALL[env_id].get("max_cycles") or SMALL[env_id]["max_episode_steps"]
    episodes = algorithm.env_runner.sample(num_episodes=24)  # RLlib's own figures count a chunk's end twice
    assert all(episode.is_done and len(episode) <= limit for episode in episodes)
    assert any(episode.is_truncated and len(episode) == limit for episode in episodes)
    algorithm.stop()


# ---------------------------------------------------------------- images and named blocks

KINDS = pytest.mark.parametrize("kind", SPACES)


@pytest.fixture
def shown(monkeypatch):
    announce(monkeypatch, "Pictures-v0", pictures)


@KINDS
def test_wrapper_of_agents_has_the_space_and_its_observations(kind, shown):
    env = ParallelPettingZooEnv(gpu_envs.parallel_env("Pictures-v0", kind=kind))
    assert env.get_observation_space("viewer_1") == SPACES[kind]
    observations, _ = env.reset(seed=0)
    equal(observations["viewer_1"], 0, kind)
    observations, *_ = env.step({"viewer_0": 0, "viewer_1": 1})
    equal(observations["viewer_0"], 1, kind)


def make_rows(kind, rows):
    """Make a row per world and viewer; RLlib counts rows, make_vec worlds."""
    return gymnasium.make_vec("gpu_envs/Pictures-v0", num_envs=rows // 2, to_numpy=True, kind=kind)


@KINDS
def test_rows_have_the_space_and_its_observations_with_the_older_gymnasium(kind, shown):
    env = make_rows(kind, 6)
    assert env.single_observation_space == SPACES[kind]
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    equal(observations, 0, kind, (6,))


@pytest.mark.parametrize("kind", ["uint8", "named"])
def test_rows_train_with_flattened_observations(kind, shown):
    """RLlib's default networks take no Dict, and images of a few sizes only."""
    register_env("rows", lambda config: make_rows(kind, config["num_envs"]))
    algorithm = build(
        "rows",
        48,
        1,
        num_envs_per_env_runner=6,
        gym_env_vectorize_mode="vector_entry_point",
        env_to_module_connector=lambda env, spaces, device: FlattenObservations(),
    )
    result = algorithm.train()["env_runners"]
    algorithm.stop()
    assert result["episode_len_mean"] == 4


# ---------------------------------------------------------------- example and documentation


@pytest.mark.parametrize("options", [[], ["--agents"]])
def test_example_runs(options):
    returns = rllib_simple_tag.main([*options, "--iterations", "2", "--batch", "600", "--num-envs", "8"])
    assert len(returns) == 2
    assert np.isfinite(returns).all()


@pytest.mark.learning
@pytest.mark.parametrize(("options", "iterations"), [([], 28), (["--agents"], 44)])
def test_example_learns(options, iterations):
    """With agents the result varies between processes at equal seeds: some take 1.5 times as many steps."""

    def check(seed):
        returns = rllib_simple_tag.main([*options, "--iterations", str(iterations), "--seed", str(seed)])
        assert sum(returns[-3:]) > 2 * sum(returns[:3])

    passes_with_one((0, 1), check)


def test_blocks_of_the_page_run():
    notebook.run(notebook.LIBRARIES, notebook.PYTHON, "RLlib")


def test_tutorial_returns_are_finite():
    assert np.isfinite(notebook.run(notebook.TUTORIALS / "libraries" / "rllib.md")["returns"]).all()
