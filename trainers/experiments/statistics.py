"""Statistics of few runs on several tasks, with intervals by the stratified bootstrap.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice"
(arXiv 2108.13264). Scores are arrays by task; tasks may have different numbers of runs. An interval is of the
percentiles 2.5 and 97.5 over resamples, in which the runs of every task are drawn with replacement.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpu_envs.errors import missing_extra, packages

Scores = Mapping[str, np.ndarray]
"""Scores (N,) of the runs by task."""
RESAMPLES = 2_000
"""Number of resamples."""


def mean(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean over tasks of the mean over runs, of arrays (..., N) by task."""
    return np.mean([task.mean(-1) for task in scores], axis=0)


def median(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the median over tasks of the mean over runs, of arrays (..., N) by task."""
    return np.median([task.mean(-1) for task in scores], axis=0)


def interquartile_mean(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean of the middle half of all runs of all tasks, of arrays (..., N) by task."""
    return report_library("scipy.stats").trim_mean(np.concatenate(scores, axis=-1), 0.25, axis=-1)


def optimality_gap(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean distance of scores below 1 to 1, of arrays (..., N) by task."""
    return np.mean([(1.0 - np.minimum(task, 1.0)).mean(-1) for task in scores], axis=0)


def resampled(scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> list[np.ndarray]:
    """Return scores (R, N) by task in which the runs of every task are drawn with replacement."""
    rng = np.random.default_rng(seed)
    return [task[rng.integers(len(task), size=(resamples, len(task)))] for task in scores.values()]


def interval(samples: np.ndarray, *scores: Scores) -> tuple[Any, Any]:
    """Return the percentiles 2.5 and 97.5 of samples (R, ...) over the resamples.

    They are NaN if every task of the scores has one run only: resamples of one run do not differ.
    """
    if all(len(task) < 2 for algorithm in scores for task in algorithm.values()):
        samples = np.full_like(samples, math.nan, dtype=float)
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    return low, high


def estimate(
    measure: Callable[[Sequence[np.ndarray]], np.ndarray], scores: Scores, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Return a measure such as `interquartile_mean` of scores, and the ends of its interval."""
    low, high = interval(measure(resampled(scores, resamples)), scores)
    return float(measure(list(scores.values()))), float(low), float(high)


def mean_curve(runs: Sequence[Mapping[int, float]]) -> list[tuple[int, float, float, float]]:
    """Return the steps after which all runs have a score, with the mean of the scores and the ends of its interval.

    Other steps are left out, because the mean of fewer runs is not comparable.

    Args:
        runs: Scores of each run by environment steps.
    """
    common = sorted(set(runs[0]).intersection(*runs[1:])) if runs else []
    return [(steps, *estimate(mean, {"": np.array([run[steps] for run in runs])})) for steps in common]


def performance_profile(scores: Scores, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the share of runs with a score above each threshold, mean over tasks, and the ends of its interval.

    Args:
        scores: Scores of the runs by task.
        thresholds: The thresholds (K,).
    """

    def shares(tasks: Sequence[np.ndarray]) -> np.ndarray:
        return np.mean([(task[..., None] > thresholds).mean(-2) for task in tasks], axis=0)

    low, high = interval(shares(resampled(scores)), scores)
    return shares(list(scores.values())), low, high


def improvement(first: Scores, second: Scores, resamples: int = RESAMPLES) -> tuple[float, float, float]:
    """Return the probability that a run of the first algorithm is better than one of the second, with its interval.

    It is the mean over tasks of the Mann-Whitney statistic divided by the number of pairs; ties count half. Both
    algorithms have the same tasks.
    """
    second = {task: second[task] for task in first}

    def share(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray:
        pairs = [(x[..., :, None], y[..., None, :]) for x, y in zip(a, b, strict=True)]
        return np.mean([((x > y) + 0.5 * (x == y)).mean((-2, -1)) for x, y in pairs], axis=0)

    low, high = interval(share(resampled(first, resamples, 0), resampled(second, resamples, 1)), first, second)
    return float(share(list(first.values()), list(second.values()))), float(low), float(high)


def improvements(scores: Mapping[str, Scores]) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return the `improvement` of every pair of algorithms.

    The pairs (a, b) and (b, a) have the same resamples, so that their probabilities and intervals mirror each other.
    """
    estimates = {}
    for a, b in itertools.combinations(scores, 2):
        value, low, high = improvement(scores[a], scores[b])
        estimates[a, b], estimates[b, a] = (value, low, high), (1.0 - value, 1.0 - high, 1.0 - low)
    return {pair: estimates[pair] for pair in itertools.permutations(scores, 2)}


def p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Return the two-sided p-value of the Mann-Whitney test for equal distributions of scores (N,) and (M,)."""
    return float(report_library("scipy.stats").mannwhitneyu(first, second).pvalue)


def report_library(name: str) -> Any:
    """Import a library of reports, such as "scipy.stats", and return its module.

    Raises:
        MissingExtraError: The library is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        libraries = ("matplotlib", "pandas", "scipy")
        raise missing_extra(error, "a report of an experiment", libraries, packages("experiments")) from None
