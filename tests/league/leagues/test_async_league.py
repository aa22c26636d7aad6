"""Asynchronous leagues: no player waits for another, and every order of completion keeps the rules of the league."""

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from async_leagues import Players, check_counts, run, trainings
from shuffled import Shuffled
from simulated_devices import SimulatedDevices
from small_league import RPS, builder, equal, league, of_policy, records, weights

from gpu_envs.errors import CheckpointError, ConfigError
from league.game import Game
from league.leagues.async_league import AsyncLeague
from league.leagues.builder import LeagueBuilder, players_per_role
from league.leagues.league import League, LeagueConfig
from league.leagues.league_state import policy_weights
from league.leagues.player import Enter, Freeze, Match, Player, Retire
from league.storage.open_run import open_run
from trainers.base.state import select_prefix

SCRIPT = Path(__file__).parents[1] / "small_league.py"
KUHN = Game.of("KuhnPoker-v0")
TAG = Game.of("SimpleTag-v0", {"max_cycles": 7})
THREE = Game.of("KuhnPoker-v0", {"num_players": 3})
FREE_FOR_ALL = Game.of("KuhnPoker-v0", {"num_players": 3}, shared=True)
HUNT = Game.of(
    "SimpleTag-v0",
    {"max_cycles": 2},
    roles={"hunter": (("adversary_0",), ("adversary_1", "adversary_2")), "prey": ("agent",)},
)
TEAMS = Game.of("SimpleWorldComm-v0", {"max_cycles": 5})


class Watched(LeagueBuilder):
    """A builder that records the opponents that it names for each training of a player, and its results."""

    def __init__(self, inner):
        self.inner, self.named, self.decisions = inner, {}, []
        self.config = inner.config

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def players(self, game):
        return self.inner.players(game)

    def frozen_at_start(self, player):
        return self.inner.frozen_at_start(player)

    def training_groups(self, roster):
        return self.inner.training_groups(roster)

    def matches(self, roster, player, role):
        matches = self.inner.matches(roster, player, role)
        trainings = self.named.setdefault(player.name, [])
        if role == roster.facing(player)[0]:
            trainings.append(set())
        trainings[-1].update(match.opponent for match in matches if match.probability)
        return matches

    def build_league(self, result):
        self.decisions.append((result.iteration, tuple(result.trained)))
        return self.inner.build_league(result)


@pytest.mark.variations
@pytest.mark.parametrize(
    ("game", "rules"),
    [
        (RPS, "alphastar"),
        pytest.param(KUHN, "alphastar", marks=pytest.mark.slow),
        pytest.param(TAG, "pbt", marks=pytest.mark.slow),
        (KUHN, "uniform"),
        pytest.param(THREE, "alphastar", marks=pytest.mark.slow),
        (FREE_FOR_ALL, "uniform"),
        (HUNT, "pfsp"),
        pytest.param(TEAMS, "latest", marks=pytest.mark.slow),
    ],
)
def test_order_of_completion_keeps_counts_and_pairings(game, rules, tmp_path):
    watched = Watched(builder(rules))
    running, _ = run(tmp_path / "run", watched, Shuffled(workers=4, seed=1), game=game, iterations=4)
    groups = len(watched.training_groups(running.state.roster))
    running.store.close()
    numbers = check_counts(tmp_path / "run", 4, groups)
    if groups > 1:
        assert len({len(sequence) for sequence in numbers.values()}) > 1  # some trained more often than others
    counts = Counter()
    for task in trainings(tmp_path / "run").values():  # the trainings of a player in their order
        for player, result in task["players"].items():
            counts[player] += 1
            earlier = watched.named[player][: counts[player]]  # episodes may have begun in an earlier training
            assert {opponent for opponent, *_ in result["matches"]} <= set().union(*earlier)
            if game is RPS:  # episodes of one step
                assert {opponent for opponent, *_ in result["matches"]} <= earlier[-1]
    assert [iteration for iteration, _ in watched.decisions] == sorted(iteration for iteration, _ in watched.decisions)
    assert len(watched.decisions) == 4 * groups


@pytest.mark.slow
def test_players_do_not_wait_for_a_slow_one(tmp_path):
    """With responses of 1 to 8 times the length on 8 devices, utilization is at least 90 %; with a barrier, 56 %."""
    utilization = {}
    for asynchronous in (False, True):
        many = Players(8)
        names = [player.name for player in many.players(RPS)]
        devices = SimulatedDevices(8, lambda key, names=names: _length(key, names))
        path = tmp_path / str(asynchronous)
        iterations = 16 if asynchronous else 2
        running = league(path, many, iterations=iterations, executor=devices, asynchronous=asynchronous)
        running.run()
        running.store.close()
        utilization[asynchronous] = devices.utilization
        if asynchronous:
            numbers = check_counts(path, iterations, 8)
            assert len(numbers["main_0"]) > 6 * len(numbers["main_7"])
    assert utilization[False] <= 0.6
    assert utilization[True] >= 0.9


def _length(key: str, names: list[str]) -> float:
    """Return 1 to 8 for trainings by player, and little for payoff cells."""
    return 1.0 + names.index(key.partition("/train/")[2]) if "/train/" in key else 0.01


@pytest.mark.slow
def test_killed_league_resumes_with_exact_counts(tmp_path):
    points = 20
    command = [sys.executable, str(SCRIPT), "async-alphastar", str(tmp_path), str(points)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) >= points, done.stdout
    for point in range(points):
        check_counts(tmp_path / str(point), 3, 4)


def test_opponents_have_their_newest_weights(tmp_path):
    """A player meets its opponents as their last training left them, not as they were when the iteration began."""
    running = league(tmp_path / "run", Players(), iterations=2, executor=Shuffled(), asynchronous=True)
    fresh, task_of = [], running._training_task

    def watching(number, group, pools, draw_margin):
        members = running.state.members("player")
        for name in running.state.roster.learning():
            trained = running.store.state(f"learner.{name}")
            if trained is not None:
                expected = of_policy(
                    policy_weights(select_prefix(trained, "learner.player."), running.state.live[name])
                )
                fresh.append(equal(weights(pools["player"][members.index(name)]), expected))
        return task_of(number, group, pools, draw_margin)

    running._training_task = watching
    running.run()
    assert len(fresh) > 8
    assert all(fresh)
    running.store.close()


class Newcomers(LeagueBuilder):
    """Two champions, and a newcomer per iteration that leaves after its first training."""

    def players(self, game):
        return players_per_role(game, "champion", 2)

    def matches(self, roster, player, role):
        return [Match("champion_0" if player.name != "champion_0" else "champion_1", 1.0)]

    def build_league(self, result):
        changes = [Enter(Player(f"newcomer_{result.iteration}", "player", "newcomer"))]
        for name in result.roster.learning("player", "newcomer"):
            changes += [Freeze(name), Retire(name)]
        return changes


def test_players_enter_once_and_leave_after_their_training(tmp_path):
    running, rows = run(tmp_path / "run", Newcomers(), Shuffled(seed=2), iterations=3)
    entered = [[change for change in row["changes"] if change.startswith("enter")] for row in rows]
    assert entered == [[], *[[f"enter newcomer_{number}"] for number in range(1, 4)]]
    trained = Counter(name.partition("/train/")[2] for name in trainings(tmp_path / "run"))
    newcomers = {name: count for name, count in trained.items() if name.startswith("newcomer")}
    assert set(newcomers) <= {f"newcomer_{number}" for number in range(1, 4)}
    assert newcomers
    assert set(newcomers.values()) == {1}
    assert running.state.roster.retired == set(newcomers)
    assert set(running.state.roster.frozen("player", "newcomer")) == {f"{name}:1" for name in newcomers}
    running.store.close()


def test_finished_league_is_extended(tmp_path):
    running, _ = run(tmp_path / "run", iterations=1)
    running.store.close()
    running, rows = run(tmp_path / "run", iterations=2)
    running.store.close()
    assert len(rows) == 3
    assert len(trainings(tmp_path / "run")) == 2 * 4


def test_class_must_fit_the_configuration(tmp_path):
    for kind, asynchronous in ((League, True), (AsyncLeague, False)):
        config = LeagueConfig(asynchronous=asynchronous)
        with open_run(tmp_path / str(asynchronous), RPS, "league", config) as store:
            right = "AsyncLeague" if asynchronous else "League"
            with pytest.raises(ConfigError, match=rf"expected the class {right}, got {kind.__name__}; use {right}\("):
                kind(store, config, builder("pbt"))


class NoPlayersLeft(Players):
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
        running, _ = run(tmp_path / name, Players(2), iterations=2)
        running.store.close()
    assert records(tmp_path / "one") == records(tmp_path / "two")
