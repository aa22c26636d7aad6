"""A player's part in an iteration of a league: a function that gives the same wherever it runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from league.executors import Later
from league.game import Game
from league.response import Training
from league.seating import Draw
from trainers.config import TrainConfig
from trainers.learner import moved
from trainers.policy import Plays

KEPT = 64
"""Trainings that a process keeps, with worlds and learners: whoever goes on with one need not build it."""
AFAR = 4
"""The same of a worker, which gets whatever player is next: most of what it keeps has gone on elsewhere meanwhile."""
_TRAININGS: OrderedDict[tuple[str, str], tuple[str, Training]] = OrderedDict()
"""By run and player, with the task that each did last; the last used behind."""


def train_player(
    pools: Mapping[str, Sequence[Plays]],
    *,
    run: str,
    player: str,
    role: str,
    before: str | None,
    task: str,
    game: Game,
    draw: Draw,
    config: TrainConfig,
    state: Mapping[str, Any] | Later,
    even: float,
    seed: int,
    steps: int,
    keep: int | None = None,
) -> dict[str, Any]:
    """Trains a player against others, from where it stands.

    Args:
        pools: Policies by role, as in `Seating`.
        run: Whose trainings this one is kept with, until `forget`; no two that differ share a name.
        player: Its name.
        role: Its own.
        before: The task in which it was trained last since it began; None: it is yet to begin.
        task: This one.
        game: What is played.
        draw: Whom it meets.
        config: How it learns, with its own settings and seed.
        state: What the task before gave; of a player that is yet to begin, its learner's first weights.
        even: Of two seats: by how much the first earns more than the second in a draw.
        seed: Of what others sample.
        steps: Of worlds, rounded up to whole rollouts.
        keep: Trainings that this process keeps at most; None: `KEPT`.

    Returns:
        "state" (`Training.state_dict`), and of this task alone "tally", "steps", "return" and "score".
    """
    last, training = _TRAININGS.pop((run, player), (None, None))  # what fails on its way is not kept
    if training is None or last != before:
        training = None  # it is of no use, and large
        given = state() if isinstance(state, Later) else state
        given = moved({**given}, config.device)
        config.prepare()
        training = Training(game, draw, pools, config, {role: given} if before is None else None, even)
        if before is not None:
            training.load_state_dict(given)
    training.seating.replace(draw, pools, even)
    training.seating.reseed(seed)  # policies are asked in the worlds of others, too
    begun = training.steps
    with config.in_force():
        while training.steps < begun + steps:
            training.iterate()
    tally = training.tally()
    training.tallies.clear()
    _TRAININGS[run, player] = (task, training)
    while len(_TRAININGS) > (KEPT if keep is None else keep):
        _TRAININGS.popitem(last=False)
    return {
        "state": training.state_dict(),
        "tally": tally,
        "steps": training.steps - begun,
        "return": tally.mean_return(),
        "score": tally.mean_score(),
    }


def kept(run: str) -> dict[str, Training]:
    """The trainings of a run that this process has, by player."""
    return {player: training for (name, player), (_, training) in _TRAININGS.items() if name == run}


def forget(run: str, player: str | None = None) -> None:
    """Lets go of a run's trainings in this process, of one player or of all."""
    for name in kept(run):
        if player in (None, name):
            del _TRAININGS[run, name]
