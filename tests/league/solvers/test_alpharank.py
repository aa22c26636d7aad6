"""alpha-Rank against OpenSpiel's, and where several profiles are never left."""

import numpy as np
import pytest
import torch
from open_spiel.python.egt import alpharank as openspiel_alpharank
from payoff_tables import BIASED, close, drawn, zero_sum

from gpu_envs.errors import ConfigError
from league.solvers import solve
from league.solvers.alpha_rank import stationary


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 2, 5), (3, 2, 3, 4)])
def test_alpharank_as_openspiel(shape):
    payoffs = drawn(*shape, seed=5)
    tables = list(payoffs.numpy())
    for alpha, m in ((0.5, 50), (2.0, 7)):
        expected = openspiel_alpharank.compute(tables, alpha=alpha, m=m)[2]
        close(solve("alpharank", payoffs, alpha=alpha, m=m).joint.flatten(), expected, atol=1e-8)
    expected = openspiel_alpharank.compute(tables, alpha=0.01)[2]
    close(solve("alpharank", payoffs, alpha=0.01).joint.flatten(), expected, atol=1e-8)
    expected = openspiel_alpharank.compute(tables, use_inf_alpha=True, inf_alpha_eps=0.03)[2]
    close(solve("alpharank", payoffs, epsilon=0.03).joint.flatten(), expected, atol=1e-8)
    close(solve("alpharank", payoffs).joint.flatten(), openspiel_alpharank.sweep_pi_vs_epsilon(tables), atol=1e-6)


def test_ties_of_alpharank_as_openspiel():
    payoffs = drawn(2, 4, 3, seed=1).round()
    assert any(len(column.unique()) < len(column) for column in payoffs[0].T)
    tables = list(payoffs.numpy())
    expected = openspiel_alpharank.compute(tables, use_inf_alpha=True, inf_alpha_eps=0.03)[2]
    close(solve("alpharank", payoffs, epsilon=0.03).joint.flatten(), expected, atol=1e-8)
    expected = openspiel_alpharank.compute(tables, alpha=2.0, m=7)[2]
    close(solve("alpharank", payoffs, alpha=2.0, m=7).joint.flatten(), expected, atol=1e-8)


def test_alpharank_of_one_population_as_openspiel():
    payoffs = zero_sum(BIASED[0] + torch.tensor([[0, 0.3, 0], [-0.3, 0, 0], [0, 0, 0]]))
    tables = [payoffs[0].numpy()]
    strategy = solve("alpharank", payoffs, alpha=1.0, symmetric=True)
    close(strategy.marginals[1], openspiel_alpharank.compute(tables, alpha=1.0)[2], atol=1e-8)
    close(
        solve("alpharank", payoffs, symmetric=True).marginals[0],
        openspiel_alpharank.sweep_pi_vs_epsilon(tables),
        atol=1e-6,
    )


def test_alpharank_where_several_profiles_are_never_left():
    stay = torch.eye(2).expand(2, 2, 2)  # a game of coordination: both equilibria are sinks
    close(solve("alpharank", stay).joint, [[0.5, 0], [0, 0.5]])
    expected = openspiel_alpharank.sweep_pi_vs_epsilon([np.eye(2), np.eye(2)])
    close(solve("alpharank", stay).joint.flatten(), expected)
    with pytest.raises(ConfigError, match="expected one recurrent set of profiles, got 2"):
        solve("alpharank", stay, alpha=1e6)


def test_iterative_alpharank_equals_the_dense_solution(monkeypatch):
    payoffs = drawn(2, 6, 7, seed=2)
    expected = solve("alpharank", payoffs, alpha=0.3).joint
    monkeypatch.setattr("league.solvers.alpha_rank._DENSE", 1)
    close(solve("alpharank", payoffs, alpha=0.3).joint, expected.numpy(), atol=1e-9)


def test_stationary_of_two_states():
    masses = stationary(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.1, 0.3]).double(), 2)
    close(masses, [0.75, 0.25])
