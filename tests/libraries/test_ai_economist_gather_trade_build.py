"""GatherTradeBuild-v0 against ai-economist 1.7.1, step by step, from the same starts with the same random numbers."""

from collections import Counter

import numpy as np
import pytest
from libraries import gather_trade_build_oracle as oracle

from gpu_envs.envs.economy.gather_trade_build import Config, ranked_payments, ranked_places
from gpu_envs.envs.economy.layouts import LAYOUTS
from gpu_envs.runtime.factory import make_core

MODELS = ("model_wrapper", "saez", "us-federal-single-filer-2018-scaled", "fixed-bracket-rates", "free")


@pytest.mark.parametrize("model", MODELS)
def test_steps_with_random_settings_equal_the_original(model):
    total = Counter()
    for index in range(5):
        settings = oracle.random_settings(np.random.default_rng([index, MODELS.index(model)]), model)
        total += oracle.play(settings, 2, 3, index)
    assert total["steps"] > 3000, total
    if model == "free":
        assert not total.pop("taxes paid", 0)
    names = ["houses", "trades", "trades at the price of the bid", "steps with several trades", "orders that expire"]
    names += ["second units", "moves in the way of another agent", "tax days", "ends"]
    names += ["taxes paid"] * (model != "free")
    names += ["rates by the Saez formula"] * (model == "saez")
    assert min(total[name] for name in names) >= 4, total


@pytest.mark.parametrize("model", ["model_wrapper", "us-federal-single-filer-2018-scaled"])
def test_whole_episodes_with_the_settings_of_the_tutorial_equal_the_original(model):
    total = oracle.play({"tax_model": model, "tax_annealing_schedule": (-100.0, 0.001)}, 2, 1, 0)
    assert total["steps"] == 2000
    assert total["resources collected"] > 50, total


@pytest.mark.parametrize("name", sorted(LAYOUTS))
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
        for values, name in zip(theirs, ("place", "payment", "skill", "bonus"), strict=True):
            mine = core.world_state[name].numpy().ravel()
            error = values.std() / np.sqrt(len(values))
            assert abs(values.mean() - mine.mean()) < 4 * error, name
            assert 0.85 < values.std() / mine.std() < 1.15, name
        for cell in range(12):
            share = (core.world_state["place"].numpy() == cell).mean()
            assert abs((theirs[0] == cell).mean() - share) < 0.02


def test_recorded_traces_are_those_of_the_original(tmp_path):
    oracle.record_all(tmp_path / "trace.npz")
    with np.load(tmp_path / "trace.npz") as new, np.load(oracle.TRACE) as kept:
        assert set(new) == set(kept)
        for name in new:
            np.testing.assert_allclose(new[name], kept[name], 1e-6, 1e-6)
