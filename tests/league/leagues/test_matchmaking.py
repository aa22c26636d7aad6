"""Tests of win rates, prioritized fictitious self-play and the rules of AlphaStar's league."""

from itertools import permutations

import numpy as np
import pytest
from builder_rosters import league, result, shares

from gpu_envs.errors import ConfigError
from league.game import Game
from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder, FreezeRules, alphastar_preset
from league.leagues.builder import LeagueBuilder, NoLeagueBuilder, Roster
from league.leagues.matchmaking import WinRates, pfsp, without_monotonic_suffix
from league.leagues.player import Copy, Freeze, Match, Reset
from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
from league.leagues.self_play import SelfPlayBuilder, SelfPlayConfig

SHARED = Game.of("RockPaperScissors-v0")
SIDES = Game.of("KuhnPoker-v0")


@pytest.mark.parametrize(
    ("weighting", "weights"),
    [
        ("variance", [0.09, 0.25, 0.09]),
        ("linear", [0.9, 0.5, 0.1]),
        ("linear_capped", [0.5, 0.5, 0.1]),
        ("squared", [0.81, 0.25, 0.01]),
    ],
)
def test_pfsp_weights_opponents_by_win_rate(weighting, weights):
    assert pfsp([0.1, 0.5, 0.9], weighting) == pytest.approx(np.array(weights) / np.sum(weights))


def test_pfsp_is_uniform_if_all_weights_are_zero():
    assert pfsp([1.0, 1.0], "squared") == pytest.approx([0.5, 0.5])
    assert pfsp([1.0], "squared").tolist() == [1.0]
    with pytest.raises(ConfigError, match=r"weighting: expected one of variance, .*, got 'hard'"):
        pfsp([0.5], "hard")


@pytest.mark.parametrize(
    ("rates", "expected"),
    [([], 0), ([0.5], 0), ([0.9, 0.8, 0.7], 0), ([0.3, 0.8, 0.7], 2), ([0.3, 0.2, 0.7], 3), ([0.5, 0.5], 0)],
)
def test_monotonic_suffix_of_win_rates_is_removed(rates, expected):
    """Compare with `remove_monotonic_suffix` of the pseudocode."""
    assert without_monotonic_suffix(rates) == expected


def test_win_rates_decay_per_game_and_count_draws_as_half():
    rates = WinRates(decay=0.9)
    assert rates.rate("a", "b") == 0.5
    for score in (1.0, 0.5, 0.0):
        rates.add("a", "b", 1, score)
    games, wins = 1 + 0.9 + 0.81, 0.0 + 0.5 * 0.9 + 1.0 * 0.81
    assert rates.rate("a", "b") == pytest.approx(wins / games)
    assert rates.rate("b", "a") == pytest.approx(1 - wins / games)
    batch = WinRates(decay=0.9)
    batch.add("a", "b", 3, 1.5)
    assert batch.games["a", "b"] == pytest.approx(games)
    assert WinRates.from_json(rates.to_json(), "here").rate("a", "b") == rates.rate("a", "b")
    rates.forget("b")
    assert rates.rate("a", "b") == 0.5


def test_main_agents_have_the_match_shares_of_the_pseudocode():
    builder = AlphaStarLeagueBuilder()
    roster = league(builder)
    assert shares(builder, roster, "main_0") == {"main_0": 1.0}  # self-play only, without frozen players
    frozen = [("main_0:1", "main_0"), ("main_exploiter_0:1", "main_exploiter_0")]
    wins = [("main_0", "main_0:1", 0.8), ("main_0", "main_exploiter_0:1", 0.6)]
    roster = league(builder, frozen=frozen, wins=wins)
    hard = np.array([0.2, 0.4]) ** 2
    first, second = 0.5 * hard / hard.sum()
    assert shares(builder, roster, "main_0") == {"main_0:1": first, "main_exploiter_0:1": second, "main_0": 0.5}
    roster.win_rates.add("main_0", "main_exploiter_0:1", 300, 0)  # 0.15 now: exploited
    hard = np.array([0.2, 0.85]) ** 2
    first, second = 0.5 * hard / hard.sum()
    expected = {"main_0:1": first, "main_exploiter_0:1": second + 0.15, "main_0": 0.35}
    assert shares(builder, roster, "main_0") == expected


def test_main_agents_play_forgotten_versions_for_verification():
    builder = AlphaStarLeagueBuilder()
    versions = [("main_0:1", "main_0"), ("main_0:2", "main_0"), ("main_0:3", "main_0")]
    wins = [("main_0", name, rate) for (name, _), rate in zip(versions, (0.4, 0.9, 0.5), strict=True)]
    roster = league(builder, frozen=versions, wins=wins)
    hard = np.array([0.6, 0.1, 0.5]) ** 2
    frozen, forgotten = 0.5 * hard / hard.sum(), 0.15 * hard[:2] / hard[:2].sum()  # the third is not forgotten
    expected = {"main_0:1": frozen[0] + forgotten[0], "main_0:2": frozen[1] + forgotten[1], "main_0:3": frozen[2]}
    assert shares(builder, roster, "main_0") == {**expected, "main_0": 0.35}


def test_main_agents_play_earlier_versions_of_too_strong_opponents():
    builder = AlphaStarLeagueBuilder(AlphaStarConfig(main=FreezeRules(count=2)))
    wins = [("main_0", "main_1", 0.1), ("main_0", "main_1:1", 0.5), ("main_0", "main_1:2", 0.2)]
    roster = league(builder, frozen=[("main_1:1", "main_1"), ("main_1:2", "main_1")], wins=wins)
    variance, hard = np.array([0.25, 0.16]), np.array([0.25, 0.64])
    versions = 0.5 * hard / hard.sum() + 0.25 * variance / variance.sum()
    assert shares(builder, roster, "main_0") == {"main_1:1": versions[0], "main_1:2": versions[1], "main_0": 0.25}
    nature = AlphaStarLeagueBuilder(alphastar_preset("nature"))
    assert shares(nature, roster, "main_0")["main_1"] == 0.25  # the paper's text has no such rule


def test_exploiters_play_main_agents_and_all_frozen_players():
    builder = AlphaStarLeagueBuilder()
    frozen = [("main_0:1", "main_0"), ("league_exploiter_0:1", "league_exploiter_0")]
    roster = league(builder, frozen=frozen, wins=[("main_exploiter_0", "main_0", 0.11)])
    assert shares(builder, roster, "main_exploiter_0") == {"main_0": 1.0}
    roster.win_rates.add("main_exploiter_0", "main_0", 100, 0)
    assert shares(builder, roster, "main_exploiter_0") == {"main_0:1": 1.0}
    assert shares(AlphaStarLeagueBuilder(alphastar_preset("nature")), roster, "main_exploiter_0") == {
        "main_0:1": 0.5,
        "main_0": 0.5,
    }
    roster.win_rates.add("league_exploiter_0", "main_0:1", 100, 90)
    assert shares(builder, roster, "league_exploiter_0") == {"main_0:1": 0.1 / 0.6, "league_exploiter_0:1": 0.5 / 0.6}


def test_opponents_have_the_other_role():
    builder = AlphaStarLeagueBuilder()
    roster = league(builder, SIDES, frozen=[("p0:1", "main_player_0_0"), ("p1:1", "main_player_1_0")])
    for player in list(roster.players.values()):
        if player.parent is None:
            for name in shares(builder, roster, player.name):
                assert roster.players[name].role != player.role
    assert shares(builder, roster, "main_player_0_0") == {"p1:1": 0.5, "main_player_1_0": 0.5}


def test_players_are_frozen_before_reset_by_the_rules_of_their_kind():
    builder = AlphaStarLeagueBuilder(alphastar_preset(min_steps=10))
    roster = league(builder, frozen=[("main_0:1", "main_0")], wins=[("main_0", "main_0:1", 0.71)])
    steps = dict.fromkeys(roster.learning(), 9)
    assert builder.build_league(result(roster, steps)) == []
    steps = dict.fromkeys(roster.learning(), 10)
    assert builder.build_league(result(roster, steps)) == [Freeze("main_0")]
    roster.win_rates.add("main_exploiter_0", "main_0", 100, 80)
    assert builder.build_league(result(roster, steps)) == [
        Freeze("main_0"),
        Freeze("main_exploiter_0"),
        Reset("main_exploiter_0"),
    ]
    steps = dict.fromkeys(roster.learning(), 20)  # the timeout
    resets = 0
    for seed in range(400):
        changes = builder.build_league(result(roster, steps, seed))
        assert {change.player for change in changes if isinstance(change, Freeze)} == set(roster.learning())
        assert Reset("main_0") not in changes
        assert Reset("main_exploiter_0") in changes
        resets += sum(isinstance(change, Reset) and "league" in change.player for change in changes)
    assert abs(resets / 800 - 0.25) < 4 * (0.25 * 0.75 / 800) ** 0.5


def test_self_play_uses_current_and_past_opponents():
    assert shares(NoLeagueBuilder(), league(NoLeagueBuilder()), "main_0") == {"main_0": 1.0}
    asymmetric = league(NoLeagueBuilder(), SIDES)
    assert shares(NoLeagueBuilder(), asymmetric, "main_player_0_0") == {"main_player_1_0": 1.0}
    past = [("main_0:1", "main_0"), ("main_0:2", "main_0")]
    for opponents, expected in (
        ("latest", {"main_0": 1.0}),
        ("uniform", {"main_0": 0.2, "main_0:1": 0.4, "main_0:2": 0.4}),
        ("pfsp", {"main_0": 0.2, "main_0:1": 0.8 * 0.81 / 0.82, "main_0:2": 0.8 * 0.01 / 0.82}),
    ):
        builder = SelfPlayBuilder(SelfPlayConfig(opponents=opponents, freeze_every=5))
        roster = league(builder, frozen=past, wins=[("main_0", "main_0:1", 0.1), ("main_0", "main_0:2", 0.9)])
        assert shares(builder, roster, "main_0") == expected
        assert builder.build_league(result(roster, {"main_0": 5})) == [Freeze("main_0")]
        assert builder.build_league(result(roster, {"main_0": 4})) == []


def test_weak_players_of_a_population_copy_strong_ones():
    builder = PopulationBasedBuilder(PopulationBasedConfig(size=4, ready_steps=10))
    wins = [("main_3", f"main_{i}", 0.9) for i in range(3)] + [("main_1", f"main_{i}", 0.1) for i in (0, 2)]
    roster = league(builder, wins=wins)
    assert builder.build_league(result(roster, dict.fromkeys(roster.learning(), 9))) == []
    changes = builder.build_league(result(roster, dict.fromkeys(roster.learning(), 10)))
    (copy,) = [change for change in changes if isinstance(change, Copy)]
    assert (copy.player, copy.source) == ("main_1", "main_3")
    assert all(factor in (1.2, 1 / 1.2) for factor in copy.factors.values())
    assert Freeze("main_3") in changes
    assert Match("main_1", 1 / 3) not in builder.matches(
        roster, roster.players["main_1"], "player"
    )  # not against itself


def test_invalid_settings_are_named():
    for make, text in (
        (lambda: FreezeRules(min_steps=10, timeout=5), "timeout: expected at least min_steps = 10, got 5"),
        (lambda: AlphaStarConfig(main=FreezeRules(count=0)), "main.count: expected at least one"),
        (lambda: alphastar_preset("starcraft"), "rules: expected pseudocode or nature, got 'starcraft'"),
        (lambda: PopulationBasedConfig(perturb={"gamma": 1.0}), "perturb\\['gamma'\\]: expected a factor > 1, got 1.0"),
        (lambda: WinRates(0.0), "decay: expected a number in"),
        (
            lambda: Roster(Game.of("SimpleSpread-v0", roles={"all": ("agent",)}), WinRates()),
            "expected two or more seats, got 1",
        ),
    ):
        with pytest.raises(ConfigError, match=text):
            make()


def test_incomplete_builder_names_its_missing_method():
    class Half(LeagueBuilder):
        def players(self, game):
            return []

    with pytest.raises(TypeError, match=r"abstract methods? '?build_league'?, '?matches'?"):
        Half()


# ---------------------------------------------------------------- the hardest opponent

# One lost opponent decides, however many are beaten. Each rule is tested with opponents on different sides of its
# threshold, so that the minimum and the maximum of the win rates lead to different results, in both orders; and with a
# win rate exactly at the threshold.

RULES = FreezeRules(count=2, min_steps=10, timeout=20, win_rate=0.7)
BUILDER = AlphaStarLeagueBuilder(AlphaStarConfig(main=RULES, main_exploiter=RULES, league_exploiter=RULES))


def frozen_copies(roster, steps):
    """Return the players that are frozen after these steps."""
    changes = BUILDER.build_league(result(roster, {**dict.fromkeys(roster.learning(), 0), **steps}))
    return {change.player for change in changes if isinstance(change, Freeze)}


@pytest.mark.parametrize("name", ["main_0", "league_exploiter_0"])
@pytest.mark.parametrize("rates", [*permutations((0.9, 0.71, 0.2)), *permutations((0.9, 0.71, 0.7))])
def test_player_that_does_not_beat_one_of_three_opponents_is_not_frozen(name, rates):
    copies = ["main_0:1", "main_1:1", "league_exploiter_1:1"]
    frozen = [(copy, copy.split(":")[0]) for copy in copies]
    wins = [(name, copy, rate) for copy, rate in zip(copies, rates, strict=True)]
    roster = league(BUILDER, frozen=frozen, wins=wins)
    assert frozen_copies(roster, {name: 19}) == set()
    assert frozen_copies(roster, {name: 20}) == {name}  # the timeout, regardless of win rates


@pytest.mark.parametrize("rates", [*permutations((0.9, 0.8, 0.71))])
def test_player_that_beats_all_opponents_is_frozen_after_its_minimum_of_steps(rates):
    copies = ["main_0:1", "main_1:1", "league_exploiter_1:1"]
    wins = [("main_0", copy, rate) for copy, rate in zip(copies, rates, strict=True)]
    roster = league(BUILDER, frozen=[(copy, copy.split(":")[0]) for copy in copies], wins=wins)
    assert frozen_copies(roster, {"main_0": 9}) == set()
    assert frozen_copies(roster, {"main_0": 10}) == {"main_0"}


@pytest.mark.parametrize(("rates", "ready"), [((0.9, 0.2), False), ((0.2, 0.9), False), ((0.9, 0.71), True)])
def test_main_exploiter_needs_wins_against_every_main_agent_of_the_other_role(rates, ready):
    name = "main_exploiter_player_0_0"
    wins = [(name, f"main_player_1_{index}", rate) for index, rate in enumerate(rates)]
    wins.append((name, "main_exploiter_player_1_0:1", 0.1))  # main exploiters are measured by main agents only
    frozen = [("main_exploiter_player_1_0:1", "main_exploiter_player_1_0")]
    roster = league(BUILDER, SIDES, frozen=frozen, wins=wins)
    assert frozen_copies(roster, {name: 10}) == ({name} if ready else set())
    assert frozen_copies(roster, {name: 20}) == {name}


@pytest.mark.parametrize("rate", [0.7, 0.71])
def test_win_rate_at_the_threshold_does_not_freeze_a_player(rate):
    roster = league(BUILDER, frozen=[("main_0:1", "main_0")], wins=[("main_0", "main_0:1", rate)])
    assert roster.win_rates.rate("main_0", "main_0:1") == rate
    assert frozen_copies(roster, {"main_0": 10}) == ({"main_0"} if rate > 0.7 else set())


def test_player_without_opponents_or_games_is_frozen_at_the_timeout_only():
    roster = league(BUILDER)
    assert frozen_copies(roster, {"main_0": 19}) == set()
    assert frozen_copies(roster, {"main_0": 20}) == {"main_0"}
    unplayed = league(BUILDER, frozen=[("main_0:1", "main_0")])  # unknown win rates are 1/2
    assert frozen_copies(unplayed, {"main_0": 19}) == set()
    easy = FreezeRules(min_steps=10, timeout=20, win_rate=0.0)
    builder = AlphaStarLeagueBuilder(AlphaStarConfig(main=easy))
    assert builder.build_league(result(league(builder), {**dict.fromkeys(league(builder).learning(), 0)})) == []
    changes = builder.build_league(result(league(builder), dict.fromkeys(league(builder).learning(), 19)))
    assert Freeze("main_0") not in changes  # no opponents are not beaten opponents


def exploiters_verified(rates):
    """Return the share of a main agent's matches against frozen main exploiters beyond its share by PFSP."""
    builder = AlphaStarLeagueBuilder(AlphaStarConfig(main_exploiter=FreezeRules(count=2)))
    frozen = [(f"main_exploiter_{index}:1", f"main_exploiter_{index}") for index in range(2)]
    wins = [("main_0", name, rate) for (name, _), rate in zip(frozen, rates, strict=True)]
    matches = shares(builder, league(builder, frozen=frozen, wins=wins), "main_0")
    return round(1 - 0.5 - matches["main_0"].expected, 9)


@pytest.mark.parametrize(
    ("rates", "share"),
    [((0.1, 0.9), 0.15), ((0.9, 0.1), 0.15), ((0.29, 0.9), 0.15), ((0.3, 0.9), 0.0), ((0.9, 0.9), 0.0)],
)
def test_one_exploiter_that_wins_too_often_is_enough_for_verification(rates, share):
    assert exploiters_verified(rates) == share


@pytest.mark.parametrize(
    ("rates", "share"),
    [
        ((0.6, 0.9, 0.5), 0.15),  # the first version is forgotten
        ((0.69, 0.9, 0.95), 0.15),  # of three in an increasing order, too
        ((0.7, 0.9, 0.5), 0.0),  # exactly at the threshold; the third is not older than a version it is weaker against
        ((0.75, 0.9, 0.5), 0.0),
        ((0.9, 0.6, 0.5), 0.0),  # win rates decrease with age: none is forgotten
    ],
)
def test_one_forgotten_version_is_enough_for_verification(rates, share):
    builder = AlphaStarLeagueBuilder()
    versions = [(f"main_0:{index}", "main_0") for index in range(1, 4)]
    wins = [("main_0", name, rate) for (name, _), rate in zip(versions, rates, strict=True)]
    matches = shares(builder, league(builder, frozen=versions, wins=wins), "main_0")
    assert round(1 - 0.5 - matches["main_0"].expected, 9) == share


@pytest.mark.parametrize(("rate", "opponent"), [(0.1, "main_0:1"), (0.11, "main_0")])
def test_main_exploiter_at_its_threshold_plays_earlier_versions(rate, opponent):
    builder = AlphaStarLeagueBuilder(alphastar_preset())
    roster = league(builder, frozen=[("main_0:1", "main_0")], wins=[("main_exploiter_0", "main_0", rate)])
    assert shares(builder, roster, "main_exploiter_0") == {opponent: 1.0}


@pytest.mark.parametrize(("rate", "opponent"), [(0.3, "main_1:1"), (0.31, "main_1")])
def test_main_agent_at_the_threshold_plays_earlier_versions_of_a_too_strong_agent(rate, opponent):
    builder = AlphaStarLeagueBuilder(AlphaStarConfig(main=FreezeRules(count=2)))
    wins = [("main_player_0_0", "main_player_1_0", 0.5), ("main_player_0_0", "main_player_1_1", rate)]
    frozen = [("main_1:1", "main_player_1_1")]
    roster = league(builder, SIDES, frozen=frozen, wins=wins)
    expected = {"main_player_1_0": 0.25}
    more = {"main_1:1": 0.75} if opponent == "main_1:1" else {"main_1:1": 0.5, "main_player_1_1": 0.25}
    assert shares(builder, roster, "main_player_0_0") == expected | more


@pytest.mark.parametrize(("size", "bottom", "copies"), [(3, 1.0, 1), (4, 1.0, 2), (5, 0.25, 2), (4, 0.25, 1)])
def test_at_most_half_of_a_population_copies_others(size, bottom, copies):
    builder = PopulationBasedBuilder(PopulationBasedConfig(size=size, ready_steps=10, bottom=bottom))
    wins = [(f"main_{j}", f"main_{i}", 0.6 + 0.1 * j / size) for j in range(size) for i in range(j)]
    roster = league(builder, wins=wins)
    changes = [
        change
        for change in builder.build_league(result(roster, dict.fromkeys(roster.learning(), 10)))
        if isinstance(change, Copy)
    ]
    assert [change.player for change in changes] == [f"main_{index}" for index in range(copies)]
    assert {change.source for change in changes} <= {f"main_{index}" for index in range(size - copies, size)}


def test_exploiter_is_reset_to_a_main_agent_of_its_role():
    rules = FreezeRules(min_steps=10, timeout=10, reset_probability=1.0, reset_to="main")
    builder = AlphaStarLeagueBuilder(AlphaStarConfig(main_exploiter=rules, league_exploiter=rules))
    roster = league(builder, SIDES)
    changes = builder.build_league(result(roster, dict.fromkeys(roster.learning(), 10)))
    assert [change for change in changes if isinstance(change, Copy)] == [
        Copy(f"{kind}_player_{seat}_0", f"main_player_{seat}_0")
        for kind in ("main_exploiter", "league_exploiter")
        for seat in range(2)
    ]


def test_main_agents_are_not_reset_to_themselves():
    with pytest.raises(ConfigError, match=r"main\.reset_to: expected 'first', got 'main'"):
        AlphaStarConfig(main=FreezeRules(reset_to="main"))
