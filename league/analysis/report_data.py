"""Data of a report: payoffs, ratings, exploitability, measures of populations, lineage and matches.

A run may be read while another process writes it. A measure that does not apply is left out; `Report.left_out` gives
the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gpu_envs.errors import CheckpointError
from gpu_envs.utils.progress import Progress
from league.analysis.report_measures import iteration_rows, policy_ratings, population_measures
from league.analysis.run_tables import RunTables
from league.evaluation.approximate_exploitability import approximate_exploitability
from league.executors.tasks import Executor
from league.leagues.league_state import read_players
from league.leagues.player import RANDOM_NAME, opponent_kind
from league.matchups.matchup_distribution import LEARNER
from league.storage.records import finite
from league.storage.run_config import training
from league.storage.run_store import RunStore, derive_named_seed

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


def count_training_matches(tables: RunTables) -> dict[str, Any]:
    """Count the training episodes of a run, see `Report.matches`.

    Raises:
        CheckpointError: A match names an unknown player.
    """
    store = tables.store
    roles: dict[str, int] = {}
    kinds: dict[str, int] = {}
    pairs: dict[tuple[str, str], int] = {}

    def add(kind: str, learner: str, opponent: str, count: int) -> None:
        kinds[kind] = kinds.get(kind, 0) + count
        pairs[learner, opponent] = pairs.get((learner, opponent), 0) + count

    for match in store.matches():
        entries = [
            store.populations[seat.role].entries[index]
            for seat, index in zip(tables.game.seats, match.matchup, strict=True)
            if index != LEARNER
        ]
        opponent = " + ".join(entry.name for entry in entries) or match.role
        kind = " + ".join(entry.kind for entry in entries) or "self"
        roles[match.role] = roles.get(match.role, 0) + match.count
        add(f"learner - {kind}", f"{match.role}, iteration {match.iteration}", opponent, match.count)
    players = {player.name: player for player in read_players(store)}
    for row in tables.rows.values():
        episodes = row.get("episodes")
        for learner, opponents in row.get("matches", {}).items():
            for opponent, count in opponents.items():
                if learner not in players or opponent not in {RANDOM_NAME, *players}:
                    raise CheckpointError(
                        f"{store.file}: iterations: matches: expected names of players, got {learner!r:.80} and "
                        f"{opponent!r:.80}"
                    )
                add(f"{players[learner].kind} - {opponent_kind(players, opponent)}", learner, opponent, count)
            if opponents:  # with more than two seats an episode has several opponents
                matches, role = sum(opponents.values()), players[learner].role
                count_of_role = episodes.get(learner, matches) if isinstance(episodes, dict) else matches
                roles[role] = roles.get(role, 0) + count_of_role
    by_pair = [[*pair, count] for pair, count in pairs.items()]
    return {"by_role": roles, "by_kind": kinds, "by_pair": by_pair}
