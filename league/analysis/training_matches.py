"""Training matches of a run: episodes by role, by kind and by pair of players."""

from __future__ import annotations

from typing import Any

from gpu_envs.errors import CheckpointError
from league.analysis.run_tables import RunTables
from league.leagues.league_state import read_players
from league.leagues.player import RANDOM_NAME, opponent_kind
from league.rollout.matchup_distribution import LEARNER

__all__ = ["count_training_matches"]


def count_training_matches(tables: RunTables) -> dict[str, Any]:
    """Count the training episodes of a run, see `Report.matches`.

    Raises:
        CheckpointError: A match names an unknown player.
    """
    store = tables.store
    roles: dict[str, int] = {}
    kinds: dict[str, int] = {}
    pairs: dict[tuple[str, str], int] = {}

    def add(kind: str, learner: str, opponent: str, count: int) -> None:
        kinds[kind] = kinds.get(kind, 0) + count
        pairs[learner, opponent] = pairs.get((learner, opponent), 0) + count

    for match in store.matches():
        entries = [
            store.populations[seat.role].entries[index]
            for seat, index in zip(tables.game.seats, match.matchup, strict=True)
            if index != LEARNER
        ]
        opponent = " + ".join(entry.name for entry in entries) or match.role
        kind = " + ".join(entry.kind for entry in entries) or "self"
        roles[match.role] = roles.get(match.role, 0) + match.count
        add(f"learner - {kind}", f"{match.role}, iteration {match.iteration}", opponent, match.count)
    players = {player.name: player for player in read_players(store)}
    for row in tables.rows.values():
        episodes = row.get("episodes")
        for learner, opponents in row.get("matches", {}).items():
            for opponent, count in opponents.items():
                if learner not in players or opponent not in {RANDOM_NAME, *players}:
                    raise CheckpointError(
                        f"{store.file}: iterations: matches: expected names of players, got {learner!r:.80} and "
                        f"{opponent!r:.80}"
                    )
                add(f"{players[learner].kind} - {opponent_kind(players, opponent)}", learner, opponent, count)
            if opponents:  # with more than two seats an episode has several opponents
                matches, role = sum(opponents.values()), players[learner].role
                count_of_role = episodes.get(learner, matches) if isinstance(episodes, dict) else matches
                roles[role] = roles.get(role, 0) + count_of_role
    by_pair = [[*pair, count] for pair, count in pairs.items()]
    return {"by_role": roles, "by_kind": kinds, "by_pair": by_pair}
