"""Measures of a report: NashConv of every iteration, ratings of policies, and measures of populations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_envs.errors import ConfigError
from league import solvers
from league.analysis import population_metrics, ratings
from league.analysis.run_tables import RunTables
from league.evaluation.nash_conv import is_evaluated, nash_conv_lower_bound, strategy_from_summary
from league.evaluation.tabular_game import is_recurrent
from league.game import Game
from league.solvers import MetaStrategy
from league.storage.run_config import training


def iteration_rows(tables: RunTables) -> list[dict[str, Any]]:
    """Return the measures of every iteration's meta-strategy, see `Report.iterations`."""
    result, best, pending, evaluated = [], math.inf, [], _evaluated_by_run(tables)
    rated = {} if tables.last is None else tables.rated_sizes(tables.last)
    last = None if tables.last is None else tables.sub_game(rated)
    for number, row in tables.rows.items():
        strategy, nash_conv = tables.strategies.get(number), row.get("nash_conv")
        gain = gain_half_width = None
        if strategy is not None:
            if nash_conv is None and evaluated:
                pending.append(number)
            elif nash_conv is None:
                nash_conv = _nash_conv(tables, strategy)
            if last is not None and tables.rated_sizes(number) != rated:  # without later policies the gain is unknown
                wide = zip(tables.in_table(strategy), last.shape[1:], strict=True)
                padded = tuple(pad(marginal, (0, size - len(marginal))) for marginal, size in wide)
                if row.get("joint") is None:
                    gain = solvers.nash_gap(last, MetaStrategy(padded))
                    gain_half_width = _gain_half_width(tables, rated, padded)
                else:  # the marginals of a joint distribution do not determine the gain
                    gain = nash_conv_lower_bound(last, strategy_from_summary(row))
                    gain_half_width = 0.0 if tables.exact else None
        best = min(best, math.inf if nash_conv is None else nash_conv)
        result.append(
            {
                "iteration": number,
                "policies": tables.sizes(number),
                "strategy": None if strategy is None else [marginal.tolist() for marginal in strategy],
                "nash_conv": nash_conv,
                "exploitability": None if nash_conv is None else nash_conv / len(tables.game.seats),
                "best_nash_conv": None if nash_conv is None else best,
                "ce_gap": row.get("ce_gap"),
                "population_gain": gain,
                "population_gain_half_width": gain_half_width,
                "seconds": row.get("seconds"),
                "episodes": _total(row.get("episodes")),
            }
        )
    if pending:
        tables.left_out[f"NashConv from iteration {pending[0]} on"] = "pending: the run is still computing it"
    return result


def _evaluated_by_run(tables: RunTables) -> bool:
    """Return whether the run itself computes NashConv, so that a report need not."""
    train = training(tables.game, "cpu", tables.store.config.get("train_overrides", {}))
    if tables.tabular is None or is_recurrent(train):
        return False
    if any("meta_strategy" in row for row in tables.rows.values()):
        return True
    return is_evaluated(tables.game, train)


def _nash_conv(tables: RunTables, strategy: tuple[Tensor, ...]) -> float | None:
    """Compute NashConv of a meta-strategy; return None if the game is too large."""
    tabular = tables.tabular
    if tabular is None:
        return None
    return tables.measure("exact NashConv", lambda: tabular.nash_conv(tables.store.populations, strategy))


def _gain_half_width(tables: RunTables, rated: Mapping[str, int], marginals: Sequence[Tensor]) -> float:
    """Return half of the 95 % interval of the gain by the best policies.

    The errors of the seats are added, which gives an upper bound.
    """
    if tables.exact:
        return 0.0
    payoffs, half = tables.sub_game(rated), tables.sub_game(rated, tables.table.half_width)
    profile, total = solvers.product(marginals), 0.0
    for seat, values in enumerate(solvers.deviations(payoffs, marginals)):
        best = torch.zeros_like(values)
        best[values.argmax()] = 1.0
        change = solvers.product([*marginals[:seat], best, *marginals[seat + 1 :]]) - profile
        total += float(torch.where(change == 0, 0.0, change * half[seat]).norm())
    return total


def policy_ratings(tables: RunTables, rated: Mapping[str, int]) -> dict[str, dict[str, list[float | None]]]:
    """Return the ratings of the first policies, by role and by name of the rating; None outside of the table."""
    game, payoffs = tables.game, tables.sub_game(rated)
    columns: dict[str, dict[str, list[float | None]]] = {role: {} for role in game.roles}
    measures = {
        "elo": tables.measure("Elo", lambda: _elo(tables, rated)),
        "alpharank": tables.measure("alpha-rank", lambda: solvers.solve("alpharank", payoffs).marginals),
        "nash_average": tables.measure("Nash averaging", lambda: ratings.nash_average(payoffs)),
    }
    for name, by_seat in measures.items():
        if by_seat is None:
            continue
        for role in game.roles:
            seats = game.seats_of(role)
            columns[role][name] = tables.by_index(role, torch.stack([by_seat[seat] for seat in seats]).mean(0).tolist())
    return columns


def _elo(tables: RunTables, rated: Mapping[str, int]) -> tuple[Tensor, ...]:
    """Compute Elo ratings, one tensor per seat."""
    game = tables.game
    if len(game.seats) != 2:
        raise ConfigError(f"expected two seats, got {len(game.seats)}; see alpha-rank")
    if tables.exact:
        raise ConfigError("expected sampled payoffs, got exact ones; see alpha-rank and Nash averaging")
    first, second = (rated[seat.role] for seat in game.seats)
    score, count = (matrix[:first, :second] for matrix in (tables.table.win_rate(), tables.table.count))
    if game.shared:  # (i, j) and (j, i) are the same episodes
        rating = ratings.elo(score, count.triu(1))
        return rating, rating
    # two populations that play only each other, even if their sizes are equal
    rating = ratings.elo(pad(score, (first, 0, 0, second)), pad(count, (first, 0, 0, second)))
    return rating[:first], rating[first:]


def population_measures(tables: RunTables, rated: Mapping[str, int]) -> dict[str, float]:
    """Return the measures of the populations by name; measures of a role as "name/role"."""
    game, payoffs, measures = tables.game, tables.sub_game(rated), {}
    for role in game.roles:
        seat = game.seats_of(role)[0]
        table = payoffs[seat].movedim(seat, 0).flatten(1)
        value = tables.measure(
            "expected cardinality", lambda table=table: population_metrics.expected_cardinality(table)
        )
        if value is not None:
            measures[f"expected_cardinality/{role}"] = value
    diversity = tables.measure(
        "effective diversity", lambda: population_metrics.effective_diversity(_shared(game, payoffs))
    )
    if diversity is not None:
        measures["effective_diversity"] = diversity
    shape = tables.measure(
        "transitive and cyclic share", lambda: population_metrics.decompose_game(_shared(game, payoffs))
    )
    if shape is not None:
        measures |= {"transitive_share": shape.transitive_share, "cyclic_share": shape.cyclic_share}
    return measures


def _shared(game: Game, payoffs: Tensor) -> Tensor:
    if not game.shared:
        raise ConfigError(f"expected one population for all seats, got one each for {', '.join(game.roles)}")
    return payoffs


def _total(episodes: Any) -> int | None:
    """Sum the episodes of all players, if they are recorded by player."""
    return sum(episodes.values()) if isinstance(episodes, dict) else episodes
