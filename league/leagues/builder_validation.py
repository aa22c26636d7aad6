"""Calls of a league builder, and validation of its answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpu_envs.errors import ConfigError
from league.game import Game
from league.leagues.builder import LeagueBuilder, LeagueResult, Roster
from league.leagues.league_state import LeagueState
from league.leagues.player import RANDOM_NAME, Change, Copy, Enter, Match, Player
from league.leagues.training_group import TrainingGroup, shared_matchups
from league.matchups.matchup_distribution import MatchupDistribution
from league.storage.run_store import derive_named_seed


def first_players(builder: LeagueBuilder, game: Game) -> list[Player]:
    """Return the learning players at the start; raise ConfigError if a role has none."""
    players = builder.players(game)
    for role in game.roles:
        if all(player.role != role for player in players):
            raise ConfigError(f"{_name(builder)}.players: expected one of every role, got no {role}")
    return players


def training_groups(builder: LeagueBuilder, state: LeagueState) -> list[TrainingGroup]:
    """Return the builder's groups of learning players.

    Raises:
        ConfigError: A player has no group or several, or the players of a group do not fit together.
    """
    groups, roster = builder.training_groups(state.roster), state.roster
    context = f"{_name(builder)}.training_groups"
    if sorted(name for group in groups for name in group) != sorted(roster.learning()):
        raise ConfigError(
            f"{context}: expected every learning player once, {roster.learning()!r:.200}, got {groups!r:.200}"
        )
    for group in groups:
        roles = [roster.players[name].role for name in group]
        if len(set(roles)) < len(roles):
            raise ConfigError(f"{context}: {group}: expected players of different roles, got {', '.join(roles)}")
        if any(state.learning[name].settings != state.learning[group[0]].settings for name in group):
            raise ConfigError(f"{context}: {group}: expected players with equal training settings, got different ones")
    return list(groups)


def group_steps(builder: LeagueBuilder, state: LeagueState, group: TrainingGroup, steps: int) -> int:
    """Return the environment steps of a group in an iteration, its share of `steps`.

    Raises:
        ConfigError: The share is not above 0, or infinite.
    """
    share = builder.share_of_steps(state.roster, group)
    if not 0 < share < math.inf:
        raise ConfigError(f"{_name(builder)}.share_of_steps: {group}: expected a number > 0, got {share!r:.80}")
    return max(round(share * steps), 1)


def matchup_distribution(builder: LeagueBuilder, state: LeagueState, group: TrainingGroup) -> MatchupDistribution:
    """Return the matchups of a group of players in the next iteration, with all seats of a role equally likely.

    Raises:
        ConfigError: The builder's matches are invalid.
    """
    players = {name: state.roster.players[name] for name in group}
    return shared_matchups(
        state.game,
        {player.role: name for name, player in players.items()},
        {
            name: {role: _matches(builder, state.roster, player, role) for role in state.roster.facing(player)}
            for name, player in players.items()
        },
        {role: state.members(role) for role in state.game.roles},
        derive_named_seed(state.seed, "lineups", *group),
    )


def _matches(builder: LeagueBuilder, roster: Roster, player: Player, facing: str) -> list[Match]:
    """Return the builder's matches with positive probability; raise ConfigError if they are invalid."""
    context = f"{_name(builder)}.matches: {player.name}"
    matches = builder.matches(roster, player, facing)
    if not isinstance(matches, Sequence) or any(not isinstance(match, Match) for match in matches):
        raise ConfigError(f"{context}: expected a list of Match(opponent, probability), got {matches!r:.200}")
    candidates = {RANDOM_NAME, *roster.learning(facing), *roster.frozen(facing)}
    for match in matches:
        if match.opponent not in candidates:
            raise ConfigError(
                f"{context}: expected learning or frozen opponents of {facing}, or {RANDOM_NAME!r}, got "
                f"{match.opponent!r}; see Roster"
            )
        if not match.probability >= 0:
            raise ConfigError(f"{context}: expected probabilities >= 0, got {match.probability} of {match.opponent}")
    total = sum(match.probability for match in matches)
    if not abs(total - 1) <= 1e-6:
        raise ConfigError(f"{context}: expected probabilities that sum to 1, got {total:g} with role {facing}")
    return [match for match in matches if match.probability]


def transitions(builder: LeagueBuilder, result: LeagueResult) -> list[Change]:
    """Return the transitions after an iteration; raise ConfigError if they are invalid."""
    changes, context = builder.build_league(result), f"{_name(builder)}.build_league"
    if not isinstance(changes, Sequence) or any(not isinstance(change, Change) for change in changes):
        raise ConfigError(f"{context}: expected a list of transitions such as Freeze('main_0'), got {changes!r:.200}")
    for change in changes:
        _check(change, result.roster, context)
    return list(changes)


def _check(change: Change, roster: Roster, context: str) -> None:
    """Raise ConfigError if a transition names a player that does not learn, or an invalid factor."""
    if isinstance(change, Enter):
        return
    if change.player not in (learning := roster.learning()):
        raise ConfigError(f"{context}: {change}: expected a learning player, one of {', '.join(learning):.200}")
    if isinstance(change, Copy):
        role = roster.players[change.player].role
        if change.source not in (candidates := roster.learning(role)):
            raise ConfigError(f"{context}: {change}: expected a learning source, one of {', '.join(candidates):.200}")
        for key, factor in change.factors.items():
            if not 0 < factor < math.inf:
                raise ConfigError(f"{context}: Copy: {key}: expected a factor > 0, got {factor}")


def _name(builder: LeagueBuilder) -> str:
    return type(builder).__name__
