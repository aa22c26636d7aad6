"""Asynchronous leagues of rock-paper-scissors and their builders, for tests."""

from __future__ import annotations

import json
import pickle
from collections import Counter

from shuffled import Shuffled
from small_league import STEPS, league, records

from league.executors.transport import unpacked
from league.leagues.builder import LeagueBuilder, players_per_role, uniform_matches
from league.leagues.player import Match, Reset
from league.matchups.payoff_table import num_cells
from league.storage.run_store import RunStore

EPISODES = 20
"""Episodes of a payoff cell."""


def run(path, rules="alphastar", executor=None, **settings):
    running = league(path, rules, executor=executor, asynchronous=True, **settings)
    rows = running.run()
    return running, rows


def trainings(path):
    """Return the results of all training tasks by name, in the order of completion."""
    tasks = records(path)["tasks"]
    return {name: json.loads(result) for _, name, result in tasks if "/train/" in name}


def check_counts(path, iterations, groups):
    """Check that every training, its steps and its matches are counted once, and every payoff cell is complete."""
    tasks, tables = trainings(path), records(path)
    with RunStore.open(path, write=False) as store:
        seats = len(store.game.seats)
    assert len(tasks) == iterations * groups
    numbers = {}
    for name in tasks:
        number, _, group = name.partition("/train/")
        numbers.setdefault(group, []).append(int(number))
    assert all(sequence == list(range(1, len(sequence) + 1)) for sequence in numbers.values())
    steps, matches, episodes = Counter(), Counter(), Counter()
    for task in tasks.values():
        assert task["steps"] == STEPS
        for player, result in task["players"].items():
            steps[player] += task["steps"]
            episodes[player] += result["episodes"]
            pairs = sum(games for _, games, *_ in result["matches"])  # of seats
            assert result["episodes"] <= pairs <= seats * (seats - 1) // 2 * result["episodes"]
            matches.update({(player, opponent): games for opponent, games, *_ in result["matches"]})
    rows = [row for number, row in tables["iterations"] if number]
    assert len(rows) == iterations
    of_rows = {name: Counter() for name in ("steps", "episodes")}
    for row in rows:
        for name, total in of_rows.items():
            total.update(row[name])
    assert (of_rows["steps"], of_rows["episodes"]) == (steps, episodes)
    counted = Counter()
    for row in rows:
        counted.update(
            {(learner, other): games for learner, met in row["matches"].items() for other, games in met.items()}
        )
    assert counted == matches
    with RunStore.open(path, write=False) as store:
        learning = store.get("learning")
        assert Counter({name: state["total_steps"] for name, state in learning.items()}) == steps  # 0: never trained
        roles = [seat.role for seat in store.game.seats]
        cells, sizes = store.cells(), [len(store.populations[role]) for role in roles]
        assert set(cells.count.tolist()) == {EPISODES}
        expected = num_cells(store.game, dict(zip(roles, sizes, strict=True)))
        if store.game.shared and store.game.zero_sum:
            expected -= sizes[0]  # a policy against itself earns 0
        assert len(cells.matchups) == expected
        for state in learning.values():
            assert state["steps"] == 0  # every player is frozen at the end
    return numbers


class Players(LeagueBuilder):
    """Players against each other, without frozen copies."""

    def __init__(self, count=4):
        super().__init__()
        self.count = count

    def players(self, game):
        return players_per_role(game, "main", self.count)

    def matches(self, roster, player, role):
        return uniform_matches([name for name in roster.learning() if name != player.name])

    def build_league(self, result):
        return []


class Restarting(LeagueBuilder):
    """Two players, of which the second restarts after each of its trainings."""

    def players(self, game):
        return players_per_role(game, "main", 2)

    def matches(self, roster, player, role):
        return [Match(f"main_{1 - int(player.name[-1])}", 1.0)]

    def build_league(self, result):
        return [Reset("main_1")] if "main_1" in result.trained else []


class Ordered(Shuffled):
    """Finish tasks in a given order, and then in the order of submission."""

    def __init__(self, order):
        super().__init__()
        self.expected = order

    def next(self, within=None):
        if within is not None:
            return None
        expected = next(self.expected, None)
        keys = [key for key, _ in self.waiting]
        key, call = self.waiting.pop(keys.index(expected) if expected in keys else 0)
        return key, unpacked(pickle.loads(self.work(call)), "cpu")
