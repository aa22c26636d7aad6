"""Summary of an iteration of PSRO, and the meta-strategy that a resumed run reads from it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from league.evaluation.nash_conv import UNKNOWN, ce_gap_lower_bound, nash_conv_lower_bound, strategy_from_summary
from league.psro.work import PSROContext
from league.solvers import MetaStrategy
from league.storage.records import SUMMARY_FIELDS, check_strategy
from league.storage.run_store import RunStore

FIELDS: dict[str, Any] = {
    **{name: SUMMARY_FIELDS[name] for name in ("meta_strategy", "joint", *UNKNOWN, "seconds")},
    **{"policies": dict[str, int], "episodes": int},
}
"""Required fields of a summary, and their types."""


def psro_summary(context: PSROContext, meta_game: Tensor, strategy: MetaStrategy, seconds: float) -> dict[str, Any]:
    """Summarize populations, meta-strategy, payoffs and exploitability; NashConv is added by its evaluation.

    With the meta-solver ce, it also has the lower bounds of the CE gap; the gap is added together with NashConv.

    Args:
        context: Context of the iteration.
        meta_game: Payoffs (S, N_1, ..., N_S) of all policies.
        strategy: Meta-strategy of the iteration.
        seconds: Duration of the iteration [s].
    """
    previous = context.strategy
    row: dict[str, Any] = {
        "policies": {role: len(context.populations[role]) for role in context.game.roles},
        "meta_strategy": [marginal.tolist() for marginal in strategy.marginals],
        "joint": None if strategy.joint is None else strategy.joint.tolist(),
        "value": (meta_game * strategy.distribution()).flatten(1).sum(1).tolist(),
        **UNKNOWN,
        "nash_conv_lower_bound": nash_conv_lower_bound(meta_game, strategy),
        "previous_nash_conv_lower_bound": None if previous is None else nash_conv_lower_bound(meta_game, previous),
        "seconds": seconds,
        "episodes": int(context.store.cells().count.sum()),
        "best_iteration": None,
    }
    recommends = context.config.meta_solver == "ce"
    if recommends:
        row |= {"ce_gap": None, "ce_gap_lower_bound": _lower_bound(meta_game, strategy, recommends)}
        bound = None if previous is None else _lower_bound(meta_game, previous, recommends)
        row["previous_ce_gap_lower_bound"] = bound
    if context.tabular is None:
        earlier = {number: strategy_from_summary(old) for number, old in context.store.iterations().items()}
        earlier[context.iteration] = strategy
        bounds = {number: _lower_bound(meta_game, marginals, recommends) for number, marginals in earlier.items()}
        row["best_iteration"] = min(bounds, key=lambda number: (bounds[number], -number))
    return row


def _lower_bound(meta_game: Tensor, strategy: MetaStrategy, recommends: bool) -> float:
    """Return the lower bound of the CE gap if the meta-strategy recommends policies, else of NashConv."""
    if recommends and strategy.joint is not None:
        return ce_gap_lower_bound(meta_game, strategy.joint)
    return nash_conv_lower_bound(meta_game, strategy)


def latest_strategy(store: RunStore) -> MetaStrategy | None:
    """Return the meta-strategy of the last finished iteration, None if there is none.

    Raises:
        CheckpointError: A summary is damaged.
    """
    rows = store.iterations(FIELDS, FIELDS)
    for number, row in rows.items():
        pools = [store.populations[seat.role].entries for seat in store.game.seats]
        sizes = [sum(entry.iteration <= number for entry in pool) for pool in pools]
        check_strategy(f"{store.file}: iterations: summary of {number}", row, sizes)
    return strategy_from_summary(rows[max(rows)]) if rows else None
