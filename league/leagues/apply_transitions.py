"""What changes a league between two iterations: players are frozen, begin anew, copy each other, enter and retire."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu_envs.errors import ConfigError
from league.builder import Change, Copy, Enter, Freeze, Player, Reset, Retire, check_numeric
from league.response import Training
from league.seating import LEARNER, Draw
from league.standing import RANDOM, RANDOM_NAME, Learning, Standing, weights_of
from trainers.config import TrainConfig

BOUNDS = {"in [0, 1]": (0, 1), "in (0, 1]": (0, 1), ">= 0": (0, math.inf), ">= 1": (1, math.inf), ">= 2": (2, math.inf)}
"""Between what settings stay that are multiplied, by what they allow."""


def make(standing: Standing, number: int, changes: Sequence[Change]) -> None:
    """Makes changes: who is frozen is frozen before anything else, and sources of copies are as they learned.

    Args:
        standing: What they change, its store too.
        number: Of the iteration that they end.
        changes: Of players that learn, or enter.

    Raises:
        ConfigError: A player that enters, or a setting that is multiplied, is none that can be.
    """
    sources = {change.source for change in changes if isinstance(change, Copy)}
    learned = {name: standing.learned(name) for name in sources}
    settings = {name: dict(standing.learning[name].settings) for name in sources}
    for change in sorted(changes, key=lambda change: not isinstance(change, Freeze)):
        match change:
            case Freeze(name):
                _freeze(standing, number, name)
            case Reset(name):
                first = standing.store.state(f"first.{name}", standing.device)
                assert first is not None
                _begin_from(standing, name, first)
            case Copy(name, source, factors):
                standing.learning[name].settings = multiplied(standing.train, settings[source], factors)
                _begin_from(standing, name, learned[source])
            case Enter(player):
                _enter(standing, player)
            case Retire(name):
                standing.roster.retire(name)
                standing.store.drop_state(f"learner.{name}")


def multiplied(train: TrainConfig, settings: Mapping[str, float], factors: Mapping[str, float]) -> dict[str, float]:
    """A learner's own settings, some of them multiplied: those that would leave what they allow stay at its end."""
    learner, found = dataclasses.replace(train.learner, **settings), dict(settings)
    allowed = {each.name: str(each.metadata.get("allowed")) for each in dataclasses.fields(learner)}
    for key, factor in factors.items():
        value = check_numeric(learner, key)
        least, most = BOUNDS.get(allowed[key], (-math.inf, math.inf))
        changed = value * factor
        found[key] = min(max(round(changed) if isinstance(value, int) else changed, least), most)
    dataclasses.replace(train, learner=dataclasses.replace(learner, **found))  # what else they ask for
    return found


def _enter(standing: Standing, player: Player) -> None:
    """A player begins to learn."""
    name, game = player.name, standing.game
    if player.parent is not None or name == RANDOM_NAME or ":" in name:
        raise ConfigError(
            f"player {name}: expected one that learns (parent = None), whose name is not {RANDOM_NAME!r} and has "
            f"no ':', got {player}"
        )
    standing.roster.add(player)
    standing.learning[name] = Learning()
    alone = Draw(torch.tensor([[LEARNER if seat.role == player.role else RANDOM for seat in game.seats]]))
    pools = {role: [population[RANDOM]] for role, population in standing.populations.items()}
    config = dataclasses.replace(standing.config(name), device=standing.device)
    learner = Training(game, alone, pools, config, even=standing.even).learner(player.role)
    weights = weights_of(learner.state_dict(), learner.policy())
    standing.store.put_state(f"first.{name}", weights)
    standing.put_live(name, weights)


def _freeze(standing: Standing, number: int, name: str) -> None:
    """A copy of a player, as others meet it, joins its population."""
    player, before = standing.roster.players[name], standing.roster.frozen(parent=name)
    population, own = standing.populations[player.role], standing.learning[name]
    parent = population.named(before[-1]).index if before else None
    meta: dict[str, Any] = {"player": name, "kind": player.kind, "steps": own.total_steps}
    copy = f"{name}:{len(before) + 1}"
    standing.store.add_policy(player.role, standing.live[name], name=copy, parent=parent, iteration=number, meta=meta)
    standing.roster.add(Player(copy, player.role, player.kind, parent=name))
    own.steps = 0


def _begin_from(standing: Standing, name: str, weights: Mapping[str, Any]) -> None:
    """A player goes on with other weights, in new worlds, and nobody has met it yet."""
    standing.store.drop_state(f"learner.{name}")
    standing.learning[name].begun += 1
    standing.learning[name].steps = 0
    standing.roster.win_rates.forget(name)
    standing.put_live(name, weights)
