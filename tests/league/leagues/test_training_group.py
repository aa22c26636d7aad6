"""Groups of players that learn in the same worlds."""

import itertools

import pytest
from small_league import RPS, builder, equal, league, trained, weights

from gpu_envs.errors import ConfigError
from league.analysis.report_data import read_report
from league.game import Game
from league.leagues import builder_validation, training_group
from league.leagues.builder import groups_across_roles
from league.leagues.player import Match, Reset
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig
from league.leagues.training_group import shared_matchups
from league.matchups.matchup_distribution import LEARNER

KUHN = Game.of("KuhnPoker-v0")
ROLES = {"player_0": "a", "player_1": "b"}
MEMBERS = {"player_0": ["random", "a", "a:1"], "player_1": ["random", "b", "b:1", "b:2"]}


def drawn_in(game, group, matches, members, **more):
    """Return the probabilities by matchup and learning seats."""
    draw = shared_matchups(game, group, matches, members, **more)
    rows = zip(draw.matchups.tolist(), draw.learns.tolist(), draw.probability.tolist(), strict=True)
    return {(*row, *learns): share for row, learns, share in rows}


def drawn(matches):
    return drawn_in(KUHN, ROLES, {"a": {"player_1": matches["a"]}, "b": {"player_0": matches["b"]}}, MEMBERS)


def test_both_learn_from_matches_that_both_want_and_every_player_keeps_its_shares():
    shares = drawn({"a": [Match("b", 0.5), Match("b:2", 0.5)], "b": [Match("a", 0.25), Match("a:1", 0.75)]})
    expected = {
        (LEARNER, LEARNER, True, True): 0.25,
        (LEARNER, LEARNER, True, False): 0.25,  # a wants more of these matches than b
        (LEARNER, 3, True, False): 0.5,
        (2, LEARNER, False, True): 0.75,
    }
    assert shares == pytest.approx({row: share / 1.75 for row, share in expected.items()})


def test_players_that_do_not_meet_share_only_the_worlds():
    shares = drawn({"a": [Match("b:1", 1.0)], "b": [Match("random", 1.0)]})
    assert shares == {(LEARNER, 2, True, False): 0.5, (0, LEARNER, False, True): 0.5}


def test_shares_of_a_repeated_opponent_add_up():
    repeated = drawn({"a": [Match("b:1", 0.25), Match("b", 0.5), Match("b:1", 0.25)], "b": [Match("a", 1.0)]})
    once = drawn({"a": [Match("b:1", 0.5), Match("b", 0.5)], "b": [Match("a", 1.0)]})
    assert repeated == pytest.approx(once)
    assert repeated[LEARNER, 2, True, False] == pytest.approx(1 / 3)


def test_groups_across_roles_join_players_of_a_kind(tmp_path):
    running = league(tmp_path / "kuhn", game=KUHN)
    running.begin()
    names = running.state.roster.learning()
    groups = groups_across_roles(running.state.roster, "main")
    assert groups[0] == ("main_player_0_0", "main_player_1_0")
    assert sorted(name for group in groups for name in group) == sorted(names)
    assert all(len(group) == 1 for group in groups[1:])
    running.store.close()
    running = league(tmp_path / "rps", game=RPS)
    running.begin()
    assert all(
        len(group) == 1 for group in groups_across_roles(running.state.roster, "main")
    )  # one role: a player has both seats
    running.store.close()


def test_pair_learns_from_one_set_of_worlds(tmp_path):
    results = {}
    for shared in (True, False):
        running = league(tmp_path / str(shared), builder("latest", shared), iterations=2, game=KUHN, num_envs=16)
        running.begin()
        previous = {name: weights(policy) for name, policy in running.state.live.items()}
        running.run()
        assert all(not equal(weights(policy), previous[name]) for name, policy in running.state.live.items())
        results[shared] = running.steps, trained(tmp_path / str(shared))
        running.store.close()
    assert results[False][0] == 2 * results[True][0]
    first, other = (results[True][1][f"2/train/main_player_{seat}_0"] for seat in (0, 1))
    assert first["episodes"] == other["episodes"] > 0
    assert first["return"] == pytest.approx(-other["return"])  # both learned from all episodes of a zero-sum game
    assert first["matches"][0][0] == "main_player_1_0"


def test_matches_against_the_random_policy(tmp_path):
    config = SelfPlayConfig("uniform", latest=0.5, random=0.3, freeze_every=1)
    running = league(tmp_path, SelfPlayBuilder(config), iterations=2, game=KUHN, num_envs=64, steps=2048)
    rows = running.run()
    started = {opponent: count for opponent, _, _, count in trained(tmp_path)["2/train/main_player_0_0"]["matches"]}
    assert started["random"] / sum(started.values()) == pytest.approx(0.3, abs=0.05)
    assert rows[2]["matches_by_kind"]["main - random"] > 0
    counted = read_report(running.store).matches["by_kind"]["main - random"]
    assert counted == sum(row["matches_by_kind"]["main - random"] for row in rows[1:])
    running.store.close()
    with pytest.raises(ConfigError, match=r"latest \+ random: expected at most 1, got 1\.2"):
        SelfPlayConfig("uniform", latest=0.7, random=0.5)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([("main_player_0_0",)], "expected every learning player once"),
        ([("main_player_0_0", "main_player_1_0"), ("main_player_0_0",)], "expected every learning player once"),
        ([("main_player_0_0", "main_player_0_1"), ("main_player_1_0",), ("main_player_1_1",)], "different roles"),
    ],
)
def test_invalid_groups_are_refused(groups, message, tmp_path):
    running = league(tmp_path, builder("latest"), game=KUHN)
    running.begin()
    if "main_player_0_1" in groups[0]:
        running.store.close()
        running = league(tmp_path / "pbt", builder("pbt"), game=KUHN)
        running.begin()
        groups = [*groups, ("main_player_0_2",), ("main_player_1_2",)]
    running.builder.training_groups = lambda roster: groups
    with pytest.raises(ConfigError, match=message):
        builder_validation.training_groups(running.builder, running.state)
    running.store.close()


def test_pair_trains_in_new_worlds_from_its_weights_after_one_of_it_is_reset(tmp_path):
    running = league(tmp_path, builder("latest"), iterations=2, game=KUHN)
    running.begin()
    running.iterate(1)
    state, key = running.state, "learner.main_player_0_0+main_player_1_0"
    assert key in running.store.state_names()
    live, first = (running.store.state(name, "cpu") for name in ("live.main_player_0_0", "first.main_player_1_0"))
    with running.store.step("reset"):
        state.apply(1, [Reset("main_player_1_0")])
    assert key not in running.store.state_names()
    weights = running._start_weights(("main_player_0_0", "main_player_1_0"))
    assert equal(weights["player_0"], live)
    assert equal(weights["player_1"], first)
    running.iterate(2)
    assert key in running.store.state_names()
    running.store.close()


# ---------------------------------------------------------------- more than two seats

THREE = Game.of("KuhnPoker-v0", {"num_players": 3})
SHARED = Game.of("KuhnPoker-v0", {"num_players": 3}, shared=True)
HUNT = Game.of("SimpleTag-v0", roles={"hunter": (("adversary_0",), ("adversary_1", "adversary_2")), "prey": ("agent",)})


def test_opponents_of_all_roles_are_sampled_independently():
    members = {"player_0": ["random", "a"], "player_1": ["random", "b", "b:1"], "player_2": ["random", "c", "c:1"]}
    matches = {
        "player_1": [Match("b", 0.25), Match("b:1", 0.75)],
        "player_2": [Match("random", 0.5), Match("c:1", 0.5)],
    }
    lineups = drawn_in(THREE, {"player_0": "a"}, {"a": matches}, members)
    shares = {1: 0.25, 2: 0.75}, {0: 0.5, 2: 0.5}
    learns = True, False, False
    expected = {(LEARNER, b, c, *learns): shares[0][b] * shares[1][c] for b, c in itertools.product(*shares)}
    assert lineups == pytest.approx(expected)


def test_player_takes_all_seats_of_its_role_and_learns_in_each_seat_that_it_plays():
    members = {"player": ["random", "a", "a:1"]}
    shares = drawn_in(SHARED, {"player": "a"}, {"a": {"player": [Match("a", 0.5), Match("a:1", 0.5)]}}, members)
    expected = {(LEARNER,) * 3 + (True,) * 3: 0.25}
    for seats in itertools.product([LEARNER, 2], repeat=3):
        learns = tuple(policy == LEARNER for policy in seats)
        if 0 < sum(learns) < 3:  # one of three seats is the player's in any case
            expected[*seats, *learns] = 0.25 * sum(learns) / 3
    assert shares == pytest.approx(expected)


def test_seats_of_one_role_and_of_another_have_opponents_of_their_roles():
    members = {"hunter": ["random", "h", "h:1"], "prey": ["random", "p", "p:1"]}
    matches = {"h": {"hunter": [Match("h:1", 1.0)], "prey": [Match("p:1", 1.0)]}, "p": {"hunter": [Match("h:1", 1.0)]}}
    shares = drawn_in(HUNT, {"hunter": "h", "prey": "p"}, matches, members)
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
    shares = drawn_in(THREE, names, matches, members)
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
    first, repeated, other = (
        drawn_in(THREE, {"player_0": "a"}, {"a": matches}, members, seed=seed) for seed in (1, 1, 2)
    )
    assert first == repeated
    assert first != other
    assert 30 < len(first) <= 50
    for seat, index in itertools.product((1, 2), range(10)):
        share = sum(value for row, value in first.items() if row[seat] == index)
        assert share == pytest.approx(shares[index], abs=1 / 50 + 1e-9)
    pairs = {row[1:3] for row in first}
    assert len({b - c for b, c in pairs}) > 5  # the seats are independent
