"""Overcooked-v0: recorded transitions of overcooked_ai, moves, pots, observations, starts, ends and settings.

``make test-parity`` plays the original itself with random settings, see tests/libraries/test_overcooked.py.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_envs.errors import ActionError, ConfigError
from gpu_envs.runtime.factory import make_core
from parity.kitchen.overcooked_replay import replay
from parity.traces import recorded

TOLERANCE = 1e-5
TRACE = Path(__file__).with_name("overcooked.npz.xz")
NORTH, SOUTH, EAST, WEST, STAY, INTERACT = range(6)
DISH, ONION, TOMATO, SOUP = range(1, 5)
TICK = 2048
SMALL = ("XPXPX", "O1 2T", "XDXSX")
POT, OTHER_POT, BETWEEN = 0, 1, 2  # surfaces of SMALL: the pots, then the counters (2, 0) and (2, 2)
APART = ("XPXPX", "O1X2D", "XXXSX")  # as many pots and counters as SMALL, and so the same kernels


def make(worlds=1, **settings):
    core = make_core("Overcooked-v0", worlds, "cpu", seed=0, autoreset="disabled", **{"layout_grid": SMALL} | settings)
    core.reset()
    return core


def soup(onions, tomatoes=0, ticks=0):
    return SOUP | (onions + 16 * tomatoes) << 3 | ticks * TICK


def at(first, second, items=(), **settings):
    """Return a core of SMALL with one world: column, orientation and item of the players, items by surface."""
    core = make(**settings)
    state = core.world_state
    for index, (column, facing, hand) in enumerate((first, second)):
        state["position"][0, index] = 3 * column + 1
        state["facing"][0, index] = facing
        state["inventory"][0, index] = hand
    for surface, item in items:
        state["item"][0, surface] = item
    return core


def step(core, *actions):
    return core.step(torch.tensor([actions]))


def columns(core):
    return [(cell - 1) // 3 for cell in core.world_state["position"][0].tolist()]


# ---------------------------------------------------------------- transitions


@pytest.mark.variations
@pytest.mark.parametrize("index", [3, 0, 1, 2])
def test_recorded_transitions_equal_the_original(index):
    settings, trace = recorded(TRACE, index)
    counts = replay(settings, trace, TOLERANCE)
    assert counts.pop("steps") == 500
    often = ("ingredients", "put on counters", "taken from counters", "moves", "moves without effect", "urgent")
    assert min(counts[name] for name in often) > 1, counts
    rare = {name: count for name, count in counts.items() if name not in often}
    assert sum(count > 0 for count in rare.values()) >= 6, counts


# ---------------------------------------------------------------- moves


def test_players_that_want_one_cell_or_each_others_cells_stay_and_turn():
    core = at((1, SOUTH, 0), (3, SOUTH, 0))
    step(core, EAST, WEST)
    assert columns(core) == [1, 3]
    assert core.world_state["facing"].tolist() == [[EAST, WEST]]
    core = at((1, SOUTH, 0), (2, SOUTH, 0))
    step(core, EAST, WEST)
    assert columns(core) == [1, 2]
    step(core, EAST, STAY)
    assert columns(core) == [1, 2]


def test_player_enters_a_cell_that_the_other_leaves():
    core = at((1, SOUTH, 0), (2, SOUTH, 0))
    step(core, EAST, EAST)
    assert columns(core) == [2, 3]
    step(core, STAY, NORTH)  # against a pot
    assert columns(core) == [2, 3]


# ---------------------------------------------------------------- interactions


def test_first_player_takes_the_only_item():
    core = make(layout_grid=APART)
    core.world_state["facing"].copy_(torch.tensor([[EAST, WEST]]))
    counter = core.config.kitchen.surfaces.index(7)
    core.world_state["item"][0, counter] = ONION
    step(core, INTERACT, INTERACT)
    assert core.world_state["inventory"].tolist() == [[ONION, 0]]
    step(core, INTERACT, STAY)
    assert core.world_state["item"][0, counter] == ONION


def test_pot_cooks_when_a_player_starts_it_and_a_dish_takes_the_soup():
    core = at((1, NORTH, TOMATO), (3, NORTH, 0), [(POT, soup(1))], cook_time=2, reward_shaping_factor=1.0)
    *_, info = step(core, INTERACT, STAY)
    assert core.world_state["item"][0, POT] == soup(1, 1)
    assert info["shaped_r_by_agent"].tolist() == [[3.0, 0.0]]
    step(core, INTERACT, STAY)  # with empty hands
    assert core.world_state["item"][0, POT] == soup(1, 1, 2)
    core.world_state["inventory"][0, 0] = DISH
    step(core, INTERACT, STAY)
    assert core.world_state["item"][0, POT] == soup(1, 1, 3)  # not ready before this step
    _, reward, *_, info = step(core, INTERACT, STAY)
    assert core.world_state["inventory"][0, 0] == soup(1, 1)
    assert core.world_state["item"][0, POT] == 0
    assert info["shaped_r_by_agent"].tolist() == [[5.0, 0.0]]
    assert reward.tolist() == [[5.0, 0.0]]


def test_old_dynamics_cook_three_ingredients_at_once_and_fewer_never():
    orders = {"start_all_orders": [["onion"] * 3], "old_dynamics": True}
    core = at((1, NORTH, ONION), (3, NORTH, 0), [(POT, soup(2)), (OTHER_POT, soup(2))], **orders)
    step(core, INTERACT, INTERACT)
    assert core.world_state["item"][0, :2].tolist() == [soup(3, 0, 2), soup(2)]


def test_full_pot_takes_no_more():
    for item in (soup(2, 1), soup(1, 0, 1)):
        core = at((1, NORTH, ONION), (3, NORTH, 0), [(POT, item)])
        step(core, INTERACT, STAY)
        assert core.world_state["inventory"][0, 0] == ONION


def test_reward_of_a_served_soup_is_common_and_named_by_its_player():
    orders = {"start_all_orders": [["onion", "tomato"], ["onion"]], "start_bonus_orders": [["tomato", "onion"]]}
    for item, points in ((soup(1, 1), 40.0), (soup(1), 20.0), (soup(2), 0.0)):
        core = at((1, NORTH, 0), (3, SOUTH, item), order_bonus=2.0, **orders)
        _, reward, *_, info = step(core, STAY, INTERACT)
        assert reward.tolist() == [[points, points]]
        assert info["sparse_r_by_agent"].tolist() == [[0.0, points]]
        assert info["soups"].tolist() == [[0, 1]]
        assert step(core, STAY, INTERACT)[-1]["soups"].tolist() == [[0, 1]]
        assert core.world_state["inventory"][0, 1] == 0


@pytest.mark.parametrize(
    ("pots", "hands", "counter", "useful"),
    [
        ([soup(1)], 0, 0, True),
        ([soup(3)], 0, 0, False),  # full, and no player has started it
        ([soup(3, 0, 5)], 0, 0, True),
        ([0], 0, 0, False),
        ([soup(1)], DISH, 0, False),
        ([soup(1), soup(1)], DISH, 0, True),
        ([soup(1)], 0, DISH, False),
    ],
)
def test_shaped_reward_of_a_dish_needs_a_pot_for_it(pots, hands, counter, useful):
    core = at((1, SOUTH, 0), (3, NORTH, hands), [*enumerate(pots), (BETWEEN, counter)])
    *_, info = step(core, INTERACT, STAY)
    assert core.world_state["inventory"][0, 0] == DISH
    assert info["shaped_r_by_agent"].tolist() == [[3.0 * useful, 0.0]]


def test_usefulness_of_a_dish_counts_pots_before_the_step():
    """As in the original, where player 0 takes the only soup before player 1 takes a dish."""
    core = make(layout_grid=APART)
    core.world_state["facing"].copy_(torch.tensor([[NORTH, EAST]]))
    core.world_state["inventory"].copy_(torch.tensor([[DISH, 0]]))
    core.world_state["item"][0, 0] = soup(3, 0, 30)
    *_, info = step(core, INTERACT, INTERACT)
    assert info["shaped_r_by_agent"].tolist() == [[5.0, 3.0]]


# ---------------------------------------------------------------- observations


@pytest.mark.parametrize("first", [False, True])
def test_observations_written_in_part_equal_whole_ones(first):
    """The global state is written in full: the layers of player 0, of which player 1 sees the first ten exchanged."""
    settings = {"layout_grid": SMALL, "horizon": 45, "channels_first": first, "cook_time": 3}
    core = make_core("Overcooked-v0", 64, "cpu", seed=0, **settings, rnd_obj_prob_thresh=0.3, random_start_pos=True)
    core.reset()
    order = [1, 0, *range(6, 10), *range(2, 6), *range(10, 26)]
    shape, axis = ((26, 15), 1) if first else ((15, 26), 2)
    changes = 0
    for _ in range(100):
        previous = core.obs.clone()
        core.step(core.sample_actions())
        full = core.state()[:, :-1]
        assert torch.equal(core.obs[:, 0], full)
        other = full.view(-1, *shape).index_select(axis, torch.tensor(order)).flatten(1)
        assert torch.equal(core.obs[:, 1], other)
        changes += int((previous != core.obs).sum())
    assert changes > 100_000 // 6


def test_observation_follows_a_state_that_was_changed_from_outside():
    core = at((1, NORTH, 0), (3, NORTH, 0))
    step(core, STAY, STAY)
    core.world_state["position"][0, 0] = 7
    core.world_state["item"][0, BETWEEN] = soup(1, 2)
    step(core, STAY, STAY)
    assert torch.equal(core.obs[:, 0], core.state()[:, :-1])


def test_channels_first_has_the_same_numbers():
    cores = [make(64, channels_first=first, rnd_obj_prob_thresh=0.5) for first in (False, True)]
    last, first = (core.obs[:, 0] for core in cores)
    assert torch.equal(last.view(64, 5, 3, 26).permute(0, 3, 1, 2), first.view(64, 26, 5, 3))
    low, high = (core.observation_spaces["player_0"].high for core in cores)
    np.testing.assert_array_equal(low.reshape(15, 26).T, high.reshape(26, 15))
    assert set(low.tolist()) == {1.0, 3.0, 20.0}


@pytest.mark.parametrize("horizon", [39, 40, 41, 60])
def test_last_layer_is_1_while_fewer_than_40_steps_are_left(horizon):
    core = make_core("Overcooked-v0", 2, "cpu", seed=0, horizon=horizon, layout_grid=SMALL)
    core.reset()
    for _ in range(2 * horizon):
        left = horizon - int(core.elapsed_steps[0])
        assert (core.obs.view(2, 2, 15, 26)[..., 25] == float(left < 40)).all()
        core.step(torch.full((2, 2), STAY))


# ---------------------------------------------------------------- starts and ends


def test_random_starts_are_uniform_over_pairs_of_floor_cells():
    core = make(6000, random_start_pos=True)
    positions = core.world_state["position"]
    pairs = (positions[:, 0] * 20 + positions[:, 1]).bincount(minlength=400)
    assert (pairs > 0).sum() == 6
    assert (pairs[pairs > 0] / 6000 - 1 / 6).abs().max() < 0.02
    assert (core.world_state["facing"] == NORTH).all()


def test_random_items_are_in_a_share_of_pots_and_hands():
    core = make(10_000, rnd_obj_prob_thresh=0.3)
    item, hands = core.world_state["item"], core.world_state["inventory"]
    assert ((item[:, :2] != 0).float().mean(0) - 0.3).abs().max() < 0.02
    assert not item[:, 2:].any()
    assert ((item[:, :2] >> 11 == 1).float().mean(0) - 0.09).abs().max() < 0.01
    shares = [((hands & 7) == kind).float().mean().item() for kind in (DISH, ONION, TOMATO, SOUP)]
    assert shares == pytest.approx([0.06, 0.18, 0.0, 0.06], abs=0.01)
    onions, tomatoes = (item >> 3) & 15, (item >> 7) & 15
    assert {tuple(pair) for pair in torch.stack([onions, tomatoes], -1).flatten(0, 1).unique(dim=0).tolist()} == {
        (0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0),
    }  # fmt: skip


def test_episode_ends_at_the_horizon():
    for limit in ("termination", "truncation"):
        core = make(4, horizon=3, time_limit=limit)
        for index in range(3):
            *_, terminated, truncated, _ = core.step(torch.full((4, 2), STAY))
            ends, other = (terminated, truncated) if limit == "termination" else (truncated, terminated)
            assert ends.all() == (index == 2)
            assert not other.any()


def test_action_out_of_range_is_an_error():
    core = make()
    with pytest.raises(ActionError, match="out of range"):
        step(core, 6, 0)


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"layout_grid": "XXPXX|O 12X|XDXSX", "layout_name": "forced_coordination"},
            "layout_name = 'forced_coordination': has no effect with layout_grid",
        ),
        ({"layout_grid": 3}, "layout_grid: expected rows of text"),
        ({"layout_grid": "XXPXX|O 12X|XDXS"}, "layout_grid: expected 3 to 64 rows of equal lengths"),
        ({"layout_grid": "XXPXX|O 12B|XDXSX"}, "layout_grid: expected the characters .* got 'B'"),
        ({"layout_grid": "XXPXX|O 11X|XDXSX"}, "layout_grid: expected the players 1 and 2 once each, got 2 and 0"),
        ({"layout_grid": "XX XX|OP12X|XDXSX"}, "layout_grid: expected a border without floor"),
        ({"layout_grid": "XXPXX|   2O|X1  X|XDXSX"}, "layout_grid: expected a border without floor"),
        ({"layout_grid": ["XXPXX", "O 12 ", "XDXSX"]}, "layout_grid: expected a border without floor"),
        ({"layout_grid": ""}, "layout_grid: expected rows of text"),
        ({"layout_grid": "XXXXX|O 12X|XDXSX"}, "layout_grid: expected a pot P, got none"),
        ({"start_all_orders": [["onion"] * 4]}, "start_all_orders: expected lists of 1 to 3 ingredients"),
        ({"start_all_orders": [["leek"]]}, "start_all_orders: expected lists of 1 to 3 ingredients"),
        ({"start_all_orders": [["onion"], ["onion"]]}, r"start_all_orders: expected different recipes"),
        (
            {"start_all_orders": [["onion"]], "start_bonus_orders": [["tomato"]]},
            "start_bonus_orders: expected recipes of",
        ),
        ({"onion_value": 3.0}, "onion_value: expected tomato_value, too"),
        ({"cook_time": 3, "recipe_times": (1,)}, "recipe_times: expected no cook_time besides, got both"),
        ({"recipe_values": (1.0, 2.0), "start_all_orders": [["onion"]]}, "recipe_values: expected a number per order"),
        ({"old_dynamics": True}, "old_dynamics: expected orders and pots of 3 ingredients only"),
        ({"rnd_obj_prob_thresh": 0.1, "max_num_ingredients": 2}, "rnd_obj_prob_thresh: expected 0 with pots of less"),
        ({"rew_shaping_params": {"SOUP": 1}}, "rew_shaping_params: expected the names PLACEMENT_IN_POT_REW"),
        ({"rew_shaping_params": {"POT_DISTANCE_REW": 1}}, "expected 0, as the original does not use it"),
        ({"rew_shaping_params": 3}, "rew_shaping_params: expected a dict"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_text_of_a_kitchen_may_have_several_forms():
    rows = "\n   XPXPX\n   O1 2T\n   XDXSX\n"
    assert make(layout_grid=rows).config == make(layout_grid="|".join(SMALL)).config == make().config
    assert make(layout_grid="|".join([*SMALL, ""])).config == make().config


def test_settings_of_a_layout_are_replaced_one_by_one():
    core = make(layout_grid=None, layout_name="counter_circuit", onion_time=1, start_bonus_orders=[])
    values, times = core.world_state["value"][0], core.world_state["cook_time"][0]
    assert values[1 + 16] == 34.0
    assert times[1 + 16] == 8
    assert values[3] == 0.0
