"""OvercookedV2-v0: recorded steps of JaxMARL 0.2.0 in all its layouts, moves, pots, buttons, views, starts, settings.

``make test-parity`` plays JaxMARL itself with random settings, see tests/libraries/test_jaxmarl.py.
"""

import numpy as np
import pytest
import torch

from gpu_envs.envs.kitchen.overcooked_v2.layouts import LAYOUTS
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity import jax_replay
from parity.traces import read_arrays, select_arrays

ENV = "OvercookedV2-v0"
TRACES = jax_replay.TRACES[ENV]
RIGHT, DOWN, LEFT, UP, STAY, INTERACT = range(6)
FACING_UP, FACING_DOWN, FACING_RIGHT, FACING_LEFT = range(4)
PLATE, COOKED, DISH = 1, 2, 3
ZERO, ONE, TWO = 4, 16, 64
SMALL = ("WP0PW", "LAA R", "WB1XW")  # agents in the columns 1 and 2 of row 1


def make(worlds=1, **settings):
    settings = {"layout_grid": SMALL, "possible_recipes": ((0, 0, 1),), "autoreset": "disabled"} | settings
    core = make_core(ENV, worlds, "cpu", seed=0, **settings)
    core.reset()
    return core


def at(*agents, items=(), recipe=2 * ZERO + ONE, **settings):
    """Return a core of SMALL with one world: cell, orientation and item of every agent, items by surface."""
    core = make(**settings)
    state = core.world_state
    for index, values in enumerate(agents):
        for name, value in zip(("position", "facing", "inventory"), values, strict=True):
            state[name][0, index] = value
    for surface, item in items:
        state["item"][0, surface] = item
    state["recipe"][0] = recipe
    return core


def step(core, *actions):
    return core.step(torch.tensor([actions]))


def layers(core, name="obs"):
    """Return the observations as (E, A, rows, columns, layers)."""
    rows, columns = core.config.view
    return getattr(core, name).view(core.num_envs, core.num_agents, rows, columns, -1)


# ---------------------------------------------------------------- recorded steps


@pytest.mark.variations(quick=2)
@pytest.mark.parametrize("index", range(len(TRACES)))
def test_recorded_steps_equal_the_original(index):
    _, worlds, steps = TRACES[index]
    assert len(jax_replay.replay(ENV, index)) == worlds * steps


def test_recorded_steps_are_of_all_layouts_and_have_all_cases():
    assert {settings.get("layout") for settings, *_ in TRACES} == {None, *LAYOUTS}
    arrays, total = jax_replay.unpacked(read_arrays(jax_replay.PATHS[ENV])), {}
    for index, (settings, *_) in enumerate(TRACES):
        trace = select_arrays(arrays, index)
        kitchen = make_config(settings).kitchen
        pots, before, after = len(kitchen.pots), trace["before.item"], trace["after.item"]
        timers = trace["after.timer"].astype(int) - trace["before.timer"]
        reward = trace["after.reward"] - settings.get("reward_shaping_factor", 0.0) * trace["after.shaped"]
        counts = {
            "right deliveries": trace["after.correct"].sum(),
            "wrong deliveries": ((reward < 0) & (reward % 20 == 0)).any(-1).sum(),
            "pressed buttons": (timers[..., pots:] > 0).sum(),
            "pots that start": (timers[..., :pots] > 0).sum(),
            "pots that get ready": ((after[..., :pots] & ~before[..., :pots] & COOKED) > 0).sum(),
            "new recipes": (trace["before.recipe"] != trace["after.recipe"]).sum(),
            "put on counters": ((before == 0) & (after != 0))[..., pots:].sum(),
            "taken from counters": ((before != 0) & (after == 0))[..., pots:].sum(),
            "dishes taken": ((before != 0) & (after == 0))[..., :pots].sum(),
            "shaped rewards of 3": (trace["after.shaped"] == 3).sum(),
            "shaped rewards of 5": (trace["after.shaped"] == 5).sum(),
            "moves": (trace["before.position"] != trace["after.position"]).sum(),
            "ends": trace["after.done"].all(-1).sum(),
        }
        total = {name: int(count) + total.get(name, 0) for name, count in counts.items()}
    assert min(total.values()) >= 2, total


def make_config(settings):
    return make_core(ENV, 1, "cpu", **settings).config


# ---------------------------------------------------------------- moves


def test_agents_that_want_one_cell_or_exchange_cells_stay_and_turn():
    core = at((6, FACING_UP, 0), (8, FACING_UP, 0))
    step(core, RIGHT, LEFT)
    assert core.world_state["position"].tolist() == [[6, 8]]
    assert core.world_state["facing"].tolist() == [[FACING_RIGHT, FACING_LEFT]]
    core = at((6, FACING_UP, 0), (7, FACING_UP, 0))
    step(core, RIGHT, LEFT)
    assert core.world_state["position"].tolist() == [[6, 7]]
    step(core, RIGHT, RIGHT)  # into the cell that the other leaves
    assert core.world_state["position"].tolist() == [[7, 8]]


def test_agents_behind_one_that_is_blocked_stay_too():
    """Of four agents in a row, the first two want one cell from both sides; the queue behind the left one stands."""
    row = ("WPWWWWXW", "0AAA A B", "WWWWWWWW")
    core = make(layout_grid=row, possible_recipes=((0, 0, 0),))
    step(core, RIGHT, RIGHT, RIGHT, LEFT)
    assert core.world_state["position"].tolist() == [[9, 10, 11, 13]]
    step(core, RIGHT, RIGHT, RIGHT, STAY)
    assert core.world_state["position"].tolist() == [[10, 11, 12, 13]]


# ---------------------------------------------------------------- interactions


def test_agent_that_moves_interacts_from_its_new_cell_in_the_next_step():
    core = at((6, FACING_UP, 0), (8, FACING_UP, 0))
    step(core, INTERACT, LEFT)  # a pot of nothing, with empty hands
    assert core.world_state["position"].tolist() == [[6, 7]]
    step(core, STAY, UP)
    step(core, STAY, INTERACT)
    assert core.world_state["inventory"].tolist() == [[0, ZERO]]


def test_full_pot_cooks_for_twenty_steps_and_a_plate_takes_the_dish():
    core = at((6, FACING_UP, ONE), (8, FACING_UP, 0), items=[(0, 2 * ZERO)])
    *_, info = step(core, INTERACT, STAY)
    assert info["shaped_reward"].tolist() == [[3.0, 0.0]]
    assert core.world_state["timer"][0, 0] == 19
    core.world_state["inventory"][0, 0] = PLATE
    for _ in range(18):
        step(core, INTERACT, STAY)
    assert core.world_state["inventory"][0, 0] == PLATE
    step(core, STAY, STAY)
    assert core.world_state["item"][0, 0] == 2 * ZERO + ONE + COOKED
    *_, info = step(core, INTERACT, STAY)
    assert core.world_state["inventory"][0, 0] == 2 * ZERO + ONE + DISH
    assert info["shaped_reward"].tolist() == [[5.0, 0.0]]


def test_agent_starts_to_cook_any_number_of_ingredients_if_it_may():
    core = at((6, FACING_UP, 0), (8, FACING_UP, 0), items=[(0, ZERO), (1, 2 * ZERO + ONE)],
              start_cooking_interaction=True, pot_cook_time=3)  # fmt: skip
    *_, info = step(core, INTERACT, INTERACT)
    assert core.world_state["timer"].tolist() == [[2, 2, 0]]
    assert info["shaped_reward"].tolist() == [[0.0, 5.0]]


@pytest.mark.parametrize(("negative", "points"), [(False, 0.0), (True, -20.0)])
def test_deliveries_pay_all_agents_by_the_recipe(negative, points):
    core = at((8, FACING_DOWN, 2 * ZERO + ONE + DISH), (7, FACING_UP, 0), negative_rewards=negative)
    _, reward, *_, info = step(core, INTERACT, STAY)
    assert reward.tolist() == [[20.0, 20.0]]
    assert info["deliveries"].tolist() == [[1, 0]]
    core.world_state["inventory"][0, 0] = 3 * ZERO + DISH
    _, reward, *_, info = step(core, INTERACT, STAY)
    assert reward.tolist() == [[points, points]]
    assert info["deliveries"].tolist() == [[1, 0]]
    assert core.world_state["inventory"][0, 0] == 0


def test_button_costs_and_shows_the_recipe_for_nine_more_observations():
    core = at((6, FACING_LEFT, 0), (8, FACING_UP, 0))
    recipe_of_button = (0, 0, 1, 0, slice(-5, -1))  # plate, cooked, two ingredients
    assert layers(core)[recipe_of_button].tolist() == [0, 0, 0, 0]
    for index in range(12):
        _, reward, *_ = step(core, INTERACT if index == 0 else STAY, STAY)
        assert reward.tolist() == [[-5.0 * (index == 0)] * 2]
        assert layers(core)[recipe_of_button].tolist() == ([0, 0, 2, 1] if index < 9 else [0, 0, 0, 0])
    assert layers(core)[0, 0, 1, 4, -5:-1].tolist() == [0, 0, 2, 1]  # the indicator always does


def test_right_delivery_draws_a_recipe_if_asked():
    recipes = ((0, 0, 0), (0, 0, 1), (1, 1, 1))
    for changes in (False, True):
        core = make(3000, possible_recipes=recipes, sample_recipe_on_delivery=changes)
        state = core.world_state
        first = state["recipe"].clone()
        assert sorted(first.unique().tolist()) == [12, 24, 48]
        state["position"].copy_(torch.tensor([8, 6]))
        state["facing"].fill_(FACING_DOWN)
        state["inventory"][:, 0] = first + DISH
        core.step(torch.tensor([[INTERACT, STAY]]).expand(3000, 2))
        assert (state["correct"] == 1).all()
        share = (state["recipe"] == first).float().mean()
        assert share == 1.0 if not changes else abs(share - 1 / 3) < 0.03


# ---------------------------------------------------------------- observations


def test_window_is_the_kitchen_around_the_agent_and_zero_outside():
    settings = {"random_reset": True, "indicate_successful_delivery": True}
    whole, part = make(64, **settings), make(64, agent_view_size=1, **settings)
    for _ in range(10):
        action = whole.sample_actions()
        whole.step(action)
        part.step(action)
        padded = torch.nn.functional.pad(layers(whole), (0, 0, 1, 1, 1, 1))
        for env in range(64):
            for agent in range(2):
                y, x = divmod(int(part.world_state["position"][env, agent]), 5)
                assert torch.equal(layers(part)[env, agent], padded[env, agent, y : y + 3, x : x + 3])
    assert torch.equal(whole.state(), part.state())


def test_agents_see_ingredients_in_their_own_random_order():
    grid = ("WP0PW", "LAA R", "2B1XW")
    usual, other = (
        make(200, layout_grid=grid, random_reset=True, op_ingredient_permutations=order) for order in (None, (0, 2))
    )
    order = other.world_state["permutation"].long()
    assert sorted(set(map(tuple, order.flatten(0, 1).tolist()))) == [(0, 1, 2), (2, 1, 0)]
    assert 0.4 < (order[:, 0] != order[:, 1]).any(-1).float().mean() < 0.6
    for first in (7, 17, 26, 31, 36):  # hands, hands of others, piles, items, recipe
        mine = layers(usual)[..., first : first + 3]
        index = order[:, :, None, None].expand_as(mine)
        assert torch.equal(layers(other)[..., first : first + 3], mine.gather(-1, index))


def test_channels_first_has_the_same_numbers():
    last, first = (make(64, channels_first=choice, random_reset=True) for choice in (False, True))
    assert torch.equal(layers(last).permute(0, 1, 4, 2, 3).flatten(2), first.obs)
    low, high = (core.observation_spaces["agent_0"].high for core in (last, first))
    np.testing.assert_array_equal(low.reshape(15, -1).T, high.reshape(-1, 15))
    assert set(low.tolist()) == {1.0, 3.0, 20.0}


# ---------------------------------------------------------------- starts and ends


def test_random_positions_are_uniform_in_the_rooms_of_the_agents():
    grid = ("WP0WPW", "RA WAW", "W  A W", "WBXWBW")
    core = make(6000, layout_grid=grid, possible_recipes=None, random_agent_positions=True)
    position, facing = core.world_state["position"], core.world_state["facing"]
    assert core.definition.initial["room_size"].tolist() == [7, 7, 7]
    assert not (position[:, :1] == position[:, 1:]).any()
    for agent in range(3):
        shares = position[:, agent].bincount(minlength=24) / 6000
        assert (shares[shares > 0] - 1 / 7).abs().max() < 0.02
    assert (facing.flatten().bincount() / 18000 - 0.25).abs().max() < 0.02


def test_rooms_do_not_mix():
    grid = ("WP0WPW", "RA WAW", "W  W W", "WBXWBW")
    core = make(2000, layout_grid=grid, possible_recipes=None, random_agent_positions=True)
    position = core.world_state["position"]
    assert sorted(position[:, 0].unique().tolist()) == [7, 8, 13, 14]
    assert sorted(position[:, 1].unique().tolist()) == [10, 16]


def test_random_starts_have_the_probabilities_of_the_original():
    core = make(10_000, random_reset=True)
    state, pots = core.world_state, core.world_state["item"][:, :2]
    ready, cooks = (pots & COOKED) > 0, state["timer"][:, :2] > 0
    for share, expected in ((pots == 0, 0.4), (cooks, 0.15), (ready, 0.1)):
        assert (share.float().mean(0) - expected).abs().max() < 0.015
    count = (pots >> 2 & 3) + (pots >> 4 & 3)
    assert (count[ready | cooks] == 3).all()
    assert sorted(count[(pots > 0) & ~ready & ~cooks].unique().tolist()) == [1, 2, 3]
    assert sorted(state["timer"][:, :2][cooks].unique().tolist()) == list(range(1, 21))
    dish = 2 * ZERO + ONE + DISH
    for items, expected in ((state["inventory"], (0.5, 0.1, 0.25, 0.15)), (state["item"][:, 2:], (0.5, 0.1, 0.3, 0.1))):
        raw = (items == ZERO) | (items == ONE)
        shares = [part.float().mean().item() for part in (items == 0, items == PLATE, raw, items == dish)]
        assert shares == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("limit", ["termination", "truncation"])
def test_episode_ends_after_max_steps(limit):
    core = make(4, max_steps=3, time_limit=limit)
    for index in range(3):
        *_, terminated, truncated, _ = core.step(torch.full((4, 2), STAY))
        ends, other = (terminated, truncated) if limit == "termination" else (truncated, terminated)
        assert ends.all() == (index == 2)
        assert not other.any()


def test_restored_states_without_a_permutation_are_observed():
    core = make(op_ingredient_permutations=(0, 1))
    state = core.get_state()
    state["state.permutation"].zero_()
    core.set_state(state)
    core.step(core.sample_actions())


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "coord_ring"}, "layout = 'coord_ring': has no effect with layout_grid"),
        ({"layout_grid": 3}, "layout_grid: expected rows of text"),
        ({"layout_grid": "WWPWW|0A A1|W   R|WBWX"}, "layout_grid: expected 3 to 64 rows of equal lengths"),
        ({"layout_grid": "WWPWW|0A A1|W   S|WBWXW"}, "layout_grid: expected the characters .* got 'S'"),
        ({"layout_grid": "WWPWW|0A A1|W   R|WBAXW"}, "layout_grid: expected a border without floor and agents"),
        ({"layout_grid": "WWPWW|0   1|W   R|WBWXW"}, "layout_grid: expected an agent A, got none"),
        ({"layout_grid": "WWWWW|0A A1|W   R|WBWXW"}, "layout_grid: expected a pot P, got none"),
        ({"layout_grid": "WWPWW|WA AW|W   R|WBWXW"}, "layout_grid: expected a pile of an ingredient 0 to 9, got none"),
        (
            {"layout_grid": "WWPWW|0A A1|W   W|WBWXW", "possible_recipes": None},
            "layout_grid: expected a recipe indicator R, got none; add one, or set possible_recipes",
        ),
        (
            {"layout_grid": "WWWPWW|0A RAX|RPBWPW", "possible_recipes": None},
            r"layout_grid: expected a kitchen whose agents can cook and deliver the recipe \[0, 0, 0\]",
        ),
        (
            {"possible_recipes": ((0, 0, 2),)},
            r"possible_recipes: expected ingredients of the kitchen, \[0, 1\], got the recipe \[0, 0, 2\]",
        ),
        ({"possible_recipes": ((0, 0),)}, "possible_recipes: expected lists of 3 ingredients 0 to 9"),
        ({"possible_recipes": ()}, "possible_recipes: expected lists of 3 ingredients 0 to 9"),
        ({"op_ingredient_permutations": (0, 2)}, "op_ingredient_permutations: expected different ingredients of 0 to"),
        ({"op_ingredient_permutations": (1, 1)}, "op_ingredient_permutations: expected different ingredients of 0 to"),
        ({"agent_view_size": 0}, r"agent_view_size: expected an int in \[1, 64\], or None, got 0"),
        ({"observation_type": "featurized"}, "observation_type.*observations are always layers"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_kitchen_is_solvable_over_counters_and_pots():
    """The left agent has ingredients, the right one plates and the goal; a counter or the pot is between them."""
    for middle in "WP":
        make(layout_grid=("WWWBW", f"0A{middle}AX", "R LPW", "WWWWW"), possible_recipes=None)


def test_all_recipes_are_possible_in_a_kitchen_with_an_indicator():
    core = make(layout_grid=None, layout="cramped_room_v2", possible_recipes=None)
    assert core.config.recipes == ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1))
    assert make(layout_grid="WWPWW|OA A1|W   R|WBWXW", possible_recipes=None).config.layout_grid[1] == "0A A1"
