"""Leagues of games with more than two seats."""

from itertools import product

import numpy as np
import pytest
import torch
from small_league import equal, league, records, trained, training

from gpu_envs.errors import ConfigError
from league.analysis.report_data import read_report
from league.analysis.report_tables import format_report
from league.game import Game
from league.leagues import builder_validation
from league.leagues.alphastar import AlphaStarLeagueBuilder, alphastar_preset
from league.leagues.builder import LeagueResult, NoLeagueBuilder, Roster
from league.leagues.iteration_summary import matches_by_opponent
from league.leagues.league import League, LeagueConfig
from league.leagues.matchmaking import WinRates
from league.leagues.player import Player
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.matchups.episode_tally import EpisodeTally
from league.matchups.matchup_distribution import LEARNER
from league.matchups.payoff_table import kept_policies, num_cells
from league.storage.open_run import open_run

THREE = Game.of("KuhnPoker-v0", {"num_players": 3})
SHARED = Game.of("KuhnPoker-v0", {"num_players": 3}, shared=True)
HUNT = Game.of(
    "SimpleTag-v0",
    {"max_cycles": 2},
    roles={"hunter": (("adversary_0",), ("adversary_1", "adversary_2")), "prey": ("agent",)},
)
GAMES = pytest.mark.parametrize("game", [THREE, SHARED, HUNT], ids=["a role per seat", "free for all", "two and one"])


def test_facing_roles_are_those_of_all_other_seats():
    for game, expected in (
        (THREE, {"player_0": ("player_1", "player_2"), "player_1": ("player_0", "player_2")}),
        (SHARED, {"player": ("player",)}),
        (HUNT, {"hunter": ("hunter", "prey"), "prey": ("hunter",)}),
    ):
        roster = Roster(game, WinRates())
        for role, facing in expected.items():
            assert roster.facing(Player("a", role, "main")) == facing


def test_partners_do_not_keep_a_player_from_being_ready():
    """Partners with a shared reward always have a win rate of 1/2."""
    builder = AlphaStarLeagueBuilder(alphastar_preset(min_steps=100))
    roster = Roster(HUNT, WinRates(1.0))
    for player in builder.players(HUNT):
        roster.add(player)
    for role in HUNT.roles:
        roster.add(Player(f"main_{role}_0:1", role, "main", f"main_{role}_0"))
    steps = dict.fromkeys(roster.learning(), 150)
    for games in (0, 100):
        roster.win_rates.add("main_hunter_0", "main_prey_0:1", games, games)
        result = LeagueResult(1, roster, steps, steps, {}, np.random.default_rng(0), roster.learning())
        assert builder.ready(result, roster.players["main_hunter_0"]) == (games > 0)


def test_draw_margin_of_three_seats_is_refused(tmp_path):
    config, message = LeagueConfig(draw_margin=0.5), "draw_margin = 0.5: expected None in a game of more than two seats"
    with (
        open_run(tmp_path / "run", THREE, "independent", config) as store,
        pytest.raises(ConfigError, match=message),
    ):
        League(store, config, NoLeagueBuilder())


@pytest.mark.slow
@GAMES
@pytest.mark.parametrize("rules", ["pfsp", "alphastar", "pbt", "latest"])
def test_league_completes_and_its_report_names_what_is_left_out(game, rules, tmp_path):
    running = league(tmp_path, rules, game=game, iterations=2, num_envs=16)
    rows = running.run()
    assert bool(running.evaluate().mean.isfinite().all())
    for name, met in rows[2]["matches"].items():
        facing = running.state.roster.facing(running.state.roster.players[name])
        roles = {running.state.roster.players[opponent].role for opponent in met}
        assert roles == set(facing) or not rows[2]["episodes"][name]
        assert sum(met.values()) >= 2 * rows[2]["episodes"][name]  # an episode has two opponents
    report = read_report(running.store)
    assert report.finished == 2
    assert report.rated == {role: len(entries) for role, entries in report.policies.items()}
    assert report.left_out["Elo"] == "expected two seats, got 3; see alpha-rank"
    assert sum(report.matches["by_role"].values()) == sum(sum(row.get("episodes", {}).values()) for row in rows)
    text = format_report(report, width=80)
    assert "Training episodes by kind, once per opponent" in text
    assert max(map(len, text.splitlines()[1:])) <= 80
    running.store.close()


@pytest.mark.parametrize("rules", [pytest.param("alphastar", marks=pytest.mark.slow), "pfsp"])
def test_resumed_league_of_three_seats_is_equal(rules, tmp_path):
    uninterrupted = league(tmp_path / "whole", rules, game=THREE, iterations=2)
    uninterrupted.run()
    uninterrupted.store.close()
    for iterations in (1, 2):
        part = league(tmp_path / "parts", rules, game=THREE, iterations=2)
        for number in range(part.finished + 1, iterations + 1):
            part.begin() if number == 0 else part.iterate(number)
        if iterations == 2:
            part.run()
        part.store.close()
    assert records(tmp_path / "whole") == records(tmp_path / "parts")


def test_players_of_three_roles_learn_in_one_set_of_worlds(tmp_path):
    running = league(tmp_path, "latest", game=THREE, iterations=1, num_envs=16)
    running.begin()
    names = [f"main_player_{seat}_0" for seat in range(3)]
    assert builder_validation.training_groups(running.builder, running.state) == [tuple(names)]
    previous = {name: running.store.state(f"live.{name}") for name in names}
    running.iterate(1)
    results = trained(tmp_path)
    returns = [results[f"1/train/{name}"]["return"] for name in names]
    assert sum(returns) == pytest.approx(0.0, abs=1e-9)  # all learned from all episodes of a zero-sum game
    for name in names:
        assert not equal(running.store.state(f"live.{name}"), previous[name])
        opponents = {other for other in names if other != name}
        assert {opponent for opponent, *_ in results[f"1/train/{name}"]["matches"]} == opponents
    running.store.close()


def test_win_rates_compare_the_player_with_each_opponent(tmp_path):
    """A third seat that wins or loses against both does not change the score between two players."""
    running = league(tmp_path, SelfPlayBuilder(SelfPlayConfig("uniform")), game=SHARED, iterations=1)
    running.begin()
    (name,) = running.state.roster.learning()
    members = running.state.members("player")
    past = members.index(f"{name}:1")
    rows = [[LEARNER, past, 0], [LEARNER, LEARNER, past], [past, LEARNER, past]]
    learns = torch.tensor(rows) == LEARNER
    count = torch.tensor([10, 4, 2])
    pairs = torch.tensor([[7.0, 2.0, 1.0], [3.0, 1.0, 4.0], [0.5, 1.0, 2.0]])  # of seats (0, 1), (0, 2), (1, 2)
    zeros = torch.zeros(3, 3, dtype=torch.float64)
    tally = EpisodeTally(torch.tensor(rows), learns, count + 1, count, zeros, zeros, zeros, pairs.double())
    matches = matches_by_opponent(running.state, running.state.roster.players[name], (name,), tally)
    assert {opponent: entry for opponent, *entry in matches} == {
        f"{name}:1": [10 + 4 + 4 + 2 + 2, 7.0 + 1.0 + 4.0 + (2 - 0.5) + 2.0, 11 + 5 + 5 + 3 + 3],
        "random": [10, 2.0, 11],
        name: [4, 3.0, 5],
    }
    running.store.close()


def test_pair_sums_of_a_training_are_those_of_its_episodes(tmp_path, monkeypatch):
    running = league(tmp_path, NoLeagueBuilder(), game=THREE, iterations=1, num_envs=16)
    running.begin()
    returns = []
    group = ("main_player_0_0",)
    running._submit(1, group, running.state.pools(), 0.0)
    running.coordinator.wait("learn")
    opponents = training(running, group[0]).opponents
    original = opponents._sums_of

    def watched(ended, earned):
        returns.append(earned[ended.squeeze(-1)].reshape(-1, 3))
        return original(ended, earned)

    monkeypatch.setattr(opponents, "_sums_of", watched)
    opponents.read()
    for _ in range(5):
        training(running, group[0]).iterate()
    tally = training(running, group[0]).tally()
    earned = torch.cat(returns)
    assert len(earned) > 20
    for seat, other in product(range(3), repeat=2):
        if seat != other:
            score = (earned[:, seat] > earned[:, other]).double() + 0.5 * (earned[:, seat] == earned[:, other]).double()
            assert float(tally.score_against(seat, other).sum()) == pytest.approx(float(score.sum()))
    running.store.close()


@pytest.mark.slow
def test_limited_payoff_table_keeps_policies_at_equal_distances(tmp_path):
    assert num_cells(THREE, dict.fromkeys(THREE.roles, 5)) == 125
    assert num_cells(SHARED, {"player": 5}) == 35
    assert kept_policies(THREE, dict.fromkeys(THREE.roles, 5), 125) is None
    assert kept_policies(SHARED, {"player": 9}, 36) == {"player": [0, 2, 4, 6, 8]}
    assert kept_policies(Game.of("KuhnPoker-v0"), {"player_0": 99, "player_1": 99}, 10) is None  # two seats: no limit
    running = league(tmp_path, "pfsp", game=THREE, iterations=4, max_cells=30)
    running.run()
    count = running.store.cells().count
    assert len(count) == 27
    assert running.evaluate().shape == (3, 3, 3)
    report = read_report(running.store)
    assert report.left_out["payoffs of other policies"].startswith("max_payoff_cells = 30: the table has 3 of 6")
    assert report.payoffs["kept"] == {role: [0, 2, 5] for role in THREE.roles}
    ranks = [entry["alpharank"] for entry in report.policies["player_0"]]
    assert [index for index, rank in enumerate(ranks) if rank is not None] == [0, 2, 5]
    weights = report.strategy["weights"][0]
    assert len(weights) == 6
    assert weights[1] == weights[3] == weights[4] == 0
    assert sum(weights) == pytest.approx(1.0)
    running.store.close()


@pytest.mark.parametrize(
    ("game", "rules"),
    [
        pytest.param(THREE, "pfsp", marks=pytest.mark.slow, id="a role per seat"),
        pytest.param(SHARED, "pfsp", marks=pytest.mark.slow, id="free for all"),
    ],
)
def test_exploitability_of_three_player_kuhn_poker_falls(game, rules, tmp_path):
    running = league(
        tmp_path,
        rules,
        game=game,
        iterations=4,
        steps=4096,
        episodes=200,
        num_envs=32,
        **{"learner.hidden_sizes": [16]},
    )
    running.run()
    rows = read_report(running.store).iterations
    assert rows[0]["nash_conv"] > 1.9
    assert rows[-1]["nash_conv"] < 0.9
    running.store.close()
