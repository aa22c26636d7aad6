"""Optimal taxes of the one-step economy, independent of its kernels: exact best responses, and Saez's formula.

A worker with skill w and labor l earns z = w * l. With n workers it pays its taxes and receives an n-th of all taxes,
its own included. Its best labor does not depend on the labor of the others, because utility is linear in coin.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np

from gpu_envs.envs.economy.one_step import Config

HOURS = 100
"""Most hours of labor."""


@dataclass(frozen=True)
class Optimum:
    """The best rates of a planner whose workers respond exactly."""

    rates: tuple[float, ...]
    """Rate of every bracket."""
    welfare: float
    """Social welfare with these rates."""
    labor: tuple[float, ...]
    """Labor of every worker [hours]."""


def taxes(rates: np.ndarray, cutoffs: np.ndarray, income: np.ndarray) -> np.ndarray:
    """Return the taxes (..., S) on incomes (...) under S schedules of rates (S, B), with B cutoffs."""
    widths = np.append(np.diff(cutoffs), np.inf)
    parts = np.clip(income[..., None] - cutoffs, 0.0, widths)
    return parts @ rates.T


def best_responses(config: Config, rates: np.ndarray, step: float = 1.0) -> np.ndarray:
    """Return the best labor (S, n) of every worker [hours] under schedules of rates (S, B).

    Args:
        config: Settings of the economy, with utility "coin_minus_labor_cost".
        rates: Rates.
        step: Distance of the choices of labor; 1 in the environment.
    """
    skills, labor = config.worker_skills, np.arange(0.0, HOURS + step / 2, step)
    own_share = 1.0 - 1.0 / len(skills)
    cost = config.labor_cost * labor**config.labor_exponent
    responses = []
    for skill in skills:
        tax = taxes(rates, config.cutoffs, skill * labor)  # (L, S)
        responses.append(labor[(skill * labor[:, None] - own_share * tax - cost[:, None]).argmax(0)])
    return np.stack(responses, -1)


def welfare(config: Config, rates: np.ndarray, labor: np.ndarray) -> np.ndarray:
    """Return the social welfare "inv_income_weighted_utility" (S,) of labor (S, n) under rates (S, B)."""
    income = labor * config.worker_skills
    tax = np.stack([taxes(rates[index : index + 1], config.cutoffs, z)[:, 0] for index, z in enumerate(income)])
    utility = income - tax + tax.mean(1, keepdims=True) - config.labor_cost * labor**config.labor_exponent
    weight = 1.0 / np.maximum(income, 1.0)
    return (weight * utility).sum(1) / weight.sum(1)


@cache
def brute_force(config: Config) -> Optimum:
    """Return the best of all schedules that the planner can choose."""
    rates = np.array(list(itertools.product(config.rates, repeat=len(config.cutoffs))))
    labor = best_responses(config, rates)
    values = welfare(config, rates, labor)
    best = int(values.argmax())
    return Optimum(tuple(rates[best].tolist()), float(values[best]), tuple(labor[best].tolist()))


def measured_elasticity(config: Config) -> float:
    """Return the elasticity of incomes to 1 minus the marginal rate, by regression on best responses to flat taxes.

    Of its tax a worker receives an n-th, so that its marginal rate is (n - 1) / n of the flat rate.
    """
    flat = np.linspace(0.0, 0.9, 19)
    labor = best_responses(config, flat[:, None].repeat(len(config.cutoffs), 1), step=0.001)
    net = np.log(1.0 - flat * (1.0 - 1.0 / config.n_agents))
    income = np.log(labor * config.worker_skills)
    slopes = [np.polyfit(net, column, 1)[0] for column in income.T]
    return float(np.mean(slopes))


def saez_rate(config: Config, elasticity: float) -> float:
    """Return the optimal flat rate by Saez's formula for n workers.

    For a continuum of workers `t / (1 - t) = (1 - g) / e` (Saez 2001; Piketty and Saez 2013, eq. 2). Here e is the
    elasticity of incomes, and g the mean of the welfare weights, weighted by incomes. With n workers the marginal rate
    is `t' = t (n - 1) / n`, and `t' / (1 - t') = (1 - g) / (e (1 - g / n))`. Weights are inverse incomes. A flat rate
    changes all incomes by the same factor if labor costs are a power of labor, so g does not depend on it.
    """
    count = config.n_agents
    income = config.worker_skills * best_responses(config, np.zeros((1, len(config.cutoffs))), step=0.001)[0]
    weight = 1.0 / income
    mean_weight = (weight * income).sum() / income.sum() * count / weight.sum()
    odds = (1.0 - mean_weight) / (elasticity * (1.0 - mean_weight / count))
    return float(odds / (1.0 + odds) * count / (count - 1))
