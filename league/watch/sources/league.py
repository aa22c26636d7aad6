"""A league's run to watch: its store, opened for reading, and the policies of its populations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_envs.core import Core
from league import database
from league.game import Game
from league.population import Entry, Population
from league.report import Reading, Report
from league.store import Store
from league.watch.source import Snapshot
from trainers import folder_lock
from trainers.policy import Plays

CELLS = 1_000_000
"""Of a payoff table that is shown."""
CURVES = ("seconds", "episodes", "nash_conv", "exploitability", "best_so_far", "population_gain")
"""Measures of an iteration that are drawn, where they are known."""


class LeagueStage:
    """The game of a league, and its populations as players."""

    def __init__(self, game: Game, folder: Path, entries: Mapping[str, Sequence[Entry]]) -> None:
        """Every seat has a population of its own: who plays two seats of a match is there twice."""
        self.game, self.seats = game, game.seats
        self._populations = [Population(seat.role, folder) for seat in game.seats]
        for population in self._populations:
            population.replace(entries[population.role])

    def core(self, num_envs: int) -> Core:
        """See `league.watch.rollouts.Stage`."""
        return self.game.core(num_envs, "cpu", autoreset="disabled")

    def policy(self, place: int, name: str) -> Plays:
        """Loads a policy of the population that plays a seat."""
        population = self._populations[place]
        return population.policy(population.named(name).index)


class LeagueRun:
    """See `league.watch.source.Source`."""

    def __init__(self, path: Path) -> None:
        """Reads what is played by the run in a folder.

        Raises:
            CheckpointError: The run is damaged, or its environment is in a module that is not imported.
        """
        self.path = path
        with Store.open(path, write=False) as store:
            game = store.game
        core = game.core(1)
        self.agents = list(core.possible_agents)
        self.groups = {group: [self.agents[row] for row in rows] for group, rows in core.groups.items()}

    def files(self) -> list[Path]:
        """The database, and the log of what was written last."""
        return [self.path / database.DATABASE, self.path / f"{database.DATABASE}-wal"]

    def writing(self) -> bool:
        """Whether a process has opened it for writing."""
        return folder_lock.is_held(self.path)

    def read(self) -> Snapshot:
        """Reads a copy of the database, as `gpu-envs league report` does."""
        with Store.open(self.path, write=False) as store:
            report = Reading(store).report(0, None, None, None)
            told = report.to_json()
            entries = {role: list(population.entries) for role, population in store.populations.items()}
            policies = {role: [entry.name for entry in each] for role, each in entries.items()}
            game = store.game
            run = {
                "kind": "league",
                "env_id": game.env_id,
                "env": dict(game.env),
                "algorithm": told["algorithm"],
                "config": store.config,
                "roles": list(game.roles),
                "seats": told["seats"],
                "policies": policies,
                "agents": self.agents,
                "groups": self.groups,
            }
            answers = {"run": run, "metrics": _metrics(told, store.iterations()), "league": _league(told, game)}
        stage = LeagueStage(game, self.path / "policies", entries)
        return Snapshot(answers, policies, stage, _matchups(report, game) if all(policies.values()) else [])


def _metrics(told: Mapping[str, Any], rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Measures by iteration, and what learning players earned."""
    points = []
    for each in told["iterations"]:
        point = {"iteration": each["iteration"], **{name: each[name] for name in CURVES}}
        for quantity in ("return", "score"):
            earned = rows[each["iteration"]].get(quantity)
            for name, value in earned.items() if isinstance(earned, dict) else ():
                point[f"{name}/{quantity}"] = value
        points.append(point)
    columns = list(dict.fromkeys(name for point in points for name, value in point.items() if value is not None))
    return {"x": "iteration", "every": 1, "columns": columns, "rows": [[p.get(c) for c in columns] for p in points]}


def _league(told: Mapping[str, Any], game: Game) -> dict[str, Any]:
    entries = [{"role": role, **entry} for role, each in told["policies"].items() for entry in each]
    names = {(entry["role"], entry["index"]): entry["name"] for entry in entries}
    first = {role: game.seats_of(role)[0] for role in game.roles}
    weights = ("weight", "elo", "alpharank", "nash_average")
    return {
        "roles": list(game.roles),
        "seats": told["seats"],
        "payoff": _payoff(told, game),
        "ratings": [
            {key: entry[key] for key in ("role", "name", "iteration", "kind")}
            | {key: entry.get(key) for key in weights}
            for entry in entries
        ],
        "strategies": [
            {"iteration": row["iteration"], **{role: row["strategy"][seat] for role, seat in first.items()}}
            for row in told["iterations"]
            if row["strategy"] is not None
        ],
        "lineage": [
            {key: entry[key] for key in ("name", "role", "iteration", "kind", "player")}
            | {"parent": names.get((entry["role"], entry["parent"]))}
            for entry in entries
        ],
        "exploitability": [[row["iteration"], row["exploitability"]] for row in told["iterations"]],
        "measures": told["measures"],
        "left_out": told["left_out"],
    }


def _payoff(told: Mapping[str, Any], game: Game) -> dict[str, Any] | None:
    """Flat, the last seat's policies fastest."""
    shape = [len(told["policies"][seat.role]) for seat in game.seats]
    if not all(shape) or math.prod(shape) > CELLS:
        return None
    payoffs = told["payoffs"]
    count = None if payoffs["count"] is None else _flat(payoffs["count"], len(shape))
    return {
        "shape": shape,
        "exact": payoffs["exact"],
        "mean": [_flat(each, len(shape)) for each in payoffs["mean"]],
        "half": [_flat(each, len(shape)) for each in payoffs["half_width"]],
        "count": None if count is None else [count for _ in shape],
    }


def _flat(nested: Any, depth: int) -> list[Any]:
    return nested if depth == 1 else [value for each in nested for value in _flat(each, depth - 1)]


def _matchups(report: Report, game: Game) -> list[tuple[str, ...]]:
    """The latest, those met most often, and all pairs of the latter, the most frequent first."""
    latest = tuple(report.policies[seat.role][-1]["name"] for seat in game.seats)
    ranked = {
        role: [entry["name"] for entry in sorted(each, key=lambda entry: -(entry.get("weight") or 0.0))]
        for role, each in report.policies.items()
    }
    found = [latest, tuple(ranked[seat.role][0] for seat in game.seats)]
    if len(game.seats) == 2:
        one, other = (ranked[seat.role] for seat in game.seats)
        pairs = [(i + j, (a, b)) for i, a in enumerate(one) for j, b in enumerate(other)]
        found += [pair for _, pair in sorted(pairs, key=lambda each: each[0])]
    return list(dict.fromkeys(found))
