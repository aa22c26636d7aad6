"""Measures of GatherTradeBuild-v0 for training goals."""

import numpy as np
import pytest
import torch
from small_environments import SMALL

from benchmarks.training.economy_measures import EconomyMeasures, correlation
from gpu_envs.runtime.factory import make_core
from trainers.evaluation.policy_evaluation import evaluate_policies

WORLDS, N = 8, 3
"""Number of environments and of workers."""


def test_measures_are_those_of_the_episode():
    """Trade only moves coin; the other measures follow from the last `info`."""
    settings = SMALL["GatherTradeBuild-v0"] | {"episode_length": 120, "period": 20, "starting_agent_coin": 30.0}
    core = make_core("GatherTradeBuild-v0", WORLDS, "cpu", seed=0, **settings)
    measures, ends, paid = EconomyMeasures(core), [], []

    def after_step(playing, info):
        measures(playing, info)
        paid.append(info["tax_paid"].numpy()[:, :N].copy())
        ends.append({name: info[name].numpy()[:, :N].copy() for name in ("coin", "houses_built", "sold", "bought")})

    players, results = {"agent": None, "planner": None}, core.definition.results
    outcome = evaluate_policies(core, players, 3, last_info=results, after_step=after_step)
    assert outcome.length.mean == len(ends) == 120
    measured, last = {name: value.numpy() for name, value in measures.results().items()}, ends[-1]
    assert measures.skill is not None
    skill, coin, houses = measures.skill.numpy(), last["coin"], last["houses_built"]
    assert measured["productivity"] == pytest.approx(coin.sum(1))
    gini = np.abs(coin[:, :, None] - coin[:, None]).sum((1, 2)) / (2 * N * coin.sum(1))
    assert measured["equality"] == pytest.approx(100 * (1 - gini * N / (N - 1)), rel=1e-4)
    for name, expected in (("productivity", coin.sum(1)), ("equality", measured["equality"] / 100)):  # for each agent
        assert outcome.last_info[name]["agent"].mean == pytest.approx(expected.mean(), rel=1e-4)
    assert measured["equality x productivity"] == pytest.approx(measured["equality"] / 100 * coin.sum(1), rel=1e-4)
    rows = np.arange(WORLDS)
    assert (measured["houses of the most skilled"] == houses[rows, skill.argmax(1)]).all()
    assert (measured["houses of the least skilled"] == houses[rows, skill.argmin(1)]).all()

    tax = np.sum(paid, axis=0)
    trade = coin - 30.0 - skill * houses + tax - tax.mean(1, keepdims=True)
    assert tax.sum() > 0
    assert houses.sum() > 0
    assert trade.sum(1) == pytest.approx(np.zeros(WORLDS), abs=1e-2), "a sale moves coin between agents"
    assert np.abs(trade[(last["sold"] + last["bought"]) > 0]).max() > 0.5
    assert np.abs(trade[(last["sold"] + last["bought"]) == 0]).max(initial=0.0) < 1e-2
    for name, values in (("houses", houses), ("trade", trade)):
        assert measured[f"correlation of skill and {name}"] == pytest.approx(
            [np.corrcoef(a, b)[0, 1] if np.ptp(b) > 1e-3 else 0.0 for a, b in zip(skill, values, strict=True)], abs=1e-3
        )


def test_correlation_of_a_constant_row_is_0():
    first = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    other = torch.tensor([[2.0, 4.0, 6.0], [5.0, 5.0, 5.0], [3.0, 2.0, 1.0]])
    assert correlation(first.double(), other.double()).tolist() == pytest.approx([1.0, 0.0, -1.0])
