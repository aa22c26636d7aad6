"""Rosters with given players and win rates, for tests of league builders."""

import numpy as np
import pytest

from league.game import Game
from league.leagues.builder import LeagueResult, Roster
from league.leagues.matchmaking import WinRates
from league.leagues.player import Player

SHARED = Game.of("RockPaperScissors-v0")


def league(builder, game=SHARED, frozen=(), wins=()):
    roster = Roster(game, WinRates(1.0))
    for player in builder.players(game):
        roster.add(player)
    for name, parent in frozen:
        roster.add(Player(name, roster.players[parent].role, roster.players[parent].kind, parent))
    for home, away, rate in wins:
        roster.win_rates.add(home, away, 100, 100 * rate)
    return roster


def shares(builder, roster, name):
    (role,) = roster.facing(roster.players[name])
    matches = builder.matches(roster, roster.players[name], role)
    assert sum(match.probability for match in matches) == pytest.approx(1.0)
    assert len({match.opponent for match in matches}) == len(matches)
    return {match.opponent: pytest.approx(match.probability) for match in matches if match.probability > 1e-12}


def result(roster, steps, seed=0):
    return LeagueResult(1, roster, steps, steps, {}, np.random.default_rng(seed), roster.learning())
