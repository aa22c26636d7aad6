"""RLlib reads images and named blocks: agents by the single-world view, rows by the vector view."""

import gymnasium
import pictures
import pytest
import ray
from pictures import SPACES, equal
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env
from toy import announce

import gpu_envs

KINDS = pytest.mark.parametrize("kind", SPACES)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    announce(monkeypatch, "Pictures-v0", pictures)


@pytest.fixture(scope="module")
def cluster():
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@KINDS
def test_wrapper_of_agents_has_the_space_and_its_observations(kind):
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
def test_rows_have_the_space_and_its_observations_with_the_older_gymnasium(kind):
    env = make_rows(kind, 6)
    assert env.single_observation_space == SPACES[kind]
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    equal(observations, 0, kind, (6,))


@pytest.mark.parametrize("kind", ["uint8", "named"])
def test_rows_train_with_flattened_observations(kind, cluster):
    """RLlib's default networks take no Dict, and images of a few sizes only."""
    register_env("rows", lambda config: make_rows(kind, config["num_envs"]))
    config = PPOConfig().environment("rows")
    config.env_runners(
        num_env_runners=0,
        num_envs_per_env_runner=6,
        gym_env_vectorize_mode="vector_entry_point",
        env_to_module_connector=lambda env, spaces, device: FlattenObservations(),
    )
    config.training(train_batch_size_per_learner=48, minibatch_size=24, num_epochs=1)
    algorithm = config.build_algo()
    result = algorithm.train()["env_runners"]
    algorithm.stop()
    assert result["episode_len_mean"] == 4
