"""Optimum of the one-step economy: brute force and Saez's formula against each other and against the environment."""

import numpy as np
import pytest
import torch

from benchmarks.experiments import publish
from gpu_envs.envs.economy.one_step import Config
from gpu_envs.runtime.factory import make_core
from gpu_envs.utils.settings import build_config
from parity.references import tax_optimum
from trainers.config.presets import preset
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.evaluation.scripted_policies import scripted_policy
from trainers.experiments.grid import Grid

TASK = Grid.read(publish.FILES / "economy.yaml").tasks["one-step"]
WITHOUT_TAXES, OPTIMAL_WELFARE = TASK.bounds
SETTINGS = dict(preset("OneStepEconomy-v0", "cpu").env)
CONFIG = build_config(Config, SETTINGS, "OneStepEconomy-v0")


def played(rates, labor):
    """Return the utilities (S, n) and the welfare (S,) of the environment for schedules and labor."""
    core = make_core("OneStepEconomy-v0", len(rates), "cpu", autoreset="disabled", **SETTINGS)
    core.reset()
    action = torch.zeros_like(core.action_buffer)
    action[:, -1] = 1 + torch.from_numpy(np.rint(rates / CONFIG.rate_disc)).long()
    core.step(action)
    action.zero_()
    action[:, :-1, 0] = torch.from_numpy(labor).long()
    reward = core.step(action)[1].numpy()
    return reward[:, :-1], reward[:, -1]


def test_recorded_optimum_is_that_of_brute_force():
    optimum = tax_optimum.brute_force(CONFIG)
    assert optimum.welfare == pytest.approx(OPTIMAL_WELFARE, abs=1e-7)
    assert len(CONFIG.rates) ** len(CONFIG.cutoffs) == 9261
    assert played(np.array([optimum.rates]), np.array([optimum.labor]))[1][0] == pytest.approx(
        OPTIMAL_WELFARE, rel=1e-5
    )


def test_bounds_and_threshold_of_the_experiment_are_those_of_brute_force():
    flat = CONFIG.rates[:, None].repeat(3, 1)
    welfare = tax_optimum.welfare(CONFIG, flat, tax_optimum.best_responses(CONFIG, flat))
    assert welfare[0] == pytest.approx(WITHOUT_TAXES, abs=0.05)
    assert welfare.max() < TASK.threshold == pytest.approx(0.98 * OPTIMAL_WELFARE, abs=0.05)


def test_no_worker_gains_in_the_environment_by_other_labor():
    rng = np.random.default_rng(1)
    for rates in rng.choice(CONFIG.rates, (3, 3)):
        best = tax_optimum.best_responses(CONFIG, rates[None])[0]
        labor = best[None, None].repeat(4, 0).repeat(101, 1)
        for worker in range(4):
            labor[worker, :, worker] = np.arange(101)
        utility, _ = played(rates[None].repeat(404, 0), labor.reshape(404, 4))
        for worker, utilities in enumerate(utility.reshape(4, 101, 4)):
            assert utilities[:, worker].max() - utilities[int(best[worker]), worker] < 1e-3


def test_welfare_equals_the_environment():
    rng = np.random.default_rng(2)
    rates, labor = rng.choice(CONFIG.rates, (50, 3)), rng.integers(1, 101, (50, 4))
    np.testing.assert_allclose(tax_optimum.welfare(CONFIG, rates, labor), played(rates, labor)[1], rtol=2e-5, atol=1e-3)


@pytest.mark.variations
@pytest.mark.parametrize("exponent", [2.5, 2.0, 3.0])
def test_saez_formula_gives_the_best_flat_rate(exponent):
    config = Config(
        labor_exponent=exponent, labor_cost=0.05 / 8 ** (exponent - 2), n_brackets=2, bracket_spacing="linear"
    )
    elasticity = tax_optimum.measured_elasticity(config)
    assert elasticity == pytest.approx(1 / (exponent - 1), abs=0.01)
    flat = np.linspace(0.0, 0.9, 181)[:, None].repeat(2, 1)
    values = tax_optimum.welfare(config, flat, tax_optimum.best_responses(config, flat, step=0.01))
    best = flat[values.argmax(), 0]
    assert 0.15 < best < 0.7
    assert tax_optimum.saez_rate(config, elasticity) == pytest.approx(best, abs=0.015)


def test_scripted_workers_respond_best_and_the_scripted_planner_uses_saez_formula():
    rng = np.random.default_rng(3)
    rates = rng.choice(CONFIG.rates, (40, 3))
    core = make_core("OneStepEconomy-v0", 40, "cpu", autoreset="disabled", **SETTINGS)
    _, info = core.reset()
    worker, planner = scripted_policy(core, "worker"), scripted_policy(core, "planner")
    chosen = planner.act(core.obs[:, -1:], info["action_mask"][:, -1:])
    elasticity = tax_optimum.measured_elasticity(CONFIG)
    assert (chosen == 1 + round(tax_optimum.saez_rate(CONFIG, elasticity) / CONFIG.rate_disc)).all()
    action = torch.zeros_like(core.action_buffer)
    action[:, -1] = 1 + torch.from_numpy(np.rint(rates / CONFIG.rate_disc)).long()
    core.step(action)
    best = tax_optimum.best_responses(CONFIG, rates)
    labor = worker.act(core.obs[:, :-1])[..., 0].numpy()
    assert (labor == best).mean() > 0.97  # other labor is as good up to the rounding of float32
    np.testing.assert_allclose(played(rates, labor)[1], played(rates, best)[1], rtol=1e-4)


@pytest.mark.variations
@pytest.mark.parametrize("settings", [{"disable_taxes": True}, {"agent_reward_type": "isoelastic_coin_minus_labor"}])
def test_scripted_workers_earn_more_than_random_ones_with_other_settings(settings):
    core = make_core("OneStepEconomy-v0", 64, "cpu", **settings)
    result = evaluate_policies(core, {"worker": scripted_policy(core, "worker")}, seed=0)
    assert result.returns["worker"].mean > evaluate_policies(core, {}, seed=0).returns["worker"].mean
    evaluate_policies(core, {"planner": scripted_policy(core, "planner")}, seed=0)
