"""GatherTradeBuild-v0 against ai-economist 1.7.1, step by step, from the same starts with the same random numbers."""

from collections import Counter

import numpy as np
import pytest
from libraries import gather_trade_build_oracle as oracle
from libraries.gather_trade_build_settings import random_settings, random_world
from libraries.oracle_checks import assert_recorded
from parity.economy.gather_trade_build_replay import LAYOUTS, compare_layouts

from gpu_envs.envs.economy.gather_trade_build import Config, ranked_payments, ranked_places
from gpu_envs.envs.economy.gather_trade_build.world_settings import LAYOUTS as FILES
from gpu_envs.envs.economy.gather_trade_build.world_settings import SCENARIOS
from gpu_envs.runtime.factory import make_core

MODELS = ("model_wrapper", "saez", "us-federal-single-filer-2018-scaled", "fixed-bracket-rates", "free")


@pytest.mark.parametrize("model", MODELS)
def test_steps_with_random_settings_equal_the_original(model):
    total = Counter()
    for index in range(5):
        settings = random_settings(np.random.default_rng([index, MODELS.index(model)]), model)
        total += oracle.play(settings, 2, 3, index)
    assert total["steps"] > 3000, total
    if model == "free":
        assert not total.pop("taxes paid", 0)
    names = ["houses", "trades", "trades at the price of the bid", "steps with several trades", "orders that expire"]
    names += ["second units", "moves in the way of another agent", "tax days", "ends"]
    names += ["taxes paid"] * (model != "free")
    names += ["rates by the Saez formula"] * (model == "saez")
    assert min(total[name] for name in names) >= 4, total


@pytest.mark.parametrize(
    ("component", "acting", "happens"),
    [
        ("Gather", (), ("resources collected", "second units", "moves in the way of another agent")),
        ("Build", ("Build",), ("houses",)),
        ("ContinuousDoubleAuction", ("ContinuousDoubleAuction",), ("trades", "orders that expire")),
        ("PeriodicBracketTax", ("Build",), ("tax days", "taxes paid")),
    ],
)
def test_steps_of_one_component_equal_the_original(component, acting, happens):
    """Every component needs the resources that agents gather, and taxes need the incomes of houses."""
    total, taxed = Counter(), component == "PeriodicBracketTax"
    for index in range(4):
        settings = random_settings(np.random.default_rng([index, 13]), MODELS[index] if taxed else "free")
        total += oracle.play(settings | {"max_bid_ask": 2}, 2, 2, index, components=("Gather", *acting))
    assert total["steps"] > 1500, total
    assert min(total[name] for name in ("resources collected", *happens)) >= 4, total
    actions = {"houses": "Build", "orders": "ContinuousDoubleAuction"}
    assert not any(total[name] for name, other in actions.items() if other not in acting), total
    assert taxed or not total["taxes paid"], total


@pytest.mark.parametrize("scenario", SCENARIOS[1:])
def test_steps_of_scenarios_equal_the_original(scenario):
    total = Counter()
    for index in range(4):
        rng = np.random.default_rng([index, SCENARIOS.index(scenario), 7])
        settings = random_settings(rng, MODELS[index])
        for name in ("env_layout", "resource_regen_prob") if scenario in SCENARIOS[2:] else ():
            del settings[name]
        settings |= random_world(rng, scenario) | {"multi_action_mode_agents": index % 2 == 1}
        total += oracle.play(settings, 2, 2, index)
    assert total["steps"] > 1500, total
    names = ["houses", "trades", "resources collected", "agents with several actions", "ends"]
    names += ["cells with several units"] * (scenario != "split_layout")
    assert min(total[name] for name in names) >= 4, total


def test_steps_with_an_action_of_every_component_equal_the_original():
    total = Counter()
    for index, model in enumerate(MODELS):
        settings = random_settings(np.random.default_rng([index, 11]), model)
        total += oracle.play(settings | {"multi_action_mode_agents": True}, 2, 2, index)
    assert total["steps"] > 1500, total
    names = ("houses", "trades", "steps with several trades", "second units", "tax days", "agents with several actions")
    assert min(total[name] for name in names) >= 20, total


@pytest.mark.parametrize("index", range(len(LAYOUTS)))
def test_random_layouts_are_distributed_as_in_the_original(index):
    compare_layouts(LAYOUTS[index], oracle.random_layouts(LAYOUTS[index], 1500, 1), 6000)


def test_agents_of_a_split_layout_start_as_in_the_original():
    """Shares of ranks above the water, payments by rank, and free cells, of 400 starts."""
    settings = {"scenario_name": "split_layout", "env_layout": ("  W  ", "     ", " S   ", "@    "), "water_row": 1}
    settings |= {"fixed_four_skill_and_loc": False, "skill_rank_of_top_agents": (0, 2), "n_agents": 3}
    np.random.seed(0)  # noqa: NPY002
    env, theirs = oracle.make(**settings), []
    for _ in range(400):
        env.reset()
        theirs += [(agent.loc[0] * 5 + agent.loc[1], agent.state["build_payment"]) for agent in env.world.agents]
    core = make_core("GatherTradeBuild-v0", 1000, "cpu", seed=0, **settings)
    core.reset()
    theirs = np.array(theirs)
    places, payments = (core.world_state[name].numpy().ravel() for name in ("position", "payment"))
    ranks = env._avg_ranked_skill
    np.testing.assert_allclose(np.unique(payments)[::-1], ranks, rtol=5e-3)
    assert env._water_line == core.config.row_of_water
    for rank, payment in enumerate(np.unique(payments)[::-1]):
        mine, other = places[payments == payment], theirs[theirs[:, 1] == ranks[rank], 0]
        assert (mine < 5).all() == (other < 5).all() == (rank in (0, 2))
        for cell in range(20):
            assert abs((mine == cell).mean() - (other == cell).mean()) < 0.1


@pytest.mark.parametrize("model", ["model_wrapper", "us-federal-single-filer-2018-scaled"])
def test_whole_episodes_with_the_settings_of_the_tutorial_equal_the_original(model):
    total = oracle.play({"tax_model": model, "tax_annealing_schedule": (-100.0, 0.001)}, 2, 1, 0)
    assert total["steps"] == 2000
    assert total["resources collected"] > 50, total


@pytest.mark.parametrize("name", sorted(FILES))
def test_layouts_and_starts_are_those_of_the_original(name):
    fixed = "env-pure" not in name and "14x14" not in name
    try:
        layout = Config(env_layout_file=name, fixed_four_skill_and_loc=fixed).layout
    except oracle.ConfigError:
        layout, fixed = Config(env_layout_file=name, fixed_four_skill_and_loc=False).layout, False
    env = oracle.make(env_layout_file=name, fixed_four_skill_and_loc=fixed)
    env.reset()
    kinds = sum(number * env._source_maps[kind] for number, kind in enumerate(("Stone", "Wood", "Water"), start=1))
    np.testing.assert_array_equal(kinds.ravel(), layout.terrain & 3)
    if fixed:
        places = [row * layout.width + column for row, column in env._ranked_locs]
        assert places == ranked_places(4, layout).tolist()
        np.testing.assert_allclose(ranked_payments(4, 10, 3), env._avg_ranked_skill)


def test_random_starts_are_distributed_as_in_the_original():
    """Means and deviations of skills, and the shares of cells, of 3,000 starts of the original."""
    kinds = (("pareto", "lognormal"), ("lognormal", "pareto"))
    for build, gather in kinds:
        settings = {"env_layout": (" SW ", "  @ ", "   S"), "fixed_four_skill_and_loc": False}
        settings |= {"build_skill_dist": build, "gather_skill_dist": gather}
        env, theirs = oracle.make(**settings), []
        np.random.seed(0)  # noqa: NPY002  # the original draws from it
        for _ in range(1000):
            env.reset()
            for agent in env.world.agents:
                state = agent.state
                theirs.append((state["loc"][0] * 4 + state["loc"][1], state["build_payment"], state["build_skill"],
                               state["bonus_gather_prob"]))  # fmt: skip
        core = make_core("GatherTradeBuild-v0", 20_000, "cpu", seed=0, **settings)
        core.reset()
        theirs = np.array(theirs).T
        for values, name in zip(theirs, ("position", "payment", "skill", "bonus"), strict=True):
            mine = core.world_state[name].numpy().ravel()
            error = values.std() / np.sqrt(len(values))
            assert abs(values.mean() - mine.mean()) < 4 * error, name
            assert 0.85 < values.std() / mine.std() < 1.15, name
        for cell in range(12):
            share = (core.world_state["position"].numpy() == cell).mean()
            assert abs((theirs[0] == cell).mean() - share) < 0.02


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz.xz")
    assert_recorded(tmp_path / "trace.npz.xz", oracle.TRACE, 1e-6)
