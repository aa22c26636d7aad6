"""Apply transitions of a league between two iterations: freeze, reset, copy, enter and retire players."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gpu_envs.errors import ConfigError
from gpu_envs.utils.settings import bounds_of
from league.leagues.builder import check_numeric
from league.leagues.league_state import RANDOM, LeagueState, LearningPlayer, policy_weights
from league.leagues.player import RANDOM_NAME, Player
from league.leagues.training_group import SEPARATOR
from league.leagues.transitions import Change, Copy, Enter, Freeze, Reset, Retire
from league.policies.kinds import kind_of
from league.rollout.best_response import BestResponseTraining
from league.rollout.matchup_distribution import LEARNER, MatchupDistribution
from trainers.config.train_config import TrainConfig

__all__ = ["apply_transitions", "multiply_settings"]


def apply_transitions(state: LeagueState, number: int, changes: Sequence[Change]) -> None:
    """Apply the transitions of an iteration, freezes first.

    Sources of copies keep their weights and settings from before the transitions.

    Args:
        state: State of the league, which is changed together with its store.
        number: Number of the iteration that ends.
        changes: Transitions of players.

    Raises:
        ConfigError: A new player is invalid, or a setting cannot be multiplied.
    """
    sources = {change.source for change in changes if isinstance(change, Copy)}
    learned = {name: state.trained_weights(name) for name in sources}
    settings = {name: dict(state.learning[name].settings) for name in sources}
    for change in sorted(changes, key=lambda change: not isinstance(change, Freeze)):
        match change:
            case Freeze(name):
                _freeze(state, number, name)
            case Reset(name):
                first = state.store.state(f"first.{name}", state.device)
                assert first is not None
                _restart_from(state, name, first)
            case Copy(name, source, factors):
                state.learning[name].settings = multiply_settings(state.train, settings[source], factors)
                _restart_from(state, name, learned[source])
            case Enter(player):
                _enter(state, player)
            case Retire(name):
                state.roster.retire(name)
                state.drop_trainings(name)
                state.trained.pop(name, None)


def multiply_settings(
    train: TrainConfig, settings: Mapping[str, float], factors: Mapping[str, float]
) -> dict[str, float]:
    """Return a player's settings with some of them multiplied and clipped to their valid range."""
    learner, result = dataclasses.replace(train.learner, **settings), dict(settings)
    bounds = {field.name: bounds_of(field) for field in dataclasses.fields(learner)}
    for key, factor in factors.items():
        value = check_numeric(learner, key)
        changed = value * factor
        result[key] = bounds[key].clip(round(changed) if isinstance(value, int) else changed)
    dataclasses.replace(train, learner=dataclasses.replace(learner, **result))  # checks conditions between settings
    return result


def _enter(state: LeagueState, player: Player) -> None:
    """Add a learning player with random weights."""
    name, game = player.name, state.game
    if player.parent is not None or name == RANDOM_NAME or ":" in name or SEPARATOR in name:
        raise ConfigError(
            f"player {name}: expected a learning player (parent = None) whose name is not {RANDOM_NAME!r} and has "
            f"no ':' or {SEPARATOR!r}, got {player}"
        )
    state.roster.add(player)
    state.learning[name] = LearningPlayer()
    alone = MatchupDistribution(
        torch.tensor([[LEARNER if seat.role == player.role else RANDOM for seat in game.seats]])
    )
    pools = {role: [population[RANDOM]] for role, population in state.populations.items()}
    config = dataclasses.replace(state.config(name), device=state.device)
    learner = BestResponseTraining(game, alone, pools, config, draw_margin=state.draw_margin).learner(player.role)
    weights = policy_weights(learner.state_dict(), learner.policy())
    state.store.put_state(f"first.{name}", weights)
    state.publish_weights(name, weights)


def _freeze(state: LeagueState, number: int, name: str) -> None:
    """Add a frozen copy of a player's published weights to its population."""
    player, snapshots = state.roster.players[name], state.roster.frozen(parent=name)
    population, learning = state.populations[player.role], state.learning[name]
    parent = population.named(snapshots[-1]).index if snapshots else None
    meta: dict[str, Any] = {"player": name, "kind": player.kind, "steps": learning.total_steps}
    copy = f"{name}:{len(snapshots) + 1}"
    policy = state.live[name]
    state.store.add_policy(player.role, policy, kind_of(policy), copy, parent, iteration=number, meta=meta)
    state.roster.add(Player(copy, player.role, player.kind, parent=name))
    learning.steps = 0


def _restart_from(state: LeagueState, name: str, weights: Mapping[str, Any]) -> None:
    """Restart a player from other weights, with new environments and no win rates.

    The players that train together with it continue from their weights in new environments, too.
    """
    state.drop_trainings(name)
    state.trained.pop(name, None)
    state.learning[name].restarts += 1
    state.learning[name].steps = 0
    state.roster.win_rates.forget(name)
    state.publish_weights(name, weights)
