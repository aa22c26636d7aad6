"""What a league asks its builder, and what of the answers is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from gpu_envs.errors import ConfigError
from league.builder import Change, Copy, Enter, LeagueBuilder, LeagueResult, Match, Player, Roster
from league.game import Game
from league.seating import LEARNER, Draw
from league.standing import Standing


def told(builder: LeagueBuilder) -> str:
    """A builder in words, as far as its settings are known."""
    return f"{_name(builder)}({getattr(builder, 'config', '')!r})"


def players(builder: LeagueBuilder, game: Game) -> list[Player]:
    """Who learns at the start; ConfigError where a role has nobody."""
    found = builder.players(game)
    for role in game.roles:
        if all(player.role != role for player in found):
            raise ConfigError(f"{_name(builder)}.players: expected one of every role, got no {role}")
    return found


def draw(builder: LeagueBuilder, standing: Standing, player: Player) -> Draw:
    """Matchups of a learning player in the next iteration: it sits in every seat of its role equally often.

    Raises:
        ConfigError: The builder's matches are none.
    """
    roster, seats = standing.roster, standing.game.seats_of(player.role)
    place = {name: index for index, name in enumerate(standing.members(roster.facing(player)))}
    rows, probability, learns = [], [], []
    for match in _matches(builder, roster, player):
        if match.opponent == player.name:  # both seats are its own
            rows.append([LEARNER, LEARNER])
            learns.append([True, True])
            probability.append(match.probability)
            continue
        for seat in seats:
            row, who = [place[match.opponent]] * 2, [False, False]
            row[seat], who[seat] = LEARNER, True
            rows.append(row)
            learns.append(who)
            probability.append(match.probability / len(seats))
    return Draw(torch.tensor(rows), torch.tensor(probability, dtype=torch.float64), torch.tensor(learns))


def _matches(builder: LeagueBuilder, roster: Roster, player: Player) -> list[Match]:
    """Those that the builder names and that are possible."""
    who, facing = f"{_name(builder)}.matches: {player.name}", roster.facing(player)
    matches = builder.matches(roster, player)
    if not isinstance(matches, Sequence) or any(not isinstance(match, Match) for match in matches):
        raise ConfigError(f"{who}: expected a list of Match(opponent, probability), got {matches!r:.200}")
    there = {*roster.learning(facing), *roster.frozen(facing)}
    for match in matches:
        if match.opponent not in there:
            raise ConfigError(f"{who}: expected opponents of {facing} that learn or are frozen, got {match.opponent!r}")
        if not match.probability >= 0:
            raise ConfigError(f"{who}: expected probabilities >= 0, got {match.probability} of {match.opponent}")
    total = sum(match.probability for match in matches)
    if not abs(total - 1) <= 1e-6:
        raise ConfigError(f"{who}: expected probabilities that sum to 1, got {total:g}")
    return [match for match in matches if match.probability]


def changes(builder: LeagueBuilder, result: LeagueResult) -> list[Change]:
    """What changes after an iteration; ConfigError where it cannot."""
    found, who = builder.build_league(result), f"{_name(builder)}.build_league"
    if not isinstance(found, Sequence) or any(not isinstance(change, Change) for change in found):
        raise ConfigError(f"{who}: expected a list of changes such as Freeze('main_0'), got {found!r:.200}")
    for change in found:
        _check(change, result.roster, who)
    return list(found)


def _check(change: Change, roster: Roster, who: str) -> None:
    """ConfigError where a change is of somebody who does not learn."""
    if isinstance(change, Enter):
        return
    if change.player not in (learning := roster.learning()):
        raise ConfigError(f"{who}: {change}: no player of this name learns, only {', '.join(learning):.200}")
    if isinstance(change, Copy):
        role = roster.players[change.player].role
        if change.source not in (known := roster.learning(role)):
            raise ConfigError(f"{who}: {change}: expected a source among those who learn, {', '.join(known):.200}")
        for key, factor in change.factors.items():
            if not 0 < factor < math.inf:
                raise ConfigError(f"{who}: Copy: {key}: expected a factor > 0, got {factor}")


def _name(builder: LeagueBuilder) -> str:
    return type(builder).__name__
