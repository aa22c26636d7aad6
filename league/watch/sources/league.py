"""Source of the viewer for league runs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gpu_envs.rendering.palette import role_colors
from gpu_envs.runtime.core import Core
from league.analysis.report_data import Report, read_report
from league.analysis.report_tables import page_tables
from league.game import Game, Seat
from league.leagues.league_state import read_players
from league.policies.mixture import MixturePolicy
from league.policies.population import PolicyRecord, Population
from league.storage import database
from league.storage.run_store import RunStore
from league.watch.sources.base import MIXTURE, RunSnapshot
from trainers.models.policy import PolicyProtocol
from trainers.storage import folder_lock

MAX_CELLS = 1_000_000
"""Maximum number of cells of a displayed payoff table."""
CURVES = ("seconds", "episodes", "nash_conv", "exploitability", "best_nash_conv", "ce_gap", "population_gain")
"""Measures of an iteration that are shown as curves."""
NUMBER = re.compile(r"[-+\d.,e]+( ± [\d.,e+-]+)?")
"""Number in a table, which may have the half-width of its interval."""


class LeagueRolloutEnvironment:
    """Game of a league with the policies of its populations."""

    def __init__(
        self,
        game: Game,
        folder: Path,
        entries: Mapping[str, Sequence[PolicyRecord]],
        weights: Sequence[Sequence[float]] | None = None,
    ) -> None:
        """Make a population for every seat, because a policy object belongs to one seat.

        Args:
            game: The game.
            folder: Folder of the files of policies.
            entries: Policies by role.
            weights: Final meta-strategy of every seat; None: none, or seats that are correlated.
        """
        self.game: Game = game
        self.seats: tuple[Seat, ...] = game.seats
        self.weights: Sequence[Sequence[float]] | None = weights
        self._populations = [Population(seat.role, folder) for seat in game.seats]
        for population in self._populations:
            population.replace(entries[population.role])

    def core(self, num_envs: int) -> Core:
        """Return the worlds, see `league.watch.rollouts.RolloutEnvironment`."""
        return self.game.core(num_envs, "cpu", autoreset="disabled")

    def present(self, name: str) -> str:
        """Return the name: a league keeps its policies."""
        return name

    def policy(self, seat: int, name: str) -> PolicyProtocol:
        """Load a policy of the population that plays a seat, or the mixture of those with a weight."""
        population = self._populations[seat]
        if name == MIXTURE and self.weights is not None:
            return _mixture(population, self.weights[seat])
        return population.policy(population.named(name).index)


def _mixture(population: Population, weights: Sequence[float]) -> MixturePolicy:
    """Return the mixture of policies that have a weight; members of a mixture count as policies."""
    members: list[PolicyProtocol] = []
    shares: list[float] = []
    for index, weight in enumerate(weights):
        policy = population.policy(index) if weight > 0 else None
        if isinstance(policy, MixturePolicy):
            members += policy.members
            shares += (weight * policy.weights).tolist()
        elif policy is not None:
            members.append(policy)
            shares.append(weight)
    return MixturePolicy(members, torch.tensor(shares, dtype=torch.float64))


class LeagueRun:
    """League run, see `league.watch.sources.base.RunSource`."""

    def __init__(self, path: Path) -> None:
        """Read the game of the run in a folder.

        Raises:
            CheckpointError: The run is damaged, or the module of its environment is not imported.
        """
        self.path = path
        with RunStore.open(path, write=False) as store:
            game = store.game
        core = game.core(1)
        self.agents: list[str] = list(core.possible_agents)
        self.groups: dict[str, list[str]] = {
            group: [self.agents[row] for row in rows] for group, rows in core.groups.items()
        }
        self._progress = 0, 0

    def progress(self) -> tuple[int, int, bool]:
        """Return completed iterations, all iterations, and that a league does not end before."""
        done, total = self._progress
        return done, total, False

    def files(self) -> list[Path]:
        """Return the database and its write-ahead log."""
        return [self.path / database.DATABASE, self.path / f"{database.DATABASE}-wal"]

    def writing(self) -> bool:
        """Return whether a process has the run open for writing."""
        return folder_lock.is_held(self.path)

    def read(self) -> RunSnapshot:
        """Read a copy of the database, as `gpu-envs league report` does."""
        with RunStore.open(self.path, write=False) as store:
            report, game = read_report(store), store.game
            answers = league_answers(store, report)
            entries = {role: list(population.entries) for role, population in store.populations.items()}
            self._progress = report.finished or 0, int(store.config.get("iterations", 0))
        answers["run"] |= {"agents": self.agents, "groups": self.groups}
        policies, latest = answers["run"]["policies"], answers["run"]["latest"]
        mixture = answers["run"]["mixture"] is not None
        weights = report.strategy["weights"] if mixture and report.strategy is not None else None
        stage = LeagueRolloutEnvironment(game, self.path / "policies", entries, weights)
        matchups = _matchups(report, game, latest, mixture) if all(policies.values()) else []
        return RunSnapshot(answers, policies, stage, matchups, latest, mixture)


def league_answers(store: RunStore, report: Report) -> dict[str, dict[str, Any]]:
    """Return the answers about a league, see `RunSnapshot.answers`, without `agents` and `groups`.

    The environment of the league is not executed.

    Args:
        store: Run, open for reading or writing.
        report: Report on the run.
    """
    report_json, game = report.to_json(), store.game
    run = {
        "kind": "league",
        "env_id": game.env_id,
        "env": dict(game.env),
        "algorithm": report_json["algorithm"],
        "config": store.config,
        "roles": list(game.roles),
        "seats": report_json["seats"],
        "policies": {role: [entry["name"] for entry in entries] for role, entries in report_json["policies"].items()},
        "latest": _latest(store, report),
        "mixture": MIXTURE if report.strategy is not None and _is_product(store) else None,
        "colors": role_colors(game.env_id, [*(seat.name for seat in game.seats), *game.roles]),
    }
    league = {**_league(report_json, game), "tables": [_table(*table) for table in page_tables(report)]}
    return {"run": run, "metrics": _metrics(report_json, store.iterations()), "league": league}


def _metrics(report_json: Mapping[str, Any], rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the measures by iteration, and the returns and scores of learning players."""
    points = []
    for row in report_json["iterations"]:
        point = {"iteration": row["iteration"], **{name: row[name] for name in CURVES}}
        for quantity in ("return", "score"):
            earned = rows[row["iteration"]].get(quantity)
            for name, value in earned.items() if isinstance(earned, dict) else ():
                point[f"{name}/{quantity}"] = value
        points.append(point)
    columns = list(dict.fromkeys(name for point in points for name, value in point.items() if value is not None))
    return {"x": "iteration", "every": 1, "columns": columns, "rows": [[p.get(c) for c in columns] for p in points]}


def _league(report_json: Mapping[str, Any], game: Game) -> dict[str, Any]:
    entries = [{"role": role, **entry} for role, policies in report_json["policies"].items() for entry in policies]
    names = {(entry["role"], entry["index"]): entry["name"] for entry in entries}
    first = {role: game.seats_of(role)[0] for role in game.roles}
    weights = ("weight", "elo", "alpharank", "nash_average")
    return {
        "roles": list(game.roles),
        "seats": report_json["seats"],
        "payoff": _payoff(report_json, game),
        "ratings": [
            {key: entry[key] for key in ("role", "name", "iteration", "kind")}
            | {key: entry.get(key) for key in weights}
            for entry in entries
        ],
        "strategies": [
            {"iteration": row["iteration"], **{role: row["strategy"][seat] for role, seat in first.items()}}
            for row in report_json["iterations"]
            if row["strategy"] is not None
        ],
        "lineage": [
            {key: entry[key] for key in ("name", "role", "iteration", "kind", "player")}
            | {"weight": entry.get("weight"), "parent": names.get((entry["role"], entry["parent"]))}
            for entry in entries
        ],
        "exploitability": [[row["iteration"], row["exploitability"]] for row in report_json["iterations"]],
        "learned_responses": _learned_responses(report_json),
        "measures": report_json["measures"],
        "left_out": report_json["left_out"],
    }


def _learned_responses(report_json: Mapping[str, Any]) -> dict[str, Any] | None:
    if report_json["exploit"] is None:
        return None
    measures = {key: report_json["exploit"][key] for key in ("nash_conv", "half_width")}
    return {"iteration": report_json["strategy"]["iteration"], **measures}


def _table(title: str, head: list[str], rows: list[list[str]]) -> dict[str, Any]:
    columns = zip(*rows, strict=True)
    numeric = [all(not cell or NUMBER.fullmatch(cell) for cell in column) for column in columns]
    return {"title": title, "head": head if any(head) else [], "rows": rows, "numeric": numeric}


def _payoff(report_json: Mapping[str, Any], game: Game) -> dict[str, Any] | None:
    """Return the payoffs as flat lists, the last seat's policies fastest."""
    shape = [len(report_json["policies"][seat.role]) for seat in game.seats]
    payoffs = report_json["payoffs"]
    if not all(shape) or math.prod(shape) > MAX_CELLS or payoffs["kept"] is not None:
        return None
    count = None if payoffs["count"] is None else _flat(payoffs["count"], len(shape))
    return {
        "shape": shape,
        "exact": payoffs["exact"],
        "mean": [_flat(array, len(shape)) for array in payoffs["mean"]],
        "half": [_flat(array, len(shape)) for array in payoffs["half_width"]],
        "count": None if count is None else [count for _ in shape],
    }


def _flat(nested: Any, depth: int) -> list[Any]:
    return nested if depth == 1 else [value for part in nested for value in _flat(part, depth - 1)]


def _is_product(store: RunStore) -> bool:
    """Return whether the seats of the last meta-strategy sample independently."""
    rows = store.iterations()
    return not rows or rows[max(rows)].get("joint") is None


def _latest(store: RunStore, report: Report) -> dict[str, str]:
    """Return the policy of every role that is the result: the mixture of PSRO, else the last main agent, else the last.

    A main agent is a player whose builder calls its kind "main".
    """
    if report.strategy is not None and report.strategy["of_the_run"] and _is_product(store):
        return {role: MIXTURE for role, policies in report.policies.items() if policies}
    main = {player.name for player in read_players(store) if player.kind == "main" and player.parent is None}
    latest = {}
    for role, entries in report.policies.items():
        names = [entry["name"] for entry in entries if entry["player"] in main] or [entry["name"] for entry in entries]
        latest |= {role: names[-1]} if names else {}
    return latest


def _matchups(report: Report, game: Game, usual: Mapping[str, str], mixture: bool) -> list[tuple[str, ...]]:
    """Return the usual policies, the mixtures, those with the largest weights, and all pairs by decreasing weight."""
    latest = tuple(usual[seat.role] for seat in game.seats)
    ranked = {
        role: [entry["name"] for entry in sorted(entries, key=lambda entry: -(entry.get("weight") or 0.0))]
        for role, entries in report.policies.items()
    }
    matchups = [latest, *([tuple(MIXTURE for _ in game.seats)] if mixture else [])]
    matchups.append(tuple(ranked[seat.role][0] for seat in game.seats))
    if len(game.seats) == 2:
        first, second = (ranked[seat.role] for seat in game.seats)
        pairs = [(i + j, (a, b)) for i, a in enumerate(first) for j, b in enumerate(second)]
        matchups += [pair for _, pair in sorted(pairs, key=lambda item: item[0])]
    return list(dict.fromkeys(matchups))
