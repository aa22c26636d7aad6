"""Brackets and rates of PeriodicBracketTax."""

from typing import Any

import numpy as np

from gpu_envs.errors import ConfigError

FEDERAL_CUTOFFS = (0, 9700, 39475, 84200, 160725, 204100, 510300)
"""Incomes where the brackets of the federal income tax of 2018 for single filers start, as in the original [USD]."""
FEDERAL_RATES = (0.1, 0.12, 0.22, 0.24, 0.32, 0.35, 0.37)
"""Marginal rates of these brackets."""
MODELS = {
    "model_wrapper": "planner",
    "saez": "saez",
    "us-federal-single-filer-2018-scaled": "given",
    "fixed-bracket-rates": "given",
}
"""Kinds of rules by tax model."""


def model_of(config: Any) -> str:
    """Return the kind of rules: "planner", "saez", "given", or "none" without taxes."""
    return "none" if config.disable_taxes else MODELS[config.tax_model]


def cutoffs(config: Any) -> np.ndarray:
    """Return the incomes where the brackets start, (B,) [coin]."""
    count, top = config.n_brackets, config.top_bracket_cutoff
    if config.bracket_spacing == "us-federal":
        return np.array(FEDERAL_CUTOFFS) / config.usd_scaling
    if config.bracket_spacing == "linear":
        return np.linspace(0, top, count)
    return np.concatenate([[0], 2 ** np.linspace(np.log2(top / 2 ** (count - 2)), np.log2(top), count - 1)])


def table(config: Any) -> np.ndarray:
    """Return the rates that the planner chooses from, (R,), or the brackets' fixed rates, (B,)."""
    model = model_of(config)
    if model == "planner":
        rates = np.arange(config.rate_min, config.rate_max + config.rate_disc, config.rate_disc)
        return rates[rates <= config.rate_max]
    if model == "given":
        return np.array(config.fixed_bracket_rates if "fixed" in config.tax_model else FEDERAL_RATES, np.float64)
    return np.zeros(0)


def check(config: Any) -> None:
    """Check the settings of taxes.

    Raises:
        ConfigError: A setting is missing, contradicts another one, or leaves the planner no choice.
    """
    if config.rate_min > config.rate_max:
        raise ConfigError(f"rate_min: expected at most rate_max = {config.rate_max}, got {config.rate_min}")
    schedule = config.tax_annealing_schedule
    if schedule is not None and len(schedule) != 2:
        raise ConfigError(f"tax_annealing_schedule: expected 2 numbers, [warmup, slope], got {len(schedule)}")
    count, rates = len(cutoffs(config)), config.fixed_bracket_rates
    if (rates is None) == (config.tax_model == "fixed-bracket-rates"):
        expected = f"{count} rates" if rates is None else "None"
        raise ConfigError(f"fixed_bracket_rates: expected {expected} with tax_model={config.tax_model!r}, got {rates}")
    if rates is not None and len(rates) != count:
        raise ConfigError(f"fixed_bracket_rates: expected {count} rates, one per bracket, got {len(rates)}")
    if config.tax_model.startswith("us-federal") and config.bracket_spacing != "us-federal":
        raise ConfigError(
            f"bracket_spacing: expected 'us-federal' with tax_model={config.tax_model!r}, "
            f"got {config.bracket_spacing!r}"
        )
    if model_of(config) == "planner" and len({int(cutoff) for cutoff in cutoffs(config)}) < count:
        names = ", ".join(f"{cutoff:.4g}" for cutoff in cutoffs(config))
        raise ConfigError(
            f"bracket_spacing: expected brackets that start at least 1 coin apart, as the planner's actions of the "
            f"original have whole numbers as names, got {names}; lower usd_scaling or n_brackets"
        )
    if model_of(config) == "planner" and len(table(config)) < 2:
        raise ConfigError(f"rate_disc: expected at least 2 rates up to rate_max, got {len(table(config))}")
