"""Summary of an iteration of a league, and results of single players."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gpu_envs.errors import CheckpointError
from league.leagues.builder import Roster
from league.leagues.league_state import RANDOM_NAME, LeagueState
from league.leagues.player import Player
from league.leagues.transitions import Change, Enter
from league.rollout.episode_tally import EpisodeTally
from league.rollout.matchup_distribution import LEARNER
from league.storage.run_store import RunStore
from trainers.base.serialization import check_fields

__all__ = ["iteration_summary", "matches_by_opponent", "read_result"]


def iteration_summary(
    roster: Roster, results: Mapping[str, Mapping[str, Any]], changes: Sequence[Change]
) -> dict[str, Any]:
    """Summarize matches by pair, role and kind, win rates, transitions and returns.

    Args:
        roster: Players after the transitions.
        results: Result of each player's training task.
        changes: Transitions of the iteration.
    """
    matches = {name: {who: games for who, games, *_ in result["matches"]} for name, result in results.items()}
    roles, kinds = dict.fromkeys(roster.game.roles, 0), dict[str, int]()
    for name, met in matches.items():
        for who, games in met.items():
            one, other = roster.players[name], roster.players[who]
            pair = f"{one.kind} - {'frozen ' if other.parent else ''}{other.kind}"
            kinds[pair] = kinds.get(pair, 0) + games
            roles[one.role] += games
    return {
        "players": len(roster.players),
        "matches": matches,
        "matches_by_role": roles,
        "matches_by_kind": kinds,
        "win_rates": {n: {who: roster.win_rates.rate(n, who) for who in met} for n, met in matches.items()},
        "changes": [f"{type(each).__name__.lower()} {_player_name(each)}" for each in changes],
        **{
            key: {name: None if math.isnan(result[key]) else result[key] for name, result in results.items()}
            for key in ("return", "score", "steps", "episodes")
        },
    }


def _player_name(change: Change) -> str:
    return change.player.name if isinstance(change, Enter) else change.player


def matches_by_opponent(state: LeagueState, player: Player, tally: EpisodeTally) -> list[list[Any]]:
    """Return a list per opponent: its name, completed episodes, the player's score in them, started episodes."""
    found: dict[str, list[Any]] = {}
    sums = zip(tally.count.tolist(), tally.score.tolist(), tally.begun.tolist(), strict=True)
    for matchup, learns, (count, score, begun) in zip(
        tally.matchups.tolist(), tally.learns.tolist(), sums, strict=True
    ):
        own = learns.index(True)
        opponent, role = matchup[1 - own], state.game.seats[1 - own].role
        name = player.name if opponent == LEARNER else state.members(role)[opponent]
        entry = found.setdefault(name, [name, 0, 0.0, 0])
        entry[1:] = entry[1] + count, entry[2] + score[own], entry[3] + begun
    return list(found.values())


def read_result(store: RunStore, task: str, roster: Roster) -> dict[str, Any]:
    """Read the recorded result of a player's training task.

    Raises:
        CheckpointError: A value is damaged.
    """
    numbers = {"steps": int, "episodes": int, "return": float, "score": float}
    result, where = store.result(task, {**numbers, "matches": list[list[Any]]}), f"{store.file}: tasks: {task!r:.80}"
    hints = {"opponent": str, "games": int, "score": float, "begun": int}
    for match in result["matches"]:
        opponent = check_fields(where, dict(zip_longest(hints, match)), hints)["opponent"]
        if opponent not in {RANDOM_NAME, *roster.players}:
            raise CheckpointError(f"{where}: expected a player, got {opponent!r:.80}")
    return result
