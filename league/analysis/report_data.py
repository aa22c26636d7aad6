"""Report on a run as plain data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from league.storage.records import finite

__all__ = ["REPORT_FOLDER", "Report"]

REPORT_FOLDER = "report"
"""Folder of reports in the folder of a run."""


@dataclass
class Report:
    """Report on a run as JSON values; arrays per seat have the axes of the payoff table, (S, N_1, ..., N_S)."""

    run: str
    """Folder of the run."""
    env_id: str
    """Id of the environment."""
    algorithm: str
    """Name of the algorithm, as for `--algorithm`."""
    seats: list[dict[str, Any]]
    """Seats, each with `name` and `role`."""
    finished: int | None
    """Last complete iteration; None: there is none."""
    policies: dict[str, list[dict[str, Any]]]
    """Policies by role, oldest first: `name`, `index`, `kind`, `player`, `parent` (index), `iteration`, and if known
    `weight`, `elo`, `alpharank` and `nash_average`."""
    rated: dict[str, int]
    """Number of the first policies of the payoff table of each role whose payoffs are complete; measures are computed
    for them."""
    payoffs: dict[str, Any]
    """Payoffs: `exact`, nested lists `mean` (S, ...) and `half_width` (S, ...) of the 95 % interval, and `count`. With
    sampled payoffs also `win_rate` (...) of the first seat. `kept` has the indices of the policies of the axes by role,
    if the table is limited (`LeagueConfig.max_payoff_cells`), else None."""
    iterations: list[dict[str, Any]]
    """Iterations with `iteration`, `seconds`, `episodes`, `policies`, `strategy` (one list per seat) and measures.

    `nash_conv`, `exploitability` and `best_nash_conv` are exact, or None if the game is too large or they are not
    computed yet. With the meta-solver ce, `ce_gap` is the gain by deviations after the recommendation, else None.
    `population_gain` is the gain of the seats by policies of the run itself. It is a lower bound on
    NashConv if payoffs are exact, else an estimate that is biased upward by the choice of the best policies.
    `population_gain_half_width` is half of its 95 % interval. Both are None without later policies; the half-width of a
    sampled gain is also None with a joint meta-strategy."""
    strategy: dict[str, Any] | None
    """Final meta-strategy: `iteration`, `solver`, `weights` (one list per seat), and whether it is `of_the_run` or
    computed for this report."""
    best: dict[str, Any] | None
    """Iteration of the least exploitable meta-strategy and its NashConv."""
    exploit: dict[str, Any] | None
    """Gains of learned best responses to the final meta-strategy, see `league.evaluation`."""
    measures: dict[str, float]
    """Measures by name; measures of a role as "name/role"."""
    matches: dict[str, Any]
    """Training episodes `by_role` and `by_kind` of the learner, and `by_pair` (learner, opponent, episodes). In leagues
    with more than two seats, the last two count an episode once per opponent."""
    left_out: dict[str, str]
    """Reasons for missing measures, by name."""
    files: list[str] = field(default_factory=list)
    """Files that were written."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values; numbers that are not finite become None."""
        return finite(dataclasses.asdict(self))
