"""SMAX-v0 against JaxMARL 0.2.0, step by step."""

import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
import pytest
from jaxmarl.environments.smax import map_name_to_scenario
from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO
from libraries import smax_oracle as oracle
from libraries.oracle_checks import assert_recorded

from gpu_envs.envs.smax.smax import SCENARIOS, Config
from gpu_envs.runtime.factory import make_core

SETTINGS, WORLDS, STEPS = 12, 20, 100


@pytest.mark.parametrize("units", [False, True], ids=["usual_units", "random_units"])
@pytest.mark.parametrize("part", range(3))
def test_steps_with_random_settings_equal_the_original(part, units):
    """Ranges, radii, health, speed, damage and cooldowns of unit types are drawn, too, in the second case."""
    total = {}
    for index in range(part, SETTINGS, 3):
        settings = oracle.random_settings(np.random.default_rng(index))
        settings |= oracle.random_units(np.random.default_rng([index, 1])) if units else {}
        counts = oracle.compare_all(settings, WORLDS, STEPS, index)[1]
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] + total["near"] == SETTINGS * WORLDS * STEPS // 3
    assert total.pop("near") < 0.1 * total["steps"]  # rounding may decide there, so these are not compared
    assert total["seen"] > 0.7 * total["steps"]  # in others a conic observation may differ
    assert min(total.values()) >= 3, total


@pytest.mark.parametrize("enemy", ["heuristic", "self_play"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_steps_of_every_scenario_equal_the_original(name, enemy):
    counts = oracle.compare_all({"scenario": name, "enemy": enemy}, 4, 40, seed=7)[1]
    assert counts["steps"] + counts["near"] == 4 * 40
    assert counts["near"] < 0.2 * counts["steps"]


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "smax.npz.xz")
    assert_recorded(tmp_path / "smax.npz.xz", oracle.PATH, 1e-5)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_spaces_and_lengths_are_those_of_the_original(name):
    assert set(SCENARIOS) == set(MAP_NAME_TO_SCENARIO)
    scenario, theirs = SCENARIOS[name], map_name_to_scenario(name)
    assert (*scenario.allies, *scenario.enemies) == tuple(np.asarray(theirs.unit_types).tolist())
    assert (len(scenario.allies), len(scenario.enemies)) == (theirs.num_allies, theirs.num_enemies)
    assert scenario.smacv2 == theirs.smacv2_position_generation == theirs.smacv2_unit_type_generation
    for enemy, jaxmarl_name in (("self_play", "SMAX"), ("heuristic", "HeuristicEnemySMAX")):
        core, env = (
            make_core("SMAX-v0", 1, "cpu", scenario=name, enemy=enemy),
            jaxmarl.make(jaxmarl_name, scenario=theirs),
        )
        assert list(core.possible_agents) == env.agents
        assert core.definition.global_state_size == env.state_size
        for agent in env.agents:
            assert core.action_spaces[agent].n == env.action_space(agent).n
            assert core.observation_spaces[agent].shape == env.observation_space(agent).shape


def test_defaults_are_those_of_the_original():
    theirs, mine = jaxmarl.make("HeuristicEnemySMAX"), Config()
    names = [name for name in Config.__dataclass_fields__ if hasattr(theirs, name) and name != "scenario"]
    assert len(names) > 20
    for name in names:
        expected, actual = np.asarray(getattr(theirs, name)), np.asarray(getattr(mine, name))
        np.testing.assert_array_equal(actual.astype(expected.dtype), expected, name)  # theirs are float32


def quantiles(values):
    """Return quantiles of every column."""
    return np.quantile(values.reshape(-1, values.shape[-1]), np.linspace(0.05, 0.95, 10), axis=0)


@pytest.mark.parametrize(
    "settings", [{"scenario": "2s3z"}, {"scenario": "smacv2_5_units"}, {"scenario": "5m_vs_6m", "v2": True}]
)
def test_starts_are_distributed_as_in_the_original(settings):
    """Quantiles of positions by unit, and frequencies of unit types, in 6,000 starts."""
    options = {"smacv2_position_generation": True, "smacv2_unit_type_generation": True} if "v2" in settings else {}
    if options:
        options |= {"num_allies": 5, "num_enemies": 6}
        env = jaxmarl.make("SMAX", **options)
    else:
        options = settings
        env = jaxmarl.make("SMAX", scenario=map_name_to_scenario(settings["scenario"]))
    starts = jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(jax.random.split(jax.random.PRNGKey(0), 6000))
    core = make_core("SMAX-v0", 6000, "cpu", seed=0, **options)
    core.reset()
    mine = {name: core.world_state[name].numpy() for name in ("pos", "kind")}
    for unit in range(mine["pos"].shape[1]):
        theirs = np.asarray(starts.unit_positions)[:, unit]
        assert np.abs(quantiles(mine["pos"][:, unit]) - quantiles(theirs)).max() < 1.2, unit
        kinds = [
            np.bincount(unit_types[:, unit], minlength=6) / 6000
            for unit_types in (mine["kind"], np.asarray(starts.unit_types))
        ]
        assert np.abs(kinds[0] - kinds[1]).max() < 0.03
    # Distances between units show what they share: groups, mirror images, the side inside.
    pairs = [
        np.linalg.norm(pos[:, :, None] - pos[:, None], axis=-1).reshape(6000, -1)
        for pos in (mine["pos"], np.asarray(jnp.asarray(starts.unit_positions)))
    ]
    assert np.abs(quantiles(pairs[0]) - quantiles(pairs[1])).max() < 1.2
