"""Training of one group of players in an iteration of a league, with the same result in any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_envs.utils.lru_cache import LRUCache
from league.executors import LazyValue
from league.game import Game
from league.leagues.training_group import SEPARATOR, TrainingGroup, group_key
from league.rollout.best_response import BestResponseTraining
from league.rollout.data_parallel import joined_shard
from league.rollout.matchup_distribution import MatchupDistribution
from trainers.base.state import to_device
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol

__all__ = ["MAX_TRAININGS", "MAX_WORKER_TRAININGS", "cached_trainings", "drop_trainings", "train_group"]

MAX_TRAININGS = 64
"""Default number of trainings, with environments and learners, that a process caches for the next iteration."""
MAX_WORKER_TRAININGS = 4
"""The same number in a remote worker, which trains arbitrary groups and rarely uses its cache again."""
_TRAININGS: LRUCache[tuple[str, str], tuple[str, BestResponseTraining]] = LRUCache(max_items=MAX_TRAININGS)
"""Cached trainings by run and group, each with the last completed task; the least recently used is first."""


def train_group(
    pools: Mapping[str, Sequence[PolicyProtocol]],
    *,
    run: str,
    group: TrainingGroup,
    before: str | None,
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
        before: Last task of the group since its players started or restarted; None: there is none.
        task: Name of this task.
        game: Game to play.
        draw: Distribution of matchups.
        config: Training configuration of the players.
        state: State after the task `before`; without one, the first weights of each role's learner.
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
    if training is None or last != before or sharded:
        training = None  # free its memory first
        initial = state() if isinstance(state, LazyValue) else state
        config.prepare()
        with config.in_force():
            initial = {**initial}
            weights = None
            if before is None:
                weights = {role: to_device(value, config.device) for role, value in initial.items()}
            shard = joined_shard(config, sharded)
            training = BestResponseTraining(game, draw, pools, config, weights, draw_margin, shard)
            if before is not None:
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
