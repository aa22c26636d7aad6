"""Training of one player in an iteration of a league, with the same result in any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_envs.utils.lru_cache import LRUCache
from league.executors import LazyValue
from league.game import Game
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import MatchupDistribution
from trainers.base.state import to_device
from trainers.config.train_config import TrainConfig
from trainers.models.policy import PolicyProtocol

__all__ = ["MAX_TRAININGS", "MAX_WORKER_TRAININGS", "cached_trainings", "drop_trainings", "train_player"]

MAX_TRAININGS = 64
"""Default number of trainings, with environments and learners, that a process caches for the next iteration."""
MAX_WORKER_TRAININGS = 4
"""The same number in a remote worker, which trains arbitrary players and rarely uses its cache again."""
_TRAININGS: LRUCache[tuple[str, str], tuple[str, BestResponseTraining]] = LRUCache(max_items=MAX_TRAININGS)
"""Cached trainings by run and player, each with the last completed task; the least recently used is first."""


def train_player(
    pools: Mapping[str, Sequence[PolicyProtocol]],
    *,
    run: str,
    player: str,
    role: str,
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
) -> dict[str, Any]:
    """Train a player against its opponents, from its last state.

    Args:
        pools: Policies by role, as in `OpponentSampler`.
        run: Unique name of the run, under which the training is cached until `drop_trainings`.
        player: Name of the player.
        role: Role of the player.
        before: Last task of the player since it started or restarted; None: there is none.
        task: Name of this task.
        game: Game to play.
        draw: Distribution of matchups.
        config: Training configuration of the player.
        state: State after the task `before`; without one, the first weights of the player's learner.
        draw_margin: Difference of the two seats' returns that counts as a draw.
        seed: Random seed of the opponents' actions.
        steps: Environment steps, rounded up to whole rollouts.
        keep: Maximum number of cached trainings; None: `MAX_TRAININGS`.

    Returns:
        "state" (`BestResponseTraining.state_dict`), and for this task "tally", "steps", "return" and "score".
    """
    last, training = _TRAININGS.pop((run, player), (None, None))  # a training that fails leaves the cache
    if training is None or last != before:
        training = None  # free its memory first
        initial = state() if isinstance(state, LazyValue) else state
        config.prepare()
        with config.in_force():
            initial = to_device({**initial}, config.device)
            training = BestResponseTraining(
                game, draw, pools, config, {role: initial} if before is None else None, draw_margin
            )
            if before is not None:
                training.load_state_dict(initial)
    training.opponents.replace(draw, pools, draw_margin)
    training.opponents.reseed(seed)  # opponents also act in other players' trainings
    start = training.steps
    with config.in_force():
        while training.steps < start + steps:
            training.iterate()
    tally = training.tally()
    training.tallies.clear()
    _TRAININGS[run, player] = (task, training)
    _TRAININGS.trim(MAX_TRAININGS if keep is None else keep)
    return {
        "state": training.state_dict(),
        "tally": tally,
        "steps": training.steps - start,
        "return": tally.mean_return(),
        "score": tally.mean_score(),
    }


def cached_trainings(run: str) -> dict[str, BestResponseTraining]:
    """Return the cached trainings of a run in this process, by player."""
    return {player: training for (name, player), (_, training) in _TRAININGS.items() if name == run}


def drop_trainings(run: str, player: str | None = None) -> None:
    """Remove a run's trainings from the cache of this process, of one player or of all."""
    for name in cached_trainings(run):
        if player in (None, name):
            del _TRAININGS[run, name]
