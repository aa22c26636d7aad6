"""Data of a report: payoffs, ratings, exploitability, measures of populations, lineage and matches.

A run may be read while another process writes it. A measure that does not apply is left out; `Report.left_out` gives
the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu_envs.utils.progress import Progress
from league.analysis.report_data import Report
from league.analysis.report_measures import iteration_rows, policy_ratings, population_measures
from league.analysis.run_tables import RunTables
from league.analysis.training_matches import count_training_matches
from league.evaluation.approximate_exploitability import approximate_exploitability
from league.executors import Executor
from league.storage.run_config import training
from league.storage.run_store import RunStore, derive_named_seed

__all__ = ["read_report"]


def read_report(
    store: RunStore,
    exploit_steps: int = 0,
    exploit_seconds: float | None = None,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Report:
    """Report on an open run.

    Args:
        store: Run, open for reading or writing.
        exploit_steps: Environment steps for which each role learns a best response to the final meta-strategy, with
            the settings of the run; 0: none is learned.
        exploit_seconds: Time limit of each of these trainings [s].
        progress: Called while responses are learned in this process.
        executor: Executor of these trainings and their episodes; None: this process.

    Raises:
        CheckpointError: The run is damaged.
    """
    tables, game = RunTables(store), store.game
    rated = tables.rated
    if tables.last is None:
        missing = "no iteration is complete yet" if not tables.rows else "the payoff table is not complete yet"
        tables.left_out["ratings and measures"] = missing
    elif rated != tables.table.sizes:
        tables.left_out["measures of the last policies"] = "their payoffs are not complete yet"
    if len(game.seats) != 2:
        tables.left_out["figure of payoffs"] = f"expected two seats, got {len(game.seats)}; see report.json"
    iterations = iteration_rows(tables)
    evaluated = [row for row in iterations if row["nash_conv"] is not None]
    best = min(evaluated, key=lambda row: (row["nash_conv"], -row["iteration"]), default=None)
    columns, measures = {}, {}
    if tables.last is not None:
        columns, measures = policy_ratings(tables, rated), population_measures(tables, rated)
    end = tables.final_iteration()
    strategy = None
    if end is not None:
        is_stored = "meta_strategy" in tables.rows[end]
        solver = store.config.get("meta_solver", "auto")
        weights = [marginal.tolist() for marginal in tables.strategies[end]]
        solver = tables.solver if not is_stored or solver == "auto" else solver
        strategy = {"iteration": end, "solver": solver, "of_the_run": is_stored, "weights": weights}
        for role in game.roles:
            columns.setdefault(role, {})["weight"] = weights[game.seats_of(role)[0]]
    return Report(
        run=str(store.path),
        env_id=game.env_id,
        algorithm=str(store.config.get("algorithm", "")),
        seats=[{"name": seat.name, "role": seat.role} for seat in game.seats],
        finished=max(tables.rows, default=None),
        policies={role: _policies(store, role, columns.get(role, {})) for role in game.roles},
        rated=rated,
        payoffs=_payoffs(tables),
        iterations=iterations,
        strategy=strategy,
        best=None if best is None else {key: best[key] for key in ("iteration", "nash_conv", "exploitability")},
        exploit=_exploit(tables, end, exploit_steps, exploit_seconds, progress, executor),
        measures=measures,
        matches=count_training_matches(tables),
        left_out=tables.left_out,
    )


def _policies(store: RunStore, role: str, columns: Mapping[str, Sequence[float | None]]) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "index": entry.index,
            "kind": entry.kind,
            "player": entry.meta.get("player"),
            "parent": entry.parent,
            "iteration": entry.iteration,
            **{key: values[entry.index] if entry.index < len(values) else None for key, values in columns.items()},
        }
        for entry in store.populations[role].entries
    ]


def _payoffs(tables: RunTables) -> dict[str, Any]:
    if tables.exact:
        zero = torch.zeros_like(tables.payoffs)
        return {
            "exact": True,
            "mean": tables.payoffs.tolist(),
            "half_width": zero.tolist(),
            "count": None,
            "kept": None,
        }
    table = tables.table
    result = {
        "exact": False,
        "mean": table.mean.tolist(),
        "half_width": table.half_width.tolist(),
        "kept": tables.indices,
    }
    return {**result, "count": table.count.tolist(), "win_rate": table.win_rate().tolist()}


def _exploit(
    tables: RunTables,
    end: int | None,
    steps: int,
    seconds: float | None,
    progress: Progress | None,
    executor: Executor | None,
) -> dict[str, Any] | None:
    """Learn best responses to the final meta-strategy."""
    if not steps:
        return None
    if end is None:
        tables.left_out["learned best responses"] = "the run has no meta-strategy yet"
        return None
    config = tables.store.config
    settings = {**config.get("train_overrides", {}), "total_steps": steps}
    train = training(tables.game, config.get("device", "cpu"), settings)
    strategy = tables.strategy(end)
    bound = approximate_exploitability(
        tables.game,
        tables.store.populations,
        strategy.marginals,
        train,
        seconds,
        seed=derive_named_seed(config.get("seed", 0), "report"),
        progress=progress,
        executor=executor,
        joint=strategy.joint,
    )
    fields = {
        entry.name: getattr(bound, entry.name) for entry in dataclasses.fields(bound) if entry.name != "responses"
    }
    fields["seats"] = [{**dataclasses.asdict(entry), "gain": entry.gain} for entry in bound.seats]
    return {**fields, "exploitability": bound.exploitability, "lower_bound": True}
