"""Lineups of players in games with more than two seats."""

import itertools

import pytest

from league.game import Game
from league.leagues import training_group
from league.leagues.player import Match
from league.leagues.training_group import shared_matchups
from league.rollout.matchup_distribution import LEARNER

THREE = Game.of("KuhnPoker-v0", {"num_players": 3})
SHARED = Game.of("KuhnPoker-v0", {"num_players": 3}, shared=True)
HUNT = Game.of("SimpleTag-v0", roles={"hunter": (("adversary_0",), ("adversary_1", "adversary_2")), "prey": ("agent",)})


def drawn(game, group, matches, members, **more):
    draw = shared_matchups(game, group, matches, members, **more)
    rows = zip(draw.matchups.tolist(), draw.learns.tolist(), draw.probability.tolist(), strict=True)
    return {(*row, *learns): share for row, learns, share in rows}


def test_opponents_of_all_roles_are_sampled_independently():
    members = {"player_0": ["random", "a"], "player_1": ["random", "b", "b:1"], "player_2": ["random", "c", "c:1"]}
    matches = {
        "player_1": [Match("b", 0.25), Match("b:1", 0.75)],
        "player_2": [Match("random", 0.5), Match("c:1", 0.5)],
    }
    lineups = drawn(THREE, {"player_0": "a"}, {"a": matches}, members)
    shares = {1: 0.25, 2: 0.75}, {0: 0.5, 2: 0.5}
    learns = True, False, False
    expected = {(LEARNER, b, c, *learns): shares[0][b] * shares[1][c] for b, c in itertools.product(*shares)}
    assert lineups == pytest.approx(expected)


def test_player_takes_all_seats_of_its_role_and_learns_in_each_seat_that_it_plays():
    members = {"player": ["random", "a", "a:1"]}
    shares = drawn(SHARED, {"player": "a"}, {"a": {"player": [Match("a", 0.5), Match("a:1", 0.5)]}}, members)
    expected = {(LEARNER,) * 3 + (True,) * 3: 0.25}
    for seats in itertools.product([LEARNER, 2], repeat=3):
        learns = tuple(policy == LEARNER for policy in seats)
        if 0 < sum(learns) < 3:  # one of three seats is the player's in any case
            expected[*seats, *learns] = 0.25 * sum(learns) / 3
    assert shares == pytest.approx(expected)


def test_seats_of_one_role_and_of_another_have_opponents_of_their_roles():
    members = {"hunter": ["random", "h", "h:1"], "prey": ["random", "p", "p:1"]}
    matches = {"h": {"hunter": [Match("h:1", 1.0)], "prey": [Match("p:1", 1.0)]}, "p": {"hunter": [Match("h:1", 1.0)]}}
    shares = drawn(HUNT, {"hunter": "h", "prey": "p"}, matches, members)
    assert shares == pytest.approx(
        {
            (LEARNER, 2, 2, True, False, False): 0.25,
            (2, LEARNER, 2, False, True, False): 0.25,
            (2, 2, LEARNER, False, False, True): 0.5,
        }
    )


def test_all_players_learn_from_lineups_that_all_want_and_keep_their_shares():
    names = {"player_0": "a", "player_1": "b", "player_2": "c"}
    members = {role: ["random", name, f"{name}:1"] for role, name in names.items()}
    live = {"a": 0.5, "b": 0.8, "c": 1.0}  # share of matches against current opponents
    matches = {
        name: {
            role: [Match(other, live[name])] + [Match(f"{other}:1", 1 - live[name])] * (live[name] < 1)
            for role, other in names.items()
            if other != name
        }
        for name in live
    }
    shares = drawn(THREE, names, matches, members)
    together = {row[3:]: share for row, share in shares.items() if row[:3] == (LEARNER,) * 3}
    # a wants 0.25 of its lineups, b 0.64 and c all: they learn together from the smallest of these shares
    expected = {(True, True, True): 0.25, (False, True, True): 0.39, (False, False, True): 0.36}
    total = 1 / sum(shares[row] for row in shares if row[3:] == (True, True, True)) * 0.25
    assert {learns: share * total for learns, share in together.items()} == pytest.approx(expected)
    for seat in range(3):  # every player has an equal share of the training data
        assert sum(share for row, share in shares.items() if row[3 + seat]) * total == pytest.approx(1.0)


def test_of_many_lineups_a_seeded_sample_keeps_the_shares_of_opponents(monkeypatch):
    monkeypatch.setattr(training_group, "MAX_LINEUPS", 50)
    members = {"player_0": ["a"], "player_1": [f"b:{i}" for i in range(10)], "player_2": [f"c:{i}" for i in range(10)]}
    shares = [0.01 + 0.02 * i for i in range(10)]
    matches = {
        f"player_{seat}": [Match(f"{letter}:{i}", shares[i]) for i in range(10)]
        for seat, letter in ((1, "b"), (2, "c"))
    }
    first, repeated, other = (drawn(THREE, {"player_0": "a"}, {"a": matches}, members, seed=seed) for seed in (1, 1, 2))
    assert first == repeated
    assert first != other
    assert 30 < len(first) <= 50
    for seat, index in itertools.product((1, 2), range(10)):
        share = sum(value for row, value in first.items() if row[seat] == index)
        assert share == pytest.approx(shares[index], abs=1 / 50 + 1e-9)
    pairs = {row[1:3] for row in first}
    assert len({b - c for b, c in pairs}) > 5  # the seats are independent
