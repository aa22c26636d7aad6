"""SwitchRiddle-v0, CoinGame-v0 and OvercookedV2-v0 against JaxMARL 0.2.0, step by step."""

import jax
import jaxmarl
import numpy as np
import pytest
from libraries import jaxmarl_oracle as oracle
from libraries.oracle_checks import assert_recorded
from parity.jax_replay import PATHS

from gpu_envs.runtime.factory import make_core

SETTINGS = 6
WORLDS = {"SwitchRiddle-v0": 600, "CoinGame-v0": 160, "OvercookedV2-v0": 160}  # random prisoners tell early


@pytest.mark.parametrize("env_id", oracle.ORIGINALS)
def test_steps_with_random_settings_equal_the_original(env_id):
    total = {}
    for index in range(SETTINGS):
        settings = oracle.random_settings(env_id, np.random.default_rng(index))
        steps = 60 if env_id == "SwitchRiddle-v0" else 30
        counts = oracle.compare(env_id, settings, WORLDS[env_id], steps, index)[1]
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] > 20_000
    assert min(total.values()) > 100, total


def test_recorded_traces_are_those_of_the_original(tmp_path):
    for path in oracle.record_all(tmp_path):
        recorded = next(candidate for candidate in PATHS.values() if candidate.name == path.name)
        assert_recorded(path, recorded)


@pytest.mark.parametrize(
    ("env_id", "name", "settings"),
    [
        ("SwitchRiddle-v0", "switch_riddle", {"num_agents": 3}),
        ("SwitchRiddle-v0", "switch_riddle", {"num_agents": 6}),
        ("CoinGame-v0", "coin_game", {}),
    ],
)
def test_spaces_and_lengths_are_those_of_the_original(env_id, name, settings):
    core, theirs = make_core(env_id, 1, "cpu", **settings), jaxmarl.make(name, **settings)
    for mine, agent in zip(core.possible_agents, theirs.agents, strict=True):
        assert core.action_spaces[mine].n == theirs.action_space(agent).n
        assert core.observation_spaces[mine].shape == theirs.observation_space(agent).shape
    if env_id == "SwitchRiddle-v0":
        assert core.definition.max_episode_steps == theirs.max_steps


def test_starts_of_the_original_are_as_frequent_as_ours():
    """Cells of players and coins, and the first prisoner, are uniform in both."""
    keys = jax.random.split(jax.random.PRNGKey(0), 9000)
    riddle = jax.vmap(lambda key: jaxmarl.make("switch_riddle").reset(key)[1].agent_in_room)(keys)
    assert np.abs(np.bincount(np.asarray(riddle)) / 9000 - 1 / 3).max() < 0.02
    coins = jax.vmap(lambda key: jaxmarl.make("coin_game").reset(key)[1].blue_coin_pos)(keys)
    assert np.abs(np.bincount(np.asarray(coins) @ [3, 1]) / 9000 - 1 / 9).max() < 0.015
