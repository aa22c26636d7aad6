"""Checkpoints of a league's policies and of learned best responses, which all commands for trained policies accept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from league.game import Game
from league.matchups.best_response import settled
from league.policies.population import PolicyRecord
from league.policies.team import TeamPolicy, part_policy
from league.storage.run_config import configuration, training
from league.storage.run_store import RunStore
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy
from trainers.storage import checkpoint


def latest(store: RunStore) -> dict[str, PolicyRecord]:
    """Return the latest policy of each seat by the seat's name: of main players in a league with exploiters.

    Raises:
        ConfigError: A seat has no policy yet.
    """
    result = {}
    for seat in store.game.seats:
        entries = store.populations[seat.role].entries
        if not entries:
            raise ConfigError(f"{store.path}: {seat.role}: no policy yet; wait until the run has trained one")
        main = [entry for entry in entries if entry.meta.get("kind") == "main"]
        result[seat.name] = (main or entries)[-1]
    return result


def generations(store: RunStore) -> list[dict[str, PolicyRecord]]:
    """Return the policies of each seat by the seat's name, one entry per copy of the latest policies' players.

    A player is a learning player of a league, or the population of a role in PSRO.
    """
    last = latest(store)
    copies = {}
    for seat in store.game.seats:
        player = last[seat.name].meta.get("player")
        entries = store.populations[seat.role].entries
        copies[seat.name] = [entry for entry in entries if _is_trained(entry) and entry.meta.get("player") == player]
    count = min(map(len, copies.values()))
    return [{name: copied[len(copied) - count + number] for name, copied in copies.items()} for number in range(count)]


def _is_trained(entry: PolicyRecord) -> bool:
    return entry.kind == "policy" or (entry.kind == "team" and entry.name != "random")


def _names(game: Game, index: int) -> list[str]:
    """Return the names of the policies of a seat in a checkpoint: its own, or the first members of its parts."""
    parts, other_names = game.parts[index], {seat.name for at, seat in enumerate(game.seats) if at != index}
    if len(parts) == 1:
        return [game.seats[index].name]
    names = [part.members[0] for part in parts]
    return [f"{game.seats[index].name}-{name}" if name in other_names else name for name in names]


def export_checkpoint(
    store: RunStore, config_type: type[Any], policies: Mapping[str, PolicyRecord], run: Path, keep: int = 1
) -> Path:
    """Write a checkpoint of one policy per seat to a run's folder, without the state for resuming.

    Args:
        store: Run of a league.
        config_type: Type of the run's configuration.
        policies: Policy of each seat, by the seat's name.
        run: Folder of the checkpoint's run.
        keep: Number of checkpoints to keep in the folder.

    Returns:
        The folder of the checkpoint.

    Raises:
        ConfigError: A policy is no network.
    """
    game, league_config = store.game, configuration(store, config_type)
    members = {
        member: name
        for index, seat in enumerate(game.seats)
        for part, name in zip(game.parts[index], _names(game, index), strict=True)
        for member in part.members
    }
    settings = training(game, league_config.device, league_config.train_overrides)
    config = dataclasses.replace(settings, seed=league_config.seed, policies=members)
    loaded: dict[str, Policy] = {}
    for index, seat in enumerate(game.seats):
        entry = policies[seat.name]
        policy = store.populations[seat.role].policy(entry.index)
        for number, name in enumerate(_names(game, index)):
            part = part_policy(policy, game.parts[index], number)
            if not isinstance(part, Policy):
                raise ConfigError(
                    f"{store.path}: {entry.name}: expected a trained network, got a policy of kind {entry.kind}"
                )
            loaded[name] = part
    steps = max(int(entry.meta.get("steps", 0)) for entry in policies.values())
    iteration = max(entry.iteration for entry in policies.values())
    folder = run / checkpoint.FOLDER
    return checkpoint.save(folder, iteration, steps, dataclasses.asdict(config), {}, loaded, keep_last_checkpoints=keep)


def save_responses(
    folder: Path, game: Game, train: TrainConfig, responses: Mapping[str, Sequence[Policy | TeamPolicy]], steps: int
) -> list[Path]:
    """Write one run for each training, whose policies are the responses of all roles, without learners.

    Args:
        folder: Folder of the runs.
        game: Game of the responses.
        train: Training settings.
        responses: Responses by role, the same number for each.
        steps: Environment steps of a training.

    Returns:
        The folders of the runs, response-0, response-1, ...
    """
    config, runs = dataclasses.asdict(settled(game, train)), []
    for number in range(min(map(len, responses.values()))):
        policies: dict[str, Policy] = {}
        for role, trained in responses.items():
            parts = game.parts[game.seats_of(role)[0]]
            for index, name in enumerate(game.learners_of(role)):
                policy = part_policy(trained[number], parts, index)
                assert isinstance(policy, Policy)
                policies[name] = policy
        run = folder / f"response-{number}"
        checkpoint.save(run / checkpoint.FOLDER, train.iterations, steps, config, {}, policies)
        runs.append(run)
    return runs
