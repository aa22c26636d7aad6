"""Means over runs with different seeds, with 95 % confidence intervals."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainers.base.serialization import write_text
from trainers.storage.learning_curves import COUNTERS, INTERVAL, NUM_SEEDS

_SMALL = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706)
"""Quantiles of Student's t-distribution for 1 to 5 degrees of freedom."""


def student_quantile(degrees: int) -> float:
    """Return the 0.975 quantile of Student's t-distribution, with a relative error below 0.1 %.

    Source: Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", eq. 26.7.5.
    """
    if degrees <= len(_SMALL):
        return _SMALL[degrees - 1]
    z = 1.959964
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the half-width of its 95 % confidence interval by Student's t; NaN for one value."""
    count = len(values)
    if count < 2:
        return values[0], math.nan
    return statistics.fmean(values), student_quantile(count - 1) * statistics.stdev(values) / math.sqrt(count)


def mean_rows(runs: Sequence[Sequence[Mapping[str, str]]]) -> list[dict[str, float]]:
    """Return the means over runs by iteration, of the runs that have a value.

    Args:
        runs: Rows of each run's metrics.csv, see `trainers.storage.learning_curves.read_rows`.

    Returns:
        Rows with "num_seeds", the number of runs that reached the iteration; and by column the mean and its half-width,
        "COLUMN/ci_half_width".
    """
    by_iteration: dict[int, list[Mapping[str, str]]] = {}
    for rows in runs:
        for row in rows:
            by_iteration.setdefault(int(row["iteration"]), []).append(row)
    means = []
    for iteration in sorted(by_iteration):
        rows = by_iteration[iteration]
        mean: dict[str, float] = {**{name: int(rows[0][name]) for name in COUNTERS}, NUM_SEEDS: len(rows)}
        for name in dict.fromkeys(name for row in rows for name in row if name not in COUNTERS):
            if values := [float(row[name]) for row in rows if row.get(name)]:
                mean[name], mean[name + INTERVAL] = mean_and_interval(values)
        means.append(mean)
    return means


def format_cell(value: float | str) -> str:
    """Return the cell of an int, of a number with 8 digits, or of one that is not finite, which is empty."""
    if isinstance(value, int | str):
        return str(value)
    return f"{value:.8g}" if math.isfinite(value) else ""


def write_rows(path: Path, rows: Sequence[Mapping[str, float | str]], columns: Sequence[str] | None = None) -> None:
    """Write rows of values or cells as CSV, atomically.

    Args:
        path: The file.
        rows: Rows; a column that a row lacks is empty.
        columns: Names of the columns; without any the file is empty. None: the columns of all rows.
    """
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else columns
    writer = csv.DictWriter(text, names, restval="")
    if names:
        writer.writeheader()
    writer.writerows({name: format_cell(value) for name, value in row.items()} for row in rows)
    write_text(path, text.getvalue())


def last_values(rows: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Return the last known value of every column of a metrics.csv."""
    return {name: float(cell) for row in rows for name, cell in row.items() if cell}
