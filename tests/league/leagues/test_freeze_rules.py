"""Rules of league builders that look at the hardest opponent: one lost opponent decides, however many are beaten.

Each rule is tested with two opponents on different sides of its threshold, so that the minimum and the maximum of the
win rates lead to different results, in both orders; and with a win rate exactly at the threshold.
"""

from itertools import permutations

import pytest
from builder_rosters import league, result, shares

from gpu_envs.errors import ConfigError
from league.game import Game
from league.leagues.alphastar import AlphaStarConfig, AlphaStarLeagueBuilder, FreezeRules, alphastar_preset
from league.leagues.population_based import PopulationBasedBuilder, PopulationBasedConfig
from league.leagues.transitions import Copy, Freeze

SIDES = Game.of("KuhnPoker-v0")
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
