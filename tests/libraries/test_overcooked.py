"""Overcooked-v0 against overcooked_ai 1.1.0, transition by transition."""

import numpy as np
import pytest
from libraries import overcooked_oracle as oracle
from libraries.oracle_checks import assert_equally_frequent, assert_recorded
from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld
from parity.kitchen.overcooked_replay import replay

from gpu_envs.envs.kitchen.overcooked.layouts import LAYOUTS
from gpu_envs.runtime.factory import make_core

SETTINGS, STEPS = 20, 1050
CLASSIC = (
    "cramped_room",
    "asymmetric_advantages",
    "coordination_ring",
    "forced_coordination",
    "counter_circuit_o_1order",
)


@pytest.mark.parametrize("part", range(4))
def test_transitions_with_random_settings_equal_the_original(part):
    total = {}
    for index in range(part, SETTINGS, 4):
        settings = oracle.random_settings(np.random.default_rng(index))
        time_limit = ("termination", "truncation")[index % 2]
        counts = replay(settings, oracle.record(settings, STEPS, index), time_limit=time_limit)
        total = {name: count + total.get(name, 0) for name, count in counts.items()}
    assert total["steps"] == SETTINGS * STEPS // 4
    assert min(total.values()) >= 4, total


@pytest.mark.parametrize("old_dynamics", [False, True])
@pytest.mark.parametrize("name", CLASSIC)
def test_transitions_in_a_classic_layout_equal_the_original(name, old_dynamics):
    settings = {"layout_name": name, "horizon": 200, "old_dynamics": old_dynamics}
    counts = replay(settings, oracle.record(settings, 500, seed=3), time_limit="truncation")
    assert counts["steps"] == 500
    assert min(counts["ingredients"], counts["ends"]) >= 2, counts


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz.xz")
    assert_recorded(tmp_path / "trace.npz.xz", oracle.TRACE)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_layouts_and_their_orders_are_those_of_the_original(name):
    theirs, core = OvercookedGridworld.from_layout_name(name), make_core("Overcooked-v0", 1, "cpu", layout_name=name)
    kitchen, config = core.config.kitchen, core.config
    mine = oracle.kitchen_of(theirs)
    assert (mine.width, mine.height, mine.start) == (kitchen.width, kitchen.height, kitchen.start)
    np.testing.assert_array_equal(mine.terrain, kitchen.terrain)
    for setting in ("start_all_orders", "start_bonus_orders"):
        expected = [tuple(sorted(order["ingredients"])) for order in getattr(theirs, setting)]
        assert sorted(config.orders[setting]) == sorted(expected), setting
    times = {name: value for name, value in theirs.recipe_config.items() if name.endswith(("_time", "_value"))}
    assert times == {name: value for name, value in config.orders.items() if name.endswith(("_time", "_value"))}
    shape = tuple(theirs.get_lossless_state_encoding_shape())
    assert core.observation_spaces["player_0"].shape == (np.prod(shape),)
    assert (kitchen.width, kitchen.height, 26) == shape


def test_random_starts_are_distributed_as_in_the_original():
    """Chi-square of cells, of items in the pot and in hands, in 4,000 starts of the original."""
    env = oracle.make()
    start = env.mdp.get_random_start_state_fn(True, 0.5)
    np.random.seed(0)  # noqa: NPY002  # the original draws from it
    theirs = {name: [] for name in ("position", "inventory", "item")}
    for _ in range(4000):
        env.state = start()
        state = oracle.state_of(env)
        for name, values in theirs.items():
            values.append(state[name])
    core = make_core("Overcooked-v0", 40_000, "cpu", seed=0, random_start_pos=True, rnd_obj_prob_thresh=0.5)
    core.reset()
    mine = core.world_state
    pairs = [(mine["position"].numpy() @ [100, 1], np.array(theirs["position"]) @ [100, 1])]
    pairs += [(mine["inventory"][:, index].numpy(), np.array(theirs["inventory"])[:, index]) for index in range(2)]
    pairs += [(mine["item"][:, 0].numpy(), np.array(theirs["item"])[:, 0])]
    for have, want in pairs:
        assert_equally_frequent(have, want)
        assert len(np.unique(have)) >= 9
