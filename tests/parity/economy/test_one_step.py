"""OneStepEconomy-v0 against recorded transitions of ai-economist 1.7.1, and its rules and settings."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_envs.envs.economy.one_step import Config
from gpu_envs.errors import ConfigError
from gpu_envs.runtime.factory import make_core
from parity.economy import one_step_replay
from parity.traces import recorded

TRACE = Path(__file__).with_name("one_step.npz.xz")
TOLERANCE = 1e-5  # relative, of float32 against float64


def make(worlds=1, **settings):
    core = make_core("OneStepEconomy-v0", worlds, "cpu", seed=0, autoreset="disabled", **settings)
    core.reset()
    return core


def episode(core, rates, hours):
    """Set the rates of all brackets by index, then work; return the result of the second step."""
    action = torch.zeros_like(core.action_buffer)
    action[:, -1] = torch.as_tensor(rates)
    core.step(action)
    action.zero_()
    action[:, :-1, 0] = torch.as_tensor(hours)
    return core.step(action)


@pytest.mark.variations
@pytest.mark.parametrize("index", range(4))
def test_recorded_transitions_equal_the_original(index):
    settings, trace = recorded(TRACE, index)
    assert one_step_replay.TOLERANCE == TOLERANCE
    counts = one_step_replay.replay(settings, trace)
    assert counts["steps"] == 250
    assert min(counts[name] for name in ("ends", "works", "taxed")) > 30, counts
    assert counts["new rates"] > 30 or settings.get("tax_model"), counts
    if settings.get("tax_model") == "saez":
        assert min(counts["random rates"], counts["rates by the formula"]) >= 100, counts
    assert counts["annealed"] > 30 or index > 0, counts


def test_taxes_are_shared_equally():
    core = make(skills=(1.0, 2.0, 3.0, 4.0), tax_model="fixed-bracket-rates", fixed_bracket_rates=(0.5,) * 7)
    _, reward, terminated, *_ = episode(core, 0, [10, 10, 0, 10])
    assert core.world_state["coin"][0].tolist() == [13.75, 18.75, 8.75, 28.75]
    assert core.world_state["last_income"][0].tolist() == [10.0, 20.0, 0.0, 40.0]
    assert reward[0, :4].tolist() == [13.75 - 100.0, 18.75 - 100.0, 8.75, 28.75 - 100.0]
    assert terminated.all()


def test_rates_apply_to_the_income_of_their_bracket():
    core = make(skills=(1.0,) * 4, bracket_spacing="linear", n_brackets=3, top_bracket_cutoff=20.0)
    episode(core, [1 + 2, 1 + 10, 1 + 20], [5, 15, 25, 0])  # 10 %, 50 % and 100 %
    paid = torch.tensor([0.5, 1.0 + 2.5, 1.0 + 5.0 + 5.0, 0.0])
    torch.testing.assert_close(
        core.world_state["coin"][0], torch.tensor([5.0, 15.0, 25.0, 0.0]) - paid + paid.sum() / 4
    )
    torch.testing.assert_close(core.world_state["last_marginal_rate"][0], torch.tensor([0.1, 0.5, 1.0, 0.1]))


def test_planner_without_an_action_keeps_the_rates():
    core = make(episode_length=6, period=2)
    action = torch.zeros_like(core.action_buffer)
    action[0, -1] = torch.arange(7) + 1
    core.step(action)
    action.zero_()
    for _ in range(3):
        core.step(action)
        assert core.world_state["rate_index"][0].tolist() == list(range(7))


def test_limit_of_taxes_masks_higher_rates_in_every_bracket():
    core = make(worlds=2)
    core.set_params(tax_limit=torch.tensor([0.0, 0.52]))
    core.reset()
    assert core.action_mask[:, -1].view(2, 7, 22).sum(2).tolist() == [[2] * 7, [12] * 7]


def test_limit_of_taxes_lowers_fixed_rates():
    core = make(tax_model="us-federal-single-filer-2018-scaled", tax_limit=0.2)
    rates = core.obs[0, 0, :7]
    torch.testing.assert_close(rates, torch.tensor([0.1, 0.12, 0.2, 0.2, 0.2, 0.2, 0.2]))


def saez_core(**settings):
    """Return a core of two worlds with incomes of the second one only."""
    core = make(worlds=2, tax_model="saez", n_agents=50, period=1, episode_length=2, mask_first_step=False, **settings)
    for _ in range(6):
        action = torch.zeros_like(core.action_buffer)
        action[1, :-1, 0] = torch.arange(50) + 30
        core.step(action)
        core.step(action)
        core.reset()
    return core


def test_rates_are_random_until_the_formula_of_saez_has_500_incomes():
    core = saez_core(rate_min=0.2, rate_max=0.7, tax_limit=0.9)
    assert core.world_state["num_samples"].tolist() == [600, 600]
    core = make(tax_model="saez", n_agents=50, rate_min=0.2, rate_max=0.7, tax_limit=0.9, worlds=300)
    episode(core, 0, torch.arange(50))
    rate = core.world_state["rate"]
    assert (rate >= 0.2).all()
    assert (rate <= 0.63).all()
    np.testing.assert_allclose([rate.mean(), rate.std()], [0.415, 0.43 / 12**0.5], rtol=0.03)
    assert (core.world_state["average_rates"] == 0).all()


def test_samples_and_means_of_the_formula_of_saez_stay_until_worlds_are_seeded():
    core = saez_core()
    state = core.world_state
    assert (state["average_rates"] > 0).any(1).tolist() == [True, True]
    torch.testing.assert_close(core.obs[:, 0, 7 + 2 + 50], state["average_rates"][:, 0].float())
    assert (core.obs[:, 0, :7] == state["rate"]).all()
    assert state["elasticity"][0] == 0.5  # no incomes to regress
    assert state["elasticity"][1] != 0.5
    core.reset(seed=1)
    assert state["num_samples"].tolist() == [0, 0]
    assert state["elasticity"].tolist() == [0.5, 0.5]
    assert not state["average_rates"].any()


def test_elasticity_can_be_given():
    high, low = (saez_core(saez_fixed_elas=elasticity).world_state["rate"][1] for elasticity in (3.0, 0.1))
    assert (high <= low).all()
    assert (high < low).any()


def test_agents_decide_when_the_original_asks_them():
    core = make(episode_length=5, period=3)
    turns = [core.to_move[0].tolist()]
    for _ in range(4):
        core.step(torch.zeros_like(core.action_buffer))
        turns.append(core.to_move[0].tolist())
    assert [turn[-1] for turn in turns] == [True, False, False, True, False]
    assert [turn[0] for turn in turns] == [False, True, True, True, True]


def test_skills_depend_on_the_seed_only():
    skills = Config(skill_seed=3).worker_skills
    assert np.array_equal(skills, Config(skill_seed=3, n_agents=4).worker_skills)
    assert not np.array_equal(skills, Config().worker_skills)
    assert (np.diff(skills) > 0).all()
    assert 1.0 < skills[0] < skills[-1] < 3.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"skills": (1.0, 2.0)}, "skills: expected 4 numbers, one per worker, got 2"),
        ({"rate_min": 0.6, "rate_max": 0.5}, "rate_min: expected at most rate_max = 0.5, got 0.6"),
        ({"rate_min": 0.5, "rate_max": 0.5}, "rate_disc: expected 2 to 200 rates between rate_min and rate_max, got 1"),
        ({"tax_model": "fixed-bracket-rates"}, "fixed_bracket_rates: expected 7 rates, one per bracket, got None"),
        (
            {"tax_model": "us-federal-single-filer-2018-scaled", "bracket_spacing": "log"},
            "bracket_spacing: expected 'us-federal' with US taxes, got 'log'",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        make(**settings)
    assert str(caught.value) == f"OneStepEconomy-v0: {message}"
