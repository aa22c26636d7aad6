"""Asynchronous leagues: no player waits for another, and every order of completion keeps the rules of the league."""

import json
import pickle
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from shuffled import Shuffled
from simulated_devices import SimulatedDevices
from small_league import RPS, STEPS, builder, league, records

from gpu_envs.errors import CheckpointError, ConfigError
from league.executors import unpacked
from league.game import Game
from league.leagues.async_league import AsyncLeague
from league.leagues.builder import LeagueBuilder, players_per_role, uniform_matches
from league.leagues.league import League, LeagueConfig
from league.leagues.player import Match, Player
from league.leagues.transitions import Enter, Freeze, Reset, Retire
from league.storage.open_run import open_run
from league.storage.run_store import RunStore

SCRIPT = Path(__file__).parents[1] / "small_league.py"
KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 7})
EPISODES = 20
"""Episodes of a payoff cell."""


def run(path, which="alphastar", executor=None, **settings):
    running = league(path, which, executor=executor, asynchronous=True, **settings)
    rows = running.run()
    return running, rows


def trainings(path):
    """Return the results of all training tasks by name, in the order of completion."""
    found = records(path)["tasks"]
    return {name: json.loads(result) for _, name, result in found if "/train/" in name}


def check_counts(path, iterations, groups):
    """Check that every training, its steps and its matches are counted once, and every payoff cell is complete."""
    tasks, found = trainings(path), records(path)
    assert len(tasks) == iterations * groups
    numbers = {}
    for name in tasks:
        number, _, group = name.partition("/train/")
        numbers.setdefault(group, []).append(int(number))
    assert all(each == list(range(1, len(each) + 1)) for each in numbers.values())
    steps, matches, episodes = Counter(), Counter(), Counter()
    for task in tasks.values():
        assert task["steps"] == STEPS
        for player, result in task["players"].items():
            steps[player] += task["steps"]
            episodes[player] += result["episodes"]
            assert result["episodes"] == sum(games for _, games, *_ in result["matches"])
            matches.update({(player, opponent): games for opponent, games, *_ in result["matches"]})
    rows = [row for number, row in found["iterations"] if number]
    assert len(rows) == iterations
    of_rows = {name: Counter() for name in ("steps", "episodes")}
    for row in rows:
        for name, total in of_rows.items():
            total.update(row[name])
    assert (of_rows["steps"], of_rows["episodes"]) == (steps, episodes)
    counted = Counter()
    for row in rows:
        counted.update({(one, other): games for one, met in row["matches"].items() for other, games in met.items()})
    assert counted == matches
    with RunStore.open(path, write=False) as store:
        learning = store.get("learning")
        assert {name: each["total_steps"] for name, each in learning.items()} == steps
        cells, sizes = store.cells(), [len(store.populations[seat.role]) for seat in store.game.seats]
        assert set(cells.count.tolist()) == {EPISODES}
        pairs = sizes[0] * (sizes[0] - 1) // 2  # in a symmetric zero-sum game
        assert len(cells.matchups) == (pairs if store.game.shared else sizes[0] * sizes[1])
        for each in learning.values():
            assert each["steps"] == 0  # every player is frozen at the end
    return numbers


class Watched(LeagueBuilder):
    """A builder that notes the opponents that it names, and what it is asked."""

    def __init__(self, inner):
        self.inner, self.named, self.asked = inner, {}, []
        self.config = inner.config

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def players(self, game):
        return self.inner.players(game)

    def frozen_at_start(self, player):
        return self.inner.frozen_at_start(player)

    def training_groups(self, roster):
        return self.inner.training_groups(roster)

    def matches(self, roster, player):
        found = self.inner.matches(roster, player)
        self.named.setdefault(player.name, set()).update(match.opponent for match in found if match.probability)
        return found

    def build_league(self, result):
        self.asked.append((result.iteration, tuple(result.trained)))
        return self.inner.build_league(result)


@pytest.mark.parametrize(("game", "which"), [(RPS, "alphastar"), (KUHN, "alphastar"), (TAG, "pbt"), (KUHN, "uniform")])
def test_order_of_completion_keeps_counts_and_pairings(game, which, tmp_path):
    watched = Watched(builder(which))
    running, _ = run(tmp_path / "run", watched, Shuffled(workers=4, seed=1), game=game, iterations=4)
    groups = len(watched.training_groups(running.state.roster))
    running.store.close()
    numbers = check_counts(tmp_path / "run", 4, groups)
    if groups > 1:
        assert len({len(each) for each in numbers.values()}) > 1  # some trained more often than others
    for task in trainings(tmp_path / "run").values():
        for player, result in task["players"].items():
            assert {opponent for opponent, *_ in result["matches"]} <= watched.named[player]
    assert [iteration for iteration, _ in watched.asked] == sorted(iteration for iteration, _ in watched.asked)
    assert len(watched.asked) == 4 * groups


def test_players_do_not_wait_for_a_slow_one(tmp_path):
    """With responses of 1 to 8 times the length on 8 devices, utilization is at least 90 %; with a barrier, 56 %."""
    found = {}
    for asynchronous in (False, True):
        many = EightPlayers()
        names = [player.name for player in many.players(RPS)]
        devices = SimulatedDevices(8, lambda key, names=names: _length(key, names))
        path = tmp_path / str(asynchronous)
        iterations = 16 if asynchronous else 2
        running = league(path, many, iterations=iterations, executor=devices, asynchronous=asynchronous)
        running.run()
        running.store.close()
        found[asynchronous] = devices.utilization
        if asynchronous:
            numbers = check_counts(path, iterations, 8)
            assert len(numbers["main_0"]) > 6 * len(numbers["main_7"])
    assert found[False] <= 0.6
    assert found[True] >= 0.9


class EightPlayers(LeagueBuilder):
    """Eight players against each other, without frozen copies."""

    def players(self, game):
        return players_per_role(game, "main", 8)

    def matches(self, roster, player):
        return uniform_matches([name for name in roster.learning() if name != player.name])

    def build_league(self, result):
        return []


def _length(key: str, names: list[str]) -> float:
    """Return 1 to 8 for trainings by player, and little for payoff cells."""
    return 1.0 + names.index(key.partition("/train/")[2]) if "/train/" in key else 0.01


@pytest.mark.parametrize("points", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_league_resumes_with_exact_counts(points, tmp_path):
    command = [sys.executable, str(SCRIPT), "async-alphastar", str(tmp_path), str(points)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) >= 0.75 * points, done.stdout
    for point in range(points):
        check_counts(tmp_path / str(point), 3, 4)


def test_opponents_have_their_newest_weights(tmp_path):
    """A player's opponents are those of the last training of each, not of the start of an iteration."""
    running = league(
        tmp_path / "run", EightPlayers(), iterations=2, executor=(shuffled := Shuffled()), asynchronous=True
    )
    seen, task_of = [], running._training_task

    def watching(number, group, pools, draw_margin):
        members = running.state.members("player")
        published = {name: running.state.live[name] for name in members if name in running.state.live}
        seen.append(all(pools["player"][members.index(name)] is policy for name, policy in published.items()))
        return task_of(number, group, pools, draw_margin)

    running._training_task = watching
    running.run()
    assert len(seen) == 16
    assert all(seen)
    assert shuffled.pending == 0
    running.store.close()


class Newcomers(LeagueBuilder):
    """A champion, and a newcomer per iteration that leaves after its first training."""

    def players(self, game):
        return players_per_role(game, "champion", 2)

    def matches(self, roster, player):
        return [Match("champion_0" if player.name != "champion_0" else "champion_1", 1.0)]

    def build_league(self, result):
        changes = [Enter(Player(f"newcomer_{result.iteration}", "player", "newcomer"))]
        for name in result.roster.learning("player", "newcomer"):
            changes += [Freeze(name), Retire(name)]
        return changes


def test_players_enter_at_the_end_of_an_iteration_and_leave_after_their_training(tmp_path):
    running, rows = run(tmp_path / "run", Newcomers(), Shuffled(seed=2), iterations=4)
    entered = [[change for change in row["changes"] if change.startswith("enter")] for row in rows]
    assert entered == [[], *[[f"enter newcomer_{number}"] for number in range(1, 5)]]
    trained = Counter(name.partition("/train/")[2] for name in trainings(tmp_path / "run"))
    newcomers = {name: count for name, count in trained.items() if name.startswith("newcomer")}
    assert set(newcomers) <= {"newcomer_1", "newcomer_2", "newcomer_3"}
    assert newcomers
    assert set(newcomers.values()) == {1}
    assert running.state.roster.retired == set(newcomers)
    assert set(running.state.roster.frozen("player", "newcomer")) == {f"{name}:1" for name in newcomers}
    running.store.close()


class Restarting(LeagueBuilder):
    """Two players, of which the second restarts after each of its trainings."""

    def players(self, game):
        return players_per_role(game, "main", 2)

    def matches(self, roster, player):
        return [Match(f"main_{1 - int(player.name[-1])}", 1.0)]

    def build_league(self, result):
        return [Reset("main_1")] if "main_1" in result.trained else []


def test_win_rates_have_no_games_against_weights_before_a_restart(tmp_path):
    order = iter(["1/train/main_1", "1/train/main_0", "2/train/main_0"])
    running = league(
        tmp_path / "run", Restarting(), iterations=2, executor=Ordered(order), asynchronous=True, num_envs=2
    )
    running.begin()
    seen, report = [], running._report

    def watching(steps, results):
        seen.append(running.state.roster.win_rates.games.get(("main_0", "main_1"), 0.0))
        report(steps, results)

    running._report = watching
    running.run()
    assert seen[0] == 0  # the player's own games went with its restart
    assert seen[1] == 0  # games against the weights before the restart
    assert seen[2] > 0
    running.store.close()


class Ordered(Shuffled):
    """Finish tasks in a given order, and then in that of submission."""

    def __init__(self, order):
        super().__init__()
        self.expected = order

    def next(self, within=None):
        if within is not None:
            return None
        wanted = next(self.expected, None)
        keys = [key for key, _ in self.waiting]
        key, what = self.waiting.pop(keys.index(wanted) if wanted in keys else 0)
        return key, unpacked(pickle.loads(self.work(what)), "cpu")


def test_finished_league_is_extended(tmp_path):
    running, _ = run(tmp_path / "run", iterations=2)
    running.store.close()
    running, rows = run(tmp_path / "run", iterations=3)
    running.store.close()
    assert len(rows) == 4
    assert len(trainings(tmp_path / "run")) == 3 * 4


def test_class_must_fit_the_configuration(tmp_path):
    for kind, asynchronous in ((League, True), (AsyncLeague, False)):
        config = LeagueConfig(asynchronous=asynchronous)
        with open_run(tmp_path / str(asynchronous), RPS, "league", config) as store:
            right = "AsyncLeague" if asynchronous else "League"
            with pytest.raises(ConfigError, match=rf"expected the class {right}, got {kind.__name__}; use {right}\("):
                kind(store, config, builder("pbt"))


class NoPlayersLeft(EightPlayers):
    """All players retire."""

    def build_league(self, result):
        return [Retire(name) for name in result.roster.learning()]


def test_league_without_learning_players_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a learning player at any time, got none"):
        run(tmp_path / "run", NoPlayersLeft(), iterations=3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"iteration": "1"}, "iteration: expected"),
        ({"tasks": ["9/train/main_0"]}, "expected a completed task, got '9/train/main_0'"),
    ],
)
def test_damaged_schedule_is_refused(data, message, tmp_path):
    running, _ = run(tmp_path / "run", iterations=1)
    schedule = running.store.get("asynchronous")
    running.store.close()
    with sqlite3.connect(tmp_path / "run" / "league.db") as db:
        db.execute("UPDATE kv SET value = ? WHERE key = 'asynchronous'", (json.dumps(schedule | data),))
    with pytest.raises(CheckpointError, match=message):
        league(tmp_path / "run", iterations=2, asynchronous=True)


def test_one_worker_gives_equal_results_twice(tmp_path):
    torch.set_num_threads(1)
    for name in ("one", "two"):
        running, _ = run(tmp_path / name, iterations=2)
        running.store.close()
    assert records(tmp_path / "one") == records(tmp_path / "two")
