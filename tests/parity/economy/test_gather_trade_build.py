"""GatherTradeBuild-v0 against recorded steps of ai-economist 1.7.1, and its components, settings and results.

``make test-parity`` plays the original itself with random settings, see
tests/libraries/test_ai_economist_gather_trade_build.py.
"""

import numpy as np
import pytest
import torch

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.economy.gather_trade_build_replay import (
    EPISODES,
    LAYOUTS,
    TOLERANCE,
    TRACE,
    TRACED,
    compare_layouts,
    make,
    replay,
)
from parity.traces import read_arrays
from warp_kernels.economy.gather_trade_build.economy_types import OWNER, PRESENT, PRICE_POINTS, VISITOR

SLOW = [pytest.param(index, marks=[pytest.mark.slow] * (index > 0)) for index in range(len(TRACED))]
UNIFORM = {"scenario_name": "uniform", "fixed_four_skill_and_loc": False}
ZONES, SPLIT = UNIFORM | {"scenario_name": "multi_zone"}, UNIFORM | {"scenario_name": "split_layout"}
BUILD, WEST, EAST, NORTH, SOUTH = 1, 18, 19, 20, 21  # with prices 0 to 3
BID_STONE, ASK_STONE, BID_WOOD, ASK_WOOD = 2, 6, 10, 14


@pytest.mark.parametrize("index", SLOW)
def test_recorded_steps_equal_the_original(index):
    assert TOLERANCE == 1e-5
    core, steps = replay(index)
    assert steps == EPISODES[index] * TRACED[index]["episode_length"]
    assert core.world_state["houses"].sum() > 0
    assert core.world_state["sold"].sum() == core.world_state["bought"].sum() > 10


@pytest.mark.slow
@pytest.mark.parametrize("index", range(3))
def test_random_layouts_are_distributed_as_recorded(index):
    height, width = LAYOUTS[index]["world_size"]
    stone, wood = np.unpackbits(read_arrays(TRACE)[f"layouts.{index}"]).reshape(2, 400, height, width)
    compare_layouts(LAYOUTS[index], stone + 2 * wood)


def world(**state):
    """Return a core of the first trace's settings: four agents in the upper left corner without anything."""
    core = make(TRACED[0] | {"resource_regen_prob": 0.0}, 1, 0)
    core.reset()
    have = core.world_state
    have["cell"].copy_(torch.from_numpy(core.config.layout.terrain) & 3)
    for agent, cell in enumerate((0, 1, 2, 3)):
        have["position"][0, agent] = cell
        have["cell"][0, cell] += VISITOR * (agent + 1)
    have["coin"].zero_()
    have["coin"][0, :4] = torch.tensor([20.0, 20.0, 20.0, 20.0])
    for name in ("last_coin", "payment"):
        have[name][0] = have["coin"][0, :4]
    for name, values in state.items():
        have[name][0, : len(values)] = torch.tensor(values)
    return core


def step(core, *actions, rates=0):
    action = torch.zeros_like(core.action_buffer)
    action[0, :4, 0] = torch.tensor(actions)
    action[0, 4] = rates
    return core.step(action)


def test_older_order_sets_the_price_and_equal_ages_take_the_ask():
    core = world(goods=[1, 1, 0, 0])
    step(core, ASK_STONE + 1, 0, 0, 0)
    step(core, 0, 0, BID_STONE + 3, 0)
    assert core.world_state["coin"][0, :4].tolist() == [21.0, 20.0, 19.0, 20.0]
    step(core, 0, 0, BID_STONE + 3, 0)
    step(core, 0, ASK_STONE + 2, 0, 0)  # at the price of the older bid
    assert core.world_state["coin"][0, :4].tolist() == [21.0, 23.0, 16.0, 20.0]
    core = world(goods=[1, 0, 0, 0])
    step(core, ASK_STONE + 1, 0, 0, BID_STONE + 3)
    assert core.world_state["coin"][0, :4].tolist() == [21.0, 20.0, 20.0, 19.0]
    assert core.world_state["goods"][0, :4].tolist() == [0, 0, 0, 1]


def test_equal_bids_are_served_in_the_order_of_agents():
    core = world(goods=[0, 0, 1, 0])
    step(core, BID_STONE + 2, BID_STONE + 2, ASK_STONE + 2, 0)
    assert core.world_state["goods"][0, :4].tolist() == [1, 0, 0, 0]
    assert core.world_state["bought"][0].tolist() == [1, 0, 0, 0, 0]


def test_agents_do_not_trade_with_themselves_and_orders_expire():
    core = world(goods=[1, 0, 0, 0])
    step(core, ASK_STONE + 1, 0, 0, 0)
    step(core, BID_STONE + 3, 0, 0, 0)
    assert core.world_state["num_orders"][0].tolist() == [1, 1, 0, 0]
    assert core.world_state["coin"][0, [0, 4]].tolist() == [17.0, 3.0]
    for _ in range(TRACED[0].get("order_duration", 50) - 1):
        step(core, 0, 0, 0, 0)
    assert core.world_state["num_orders"][0].tolist() == [1, 0, 0, 0]
    assert core.world_state["goods"][0, 0] == 1
    step(core, 0, 0, 0, 0)
    assert core.world_state["num_orders"][0].tolist() == [0, 0, 0, 0]
    assert core.world_state["coin"][0, [0, 4]].tolist() == [20.0, 0.0]


def test_house_needs_both_resources_and_free_land_and_keeps_others_out():
    core = world(goods=[1, 1, 0, 0, 1, 1, 0, 0])
    step(core, BUILD, BUILD, 0, 0)  # agent 0 is on a source
    cell = core.world_state["cell"][0]
    assert [int(cell[index]) & (VISITOR - 1) for index in (0, 1)] == [1, 2 * OWNER]
    assert core.world_state["houses"][0].tolist() == [0, 1, 0, 0, 0]
    assert core.world_state["coin"][0, 1] == 40.0
    assert core.world_state["labor"][0].tolist() == [0.0, 10.0, 0.0, 0.0]
    core.world_state["position"][0, 1] = 6
    cell[1] -= 2 * VISITOR
    cell[6] += 2 * VISITOR
    *_, info = step(core, EAST, 0, 0, 0)
    assert core.world_state["position"][0, 0] == 0
    assert not info["action_mask"][0, 0, EAST]


def test_agent_collects_what_is_on_its_cell_without_moving():
    core = world(bonus=[0.0, 0.0, 0.0, 1.0])
    core.world_state["cell"][0, [0, 4]] += PRESENT
    step(core, 0, 0, 0, EAST)
    assert core.world_state["goods"][0, :8].tolist() == [1, 0, 0, 2, 0, 0, 0, 0]
    assert core.world_state["labor"][0].tolist() == [1.0, 0.0, 0.0, 2.0]
    assert core.world_state["cell"][0, 4] & PRESENT == 0


def test_taxes_of_a_period_are_paid_in_brackets_and_returned_in_equal_parts():
    core = world()
    core.world_state["cycle"].fill_(1)
    step(core, 0, 0, 0, 0, rates=11)  # 50 %
    core.world_state["coin"][0, 0] += 30.0
    for _ in range(9):
        *_, info = step(core, 0, 0, 0, 0, rates=3)  # not on the first day
    assert core.world_state["last_income"][0].tolist() == [30.0, 0.0, 0.0, 0.0]
    assert info["tax_paid"][0].tolist() == [15.0, 0.0, 0.0, 0.0, 0.0]
    assert core.world_state["coin"][0, :4].tolist() == [38.75, 23.75, 23.75, 23.75]
    assert info["productivity"][0].tolist() == [110.0] * 5
    difference = 3 * 15.0
    np.testing.assert_allclose(info["equality"][0], 1 - 2 * difference / (8 * 110.0) * 4 / 3, rtol=1e-6)
    np.testing.assert_allclose(info["coin_eq_times_productivity"][0], info["equality"][0] * 110.0, rtol=1e-6)


def test_masks_forbid_what_has_no_effect():
    core = world(goods=[1, 0, 0, 0, 1, 0, 0, 0])
    core.world_state["coin"][0, 1] = 1.5
    *_, info = step(core, 0, 0, 0, 0)
    mask = info["action_mask"][0]
    assert not mask[0, BUILD]  # on a source
    assert mask[1, BID_WOOD : BID_WOOD + 4].tolist() == [True, True, False, False]
    assert mask[0, ASK_WOOD : ASK_WOOD + 4].all()
    assert not mask[1, ASK_STONE : ASK_STONE + 4].any()
    assert mask[1, [WEST, EAST, NORTH, SOUTH]].tolist() == [False, False, False, False]
    assert mask[4, :22].tolist() == [True, *[False] * 21]
    goods = core.world_state["goods"].clone()
    step(core, 0, ASK_STONE, NORTH, BUILD)
    assert (core.world_state["goods"] == goods).all()


def test_results_of_an_episode_stay_until_the_next_step():
    core = make_core("GatherTradeBuild-v0", 3, "cpu", seed=0, **TRACED[0])
    core.reset()
    for _ in range(60):
        *_, truncated, info = core.step(core.sample_actions())
    assert truncated.all()
    assert (info["productivity"] > 60).all()
    last = info["gathered"].clone()
    assert last.sum() > 10
    *_, info = core.step(core.sample_actions())
    assert info["gathered"].sum() < last.sum()
    assert (core.world_state["completions"] == 1).all()


def test_price_curve_has_the_last_mean_price_of_every_part_of_the_episode():
    core = make_core("GatherTradeBuild-v0", 3, "cpu", seed=0, **TRACED[0])
    core.reset()
    assert core.definition.max_episode_steps == 60
    curve, state = torch.zeros((3, 2, PRICE_POINTS)), core.world_state
    for now in range(59):
        core.step(core.sample_actions())
        curve[:, :, now * PRICE_POINTS // 60] = state["market_rate"]
        assert (state["price_curve"] == curve.flatten(1)).all(), now
    assert (curve[:, :, -2] > 0).any()
    core.step(core.sample_actions())  # a new episode starts
    assert (state["price_curve"] == 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_layout": ("WS", "S")}, "rows of equal lengths"),
        ({"env_layout": ("WX", "S ")}, "characters"),
        ({"env_layout": ("@@", "@ ")}, "a cell without water for each"),
        ({"env_layout": ("@W  ", "    ", "S   ", "    ")}, "fixed_four_skill_and_loc: expected land at row 0"),
        ({"build_skill_dist": "none"}, "build_skill_dist: expected 'pareto'"),
        ({"tax_model": "fixed-bracket-rates"}, "fixed_bracket_rates: expected 7 rates"),
        ({"tax_model": "fixed-bracket-rates", "fixed_bracket_rates": [0.1]}, "expected 7 rates, one per bracket"),
        ({"fixed_bracket_rates": [0.1]}, "fixed_bracket_rates: expected None"),
        ({"rate_min": 0.5, "rate_max": 0.4}, "rate_min: expected at most rate_max"),
        ({"rate_max": 0.01}, "rate_disc: expected at least 2 rates"),
        ({"tax_annealing_schedule": (1.0,)}, "tax_annealing_schedule: expected 2 numbers"),
        ({"usd_scaling": 20000.0}, "at least 1 coin apart"),
        ({"tax_model": "us-federal-single-filer-2018-scaled", "bracket_spacing": "log"}, "expected 'us-federal'"),
        ({"scenario_name": "uniform"}, "fixed_four_skill_and_loc: expected False with scenario_name='uniform'"),
        ({"wood_clumpiness": 0.5}, "wood_clumpiness = 0.5: has no effect with scenario_name = 'layout_from_file'"),
        (
            {**UNIFORM, "resource_regen_prob": 0.5},
            "set scenario_name to one of 'layout_from_file', 'split_layout', or leave resource_regen_prob out",
        ),
        ({**UNIFORM, "world_size": (9,)}, "world_size: expected 2 numbers"),
        ({**UNIFORM, "world_size": (2, 2), "n_agents": 5}, "world_size: expected a cell of land for each of 5 agents"),
        ({**UNIFORM, "starting_wood_coverage": 0.48}, "starting_wood_coverage: expected sources on less than half"),
        ({**UNIFORM, "scenario_name": "quadrant", "world_size": (9, 4)}, "less than twice as many rows as columns"),
        ({**ZONES, "num_wood_zones": 70}, "num_wood_zones: expected at most 64 zones, got 80"),
        (
            {**ZONES, "num_stone_zones": 0, "num_wood_and_stone_zones": 0},
            "expected zones with wood and zones with stone",
        ),
        ({**SPLIT, "water_row": 24}, "water_row: expected a row from 1 to 23, got 24"),
        ({**SPLIT, "skill_rank_of_top_agents": (4,)}, "skill_rank_of_top_agents: expected 1 to 3 ranks below 4"),
        (
            {**SPLIT, "build_skill_dist": "none"},
            "build_skill_dist: expected 'pareto' with scenario_name='split_layout'",
        ),
        (
            {**SPLIT, "env_layout": ("@@@@@", "     ", "     ")},
            "water_row: expected a cell of land for each agent on its side",
        ),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_core("GatherTradeBuild-v0", 1, "cpu", **settings)
