"""Groups of players that learn in the same worlds: their lineups, the players of all seats, and their training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gpu_envs.utils.lru_cache import LRUCache
from league.executors.tasks import LazyValue
from league.game import Game
from league.leagues.player import Match
from league.matchups.best_response import BestResponseTraining
from league.matchups.data_parallel import joined_shard
from league.matchups.matchup_distribution import LEARNER, MatchupDistribution
from trainers.base.state import to_device
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol

SEPARATOR = "+"
"""Separator of the players' names in the key of a group."""
MAX_LINEUPS = 4096
"""Largest number of lineups of one player, up to the seats that it takes; of more lineups this many are sampled."""
MAX_TRAININGS = 64
"""Default number of trainings, with environments and learners, that a process caches for the next iteration."""
MAX_WORKER_TRAININGS = 4
"""The same number in a remote worker, which trains arbitrary groups and rarely uses its cache again."""
_TRAININGS: LRUCache[tuple[str, str], tuple[str, BestResponseTraining]] = LRUCache(max_items=MAX_TRAININGS)
"""Cached trainings by run and group, each with the last completed task; the least recently used is first."""

TrainingGroup = tuple[str, ...]
"""Names of learning players with different roles, which learn in the same worlds."""


def group_key(group: TrainingGroup) -> str:
    """Return the name of a group's training."""
    return SEPARATOR.join(group)


def shared_matchups(
    game: Game,
    group: Mapping[str, str],
    matches: Mapping[str, Mapping[str, Sequence[Match]]],
    members: Mapping[str, Sequence[str]],
    seed: int = 0,
) -> MatchupDistribution:
    """Return the matchups of a group.

    Every player takes the seats of its role equally often; each of the other seats has an opponent from the player's
    matches with the seat's role, independently of the others. An episode in which several players of the group meet is
    training data of all that want this lineup, so that self-play of S roles takes 1/S of the environment steps.

    Args:
        game: Game to play.
        group: Names of the players by role.
        matches: Matches of each player by role of the opponents, with probabilities above 0 that sum to 1. An opponent
            may occur repeatedly.
        members: Names of all players by role, in the order of the opponent pools.
        seed: Random seed of the lineups of a player that has more than `MAX_LINEUPS`.
    """
    lineups_of = {name: _lineups(game, role, name, matches[name], seed) for role, name in group.items()}
    rows: dict[tuple[tuple[int, ...], tuple[bool, ...]], float] = {}
    for name, lineups in lineups_of.items():
        for lineup, own_share in lineups.items():
            shares = {
                player: lineups_of[player].get(lineup, 0.0) for player in dict.fromkeys(lineup) if player in lineups_of
            }
            below = 0.0
            for level in sorted({share for share in shares.values() if 0 < share <= own_share}):
                learners = {player for player, share in shares.items() if share >= level}
                if name == min(learners):  # once per set of learners
                    row = [
                        LEARNER if member in lineups_of else members[seat.role].index(member)
                        for member, seat in zip(lineup, game.seats, strict=True)
                    ]
                    key = tuple(row), tuple(member in learners for member in lineup)
                    rows[key] = rows.get(key, 0.0) + level - below
                below = level
    return MatchupDistribution(
        torch.tensor([row for row, _ in rows]),
        torch.tensor(list(rows.values()), dtype=torch.float64),
        torch.tensor([learns for _, learns in rows]),
    )


def train_group(
    pools: Mapping[str, Sequence[PolicyProtocol]],
    *,
    run: str,
    group: TrainingGroup,
    previous: str | None,
    task: str,
    game: Game,
    draw: MatchupDistribution,
    config: TrainConfig,
    state: Mapping[str, Any] | LazyValue,
    draw_margin: float,
    seed: int,
    steps: int,
    keep: int | None = None,
    sharded: bool = False,
) -> dict[str, Any]:
    """Train a group of players against their opponents, from its last state.

    Args:
        pools: Policies by role, as in `OpponentSampler`.
        run: Unique name of the run, under which the training is cached until `drop_trainings`.
        group: Names of the players.
        previous: Last task of the group since its players started or restarted; None: there is none.
        task: Name of this task.
        game: Game to play.
        draw: Distribution of matchups.
        config: Training configuration of the players.
        state: State after the task `previous`; without one, the first weights of each role's learner.
        draw_margin: Difference of the two seats' returns that counts as a draw.
        seed: Random seed of the opponents' actions.
        steps: Environment steps, rounded up to whole rollouts.
        keep: Maximum number of cached trainings; None: `MAX_TRAININGS`.
        sharded: Train together with other processes, see `joined_shard`; rank 0 returns the state. The training is not
            cached.

    Returns:
        "state" (`BestResponseTraining.state_dict`), and for this task "tally" and "steps".
    """
    key = run, group_key(group)
    last, training = _TRAININGS.pop(key, (None, None))  # a training that fails leaves the cache
    if training is None or last != previous or sharded:
        training = None  # free its memory first
        initial = state() if isinstance(state, LazyValue) else state
        config.prepare()
        with config.in_force():
            initial = {**initial}
            weights = None
            if previous is None:
                weights = {role: to_device(value, config.device) for role, value in initial.items()}
            shard = joined_shard(config, sharded)
            training = BestResponseTraining(game, draw, pools, config, weights, draw_margin, shard)
            if previous is not None:
                training.load_state_dict(to_device(initial, config.device))
    training.opponents.replace(draw, pools, draw_margin)
    training.opponents.reseed(seed)  # opponents also act in other players' trainings
    start = training.steps
    with config.in_force():
        while training.steps < start + steps:
            training.iterate()
    tally = training.tally()
    training.tallies.clear()
    if not sharded:
        _TRAININGS[key] = (task, training)
        _TRAININGS.trim(MAX_TRAININGS if keep is None else keep)
    return {"state": training.state_dict(), "tally": tally, "steps": training.steps - start}


def cached_trainings(run: str) -> dict[str, BestResponseTraining]:
    """Return the cached trainings of a run in this process, by group."""
    return {group: training for (name, group), (_, training) in _TRAININGS.items() if name == run}


def drop_trainings(run: str, player: str | None = None) -> None:
    """Remove a run's trainings from the cache of this process: those with one player, or all."""
    for group in cached_trainings(run):
        if player is None or player in group.split(SEPARATOR):
            del _TRAININGS[run, group]


def _lineups(
    game: Game, role: str, name: str, matches: Mapping[str, Sequence[Match]], seed: int
) -> dict[tuple[str, ...], float]:
    """Return the probability of every lineup of a player, which names the player of each seat."""
    seats = game.seats_of(role)
    roles = [seat.role for seat in game.seats]
    del roles[seats[0]]  # of the opponents, whichever seat of its role the player takes
    shares: dict[str, dict[str, float]] = {}
    for facing in roles:
        shares[facing] = {}
        for match in matches[facing]:
            shares[facing][match.opponent] = shares[facing].get(match.opponent, 0.0) + match.probability
    probabilities: dict[tuple[str, ...], float] = {}
    for opponents, probability in _opponents(roles, shares, np.random.default_rng([seed, *name.encode()])):
        by_role = {
            facing: [name for name, of in zip(opponents, roles, strict=True) if of == facing] for facing in shares
        }
        for learner_seat in seats:
            left = {facing: iter(names) for facing, names in by_role.items()}
            lineup = tuple(
                name if index == learner_seat else next(left[seat.role]) for index, seat in enumerate(game.seats)
            )
            probabilities[lineup] = probabilities.get(lineup, 0.0) + probability / len(seats)
    return probabilities


def _opponents(
    roles: Sequence[str], shares: Mapping[str, Mapping[str, float]], rng: np.random.Generator
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the opponents of the other seats, which have these roles, with their probability.

    Of more than `MAX_LINEUPS` combinations of several seats this many are sampled. Every opponent keeps its share of
    each seat, up to the probability of one sample.
    """
    if len(roles) == 1 or math.prod(len(shares[role]) for role in roles) <= MAX_LINEUPS:
        for chosen in itertools.product(*(shares[role].items() for role in roles)):
            yield tuple(opponent for opponent, _ in chosen), math.prod(share for _, share in chosen)
        return
    columns = []
    for role in roles:
        ends = np.cumsum(list(shares[role].values()))
        places = np.searchsorted(ends, ends[-1] * (np.arange(MAX_LINEUPS) + rng.random()) / MAX_LINEUPS, side="right")
        names = list(shares[role])
        columns.append([names[i] for i in rng.permutation(places.clip(max=len(names) - 1))])
    for opponents in zip(*columns, strict=True):
        yield opponents, 1 / MAX_LINEUPS
