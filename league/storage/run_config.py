"""What every run of a league has: a folder, a configuration, and training as its game takes it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch

from gpu_envs.errors import CheckpointError, ConfigError
from league import presets
from league.database import DATABASE
from league.game import Game
from league.matches import Results
from league.payoffs import PayoffTable
from league.store import Store
from trainers.config import TrainConfig, changed
from trainers.files import check_fields, write_json
from trainers.folder_lock import LOCK
from trainers.presets import preset

C = TypeVar("C")
SUMMARY = "summary.json"  # file in the folder of a run


def training(game: Game, device: str, settings: Mapping[str, Any]) -> TrainConfig:
    """How policies of a game learn: the environment's presets, of `trainers` and of the league, changed by settings.

    Args:
        game: What is played.
        device: Where.
        settings: Fields of `TrainConfig`, and with "learner." before their names those of the learner's settings.

    Raises:
        ConfigError: A name or a value that does not fit.
    """
    settings = {**presets.train(game.env_id, device, settings.get("algorithm")), **settings}
    name = settings.get("algorithm", "ppo")
    base = preset(game.env_id, device, name)
    plain = {"policies": {}, "until_return": None, "eval_episodes": 0, "patience": 0, "eval_against": None}
    plain = dataclasses.replace(base, env=dict(game.env), device=device, **plain)
    fields = {field.name for field in dataclasses.fields(TrainConfig)}
    fixed = {"env_id", "env", "learner", "device", "seed", "sharing", "policies"}
    return changed(plain, settings, "train", fields - fixed)


def opened(path: Path, game: Game, algorithm: str, config: Any) -> Store:
    """The run in a folder, begun if there is none; ConfigError if there is another."""
    if not Store.begun(path):
        return Store.create(path, game, {"algorithm": algorithm, **dataclasses.asdict(config)})
    store = Store.open(path)
    try:
        check_same(store, game, algorithm, config)
    except BaseException:
        store.close()
        raise
    return store


def discard(store: Store) -> None:
    """Closes a run in which nothing has been done, and takes its folder away."""
    store.close()
    for file in (*store.path.glob(f"{DATABASE}*"), store.path / LOCK):
        file.unlink(missing_ok=True)
    for folder in (store.path / "policies", store.path / "states", store.path):
        with contextlib.suppress(OSError):  # somebody else's files are in it
            folder.rmdir()


def check_same(store: Store, game: Game, algorithm: str, config: Any) -> None:
    """Sees that a run is of this game and configuration, `iterations` aside: a run can be made longer.

    Raises:
        ConfigError: It is of another one.
    """
    if store.game != game:
        other = f"{store.game.env_id} {dict(store.game.env)}"
        raise ConfigError(f"{store.path}: holds a run of another game, {other}; choose another folder")
    if (got := store.config.get("algorithm")) != algorithm:
        raise ConfigError(f"{store.path}: holds a run of {got}, expected {algorithm}; choose another folder")
    recorded = configuration(store, type(config))
    for field in dataclasses.fields(config):
        expected, got = getattr(config, field.name), getattr(recorded, field.name)
        if field.name != "iterations" and expected != got:
            raise ConfigError(
                f"{store.path}: began with {field.name} = {got!r}, got {expected!r}; "
                "leave it out, or choose another folder"
            )


def configuration(store: Store, kind: type[C]) -> C:
    """The configuration that a run began with; CheckpointError where it is of another kind."""
    data = {key: value for key, value in store.config.items() if key != "algorithm"}
    device = store.config.get("device", "cpu")
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", device):
        raise CheckpointError(f"{store.file}: device: expected one of cpu, cuda, cuda:N, got {device!r:.80}")
    return from_json(kind, data, str(store.file))


def from_json(kind: type[C], data: Any, where: str) -> C:
    """A configuration, whose parts may be configurations, from what `dataclasses.asdict` gave.

    Raises:
        CheckpointError: A field is missing, unknown or of another type.
    """
    hints = get_type_hints(kind)
    plain = {name: dict[str, Any] if dataclasses.is_dataclass(hint) else hint for name, hint in hints.items()}
    try:
        given = check_fields(where, data, plain)
        parts = {
            name: from_json(hint, given[name], f"{where}: {name}")
            for name, hint in hints.items()
            if isinstance(hint, type) and dataclasses.is_dataclass(hint)
        }
        return kind(**{**given, **parts})
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from None


def table_of(store: Store) -> PayoffTable:
    """The payoff table that a run has so far."""
    table, cells = PayoffTable(store.game, sizes(store)), store.cells()
    if len(cells.matchups):
        sums = (torch.from_numpy(each) for each in (cells.count, cells.total, cells.square, cells.score))
        table.add(cells.matchups, Results(*sums))
    return table


def sizes(store: Store) -> dict[str, int]:
    """Policies by role."""
    return {role: len(population) for role, population in store.populations.items()}


def write_summary(store: Store, **more: Any) -> Path:
    """Writes `summary.json`: what there is to say of every iteration so far."""
    rows = [{"iteration": number, **row} for number, row in store.iterations().items()]
    path = store.path / SUMMARY
    write_json(path, {"env_id": store.game.env_id, **store.config, **more, "iterations": rows})
    return path
