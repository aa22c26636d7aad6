"""Open the run in a folder, or create it."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

from gpu_envs.errors import ConfigError
from league.game import Game
from league.storage.database import DATABASE
from league.storage.run_config import configuration
from league.storage.run_store import RunStore
from trainers.storage.config_yaml import CONFIG_FILE
from trainers.storage.folder_lock import LOCK


def open_run(path: Path, game: Game, algorithm: str, config: Any) -> RunStore:
    """Open the run in a folder for writing, or create it.

    Args:
        path: Folder of the run.
        game: Game of the run.
        algorithm: Name of the league algorithm, see `league.league_algorithms`.
        config: Configuration, a dataclass; `iterations` may differ from an existing run's.

    Raises:
        ConfigError: The folder holds a run of another game, algorithm or configuration.
    """
    if not RunStore.run_exists(path):
        return RunStore.create(path, game, {"algorithm": algorithm, **dataclasses.asdict(config)})
    store = RunStore.open(path)
    try:
        check_same(store, game, algorithm, config)
    except BaseException:
        store.close()
        raise
    return store


def delete_empty_run(store: RunStore) -> None:
    """Close a run without progress, and remove its folder unless it holds other files."""
    store.close()
    for file in (*store.path.glob(f"{DATABASE}*"), store.path / LOCK, store.path / CONFIG_FILE):
        file.unlink(missing_ok=True)
    for folder in (store.path / "policies", store.path / "states", store.path):
        with contextlib.suppress(OSError):  # it holds other files
            folder.rmdir()


def check_same(store: RunStore, game: Game, algorithm: str, config: Any) -> None:
    """Check that a run has this game, algorithm and configuration; `iterations` may differ.

    Raises:
        ConfigError: The run differs.
    """
    if store.game != game:
        recorded_game = f"{store.game.env_id} {dict(store.game.env)}"
        raise ConfigError(
            f"{store.path}: expected a run of {game.env_id} {dict(game.env)}, got one of {recorded_game}; choose "
            "another folder"
        )
    if (actual := store.config.get("algorithm")) != algorithm:
        raise ConfigError(f"{store.path}: expected a run of {algorithm}, got one of {actual}; choose another folder")
    recorded = configuration(store, type(config))
    for field in dataclasses.fields(config):
        expected, actual = getattr(config, field.name), getattr(recorded, field.name)
        if field.name != "iterations" and expected != actual:
            raise ConfigError(
                f"{store.path}: expected {field.name} = {actual!r} as recorded, got {expected!r}; "
                "omit the setting, or choose another folder"
            )
