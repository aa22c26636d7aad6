"""Summary of an iteration of a league, and results of single players."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gpu_envs.errors import CheckpointError
from league.leagues.builder import Roster
from league.leagues.league_state import LeagueState
from league.leagues.player import RANDOM_NAME, Change, Enter, Player, opponent_kind
from league.leagues.training_group import TrainingGroup
from league.matchups.episode_tally import EpisodeTally
from league.matchups.matchup_distribution import LEARNER
from league.storage.run_store import RunStore
from trainers.base.serialization import check_fields


def iteration_summary(
    roster: Roster, results: Mapping[str, Mapping[str, Any]], changes: Sequence[str]
) -> dict[str, Any]:
    """Summarize matches by pair, role and kind, win rates, transitions and returns.

    Args:
        roster: Players after the transitions.
        results: Result of each player's training task.
        changes: Transitions of the iteration, see `change_text`.
    """
    matches = {name: {opponent: games for opponent, games, *_ in result["matches"]} for name, result in results.items()}
    roles, kinds = dict.fromkeys(roster.game.roles, 0), dict[str, int]()
    for name, met in matches.items():
        player = roster.players[name]
        roles[player.role] += results[name]["episodes"]
        for opponent, games in met.items():
            pair = f"{player.kind} - {opponent_kind(roster.players, opponent)}"
            kinds[pair] = kinds.get(pair, 0) + games
    return {
        "players": len(roster.players),
        "matches": matches,
        "matches_by_role": roles,
        "matches_by_kind": kinds,
        "win_rates": {
            n: {opponent: roster.win_rates.rate(n, opponent) for opponent in met} for n, met in matches.items()
        },
        "changes": list(changes),
        **{
            key: {name: None if math.isnan(result[key]) else result[key] for name, result in results.items()}
            for key in ("return", "score", "steps", "episodes")
        },
    }


def change_text(change: Change) -> str:
    """Return a transition in words, such as "freeze main_0"."""
    name = change.player.name if isinstance(change, Enter) else change.player
    return f"{type(change).__name__.lower()} {name}"


def merge_results(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of several trainings of one player: sums, and means weighted by their episodes."""
    matches: dict[str, list[Any]] = {}
    for opponent, *counts in (match for result in results for match in result["matches"]):
        sums = matches.get(opponent, [opponent, 0, 0.0, 0])
        matches[opponent] = [opponent, *(old + new for old, new in zip(sums[1:], counts, strict=True))]
    episodes, means = sum(result["episodes"] for result in results), {}
    for key in ("return", "score"):
        finite = [(result[key], result["episodes"]) for result in results if not math.isnan(result[key])]
        means[key] = sum(value * count for value, count in finite) / episodes if finite and episodes else math.nan
    steps = sum(result["steps"] for result in results)
    return {"matches": list(matches.values()), "episodes": episodes, "steps": steps, **means}


def training_result(state: LeagueState, name: str, group: TrainingGroup, tally: EpisodeTally) -> dict[str, Any]:
    """Return the result of one player of a training: matches, number of episodes, mean return and mean score."""
    player = state.roster.players[name]
    seats = state.game.seats_of(player.role)
    return {
        "matches": matches_by_opponent(state, player, group, tally),
        "episodes": int(tally.count[tally.learns[:, list(seats)].any(1)].sum()),
        "return": tally.mean_return(seats),
        "score": tally.mean_score(seats),
    }


def matches_by_opponent(
    state: LeagueState, player: Player, group: TrainingGroup, tally: EpisodeTally
) -> list[list[Any]]:
    """Return a list per opponent: its name, completed matches, the player's score in them, started matches.

    A match is a pair of seats in an episode: one that the player learns in, and one of the opponent. With two seats
    the matches are the episodes; an episode of S seats has S - 1 matches of each seat. The score of a match is 1 if the
    player's seat has the higher return, 1/2 for a draw, else 0: how a third seat fares does not change it. A match of
    the player against itself counts once, for the first seat.
    """
    entries: dict[str, list[Any]] = {}
    own_seats, seats = state.game.seats_of(player.role), state.game.seats
    partners = {state.roster.players[name].role: name for name in group}
    members = {role: state.members(role) for role in state.game.roles}
    sums = list(zip(tally.count.tolist(), tally.started.tolist(), strict=True))
    scores = {
        (seat, other): tally.score_against(seat, other).tolist()
        for seat, other in itertools.product(own_seats, range(len(seats)))
        if seat != other
    }
    for row, (matchup, learns) in enumerate(zip(tally.matchups.tolist(), tally.learns.tolist(), strict=True)):
        count, started = sums[row]
        for seat, other in scores:  # rows that are training data of another player of the group have none
            if not learns[seat] or (learns[other] and other in own_seats and other < seat):
                continue
            role = seats[other].role
            name = partners.get(role, player.name) if matchup[other] == LEARNER else members[role][matchup[other]]
            entry = entries.setdefault(name, [name, 0, 0.0, 0])
            entry[1:] = entry[1] + count, entry[2] + scores[seat, other][row], entry[3] + started
    return list(entries.values())


def read_result(store: RunStore, task: str, group: TrainingGroup, roster: Roster) -> dict[str, dict[str, Any]]:
    """Read the recorded results of a training task by player.

    Raises:
        CheckpointError: A value is damaged.
    """
    fields = {"episodes": int, "return": float, "score": float, "matches": list[list[Any]]}
    hints = {"opponent": str, "games": int, "score": float, "begun": int}
    task_result, results = store.result(task, {"steps": int, "players": dict[str, dict[str, Any]]}), {}
    context = f"{store.file}: tasks: {task!r:.80}"
    if sorted(task_result["players"]) != sorted(group):
        raise CheckpointError(f"{context}: expected the players {', '.join(group)}, got {task_result['players']!r:.80}")
    for name in group:
        result = check_fields(context, task_result["players"][name], fields)
        for match in result["matches"]:
            opponent = check_fields(context, dict(zip_longest(hints, match)), hints)["opponent"]
            if opponent not in {RANDOM_NAME, *roster.players}:
                raise CheckpointError(f"{context}: expected a player, got {opponent!r:.80}")
        results[name] = {**result, "steps": task_result["steps"]}
    return results
