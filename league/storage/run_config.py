"""Configuration of league runs: training settings, recorded configuration, payoff table and summary file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.settings import complete_settings
from league.game import Game
from league.matchups.matchups import MatchupResults
from league.matchups.payoff_table import PayoffTable
from league.storage import presets
from league.storage.run_store import RunStore
from trainers.base.serialization import check_fields, write_json
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig, changed

C = TypeVar("C")
_FIXED = {"env_id", "env", "learner", "device", "seed", "sharing", "policies", "decide_every", "learn_after", "anneal"}
_FIXED |= {"callback", "eval_metric", "logger"}
OVERRIDES = tuple(field.name for field in dataclasses.fields(TrainConfig) if field.name not in _FIXED)
"""Fields of `TrainConfig` that `train_overrides` can set, in addition to all settings of the learners."""
SUMMARY_FILE = "summary.json"  # file in the folder of a run


def training(game: Game, device: str, settings: Mapping[str, Any]) -> TrainConfig:
    """Make the training configuration of a game from the presets of `trainers` and `league` and from settings.

    Args:
        game: Game to train in.
        device: Device for training and simulation.
        settings: Fields of `TrainConfig`, and of the learner with the prefix "learner.".

    Raises:
        ConfigError: A setting is unknown or invalid.
    """
    settings = {**presets.train_preset(game.env_id, device, settings.get("algorithm")), **settings}
    name = settings.get("algorithm", "ppo")
    base = preset(game.env_id, device, name)
    plain = {"policies": {}, "until_return": None, "eval_episodes": 0, "patience": 0, "eval_opponents": None}
    plain |= {"decide_every": {}, "learn_after": {}, "anneal": {}}
    plain = dataclasses.replace(base, env=dict(game.env), device=device, **plain)
    return changed(plain, settings, "train_overrides", OVERRIDES)


def configuration(store: RunStore, kind: type[C]) -> C:
    """Return the recorded configuration of a run.

    Raises:
        CheckpointError: The configuration is of another class, or damaged.
    """
    data = {key: value for key, value in store.config.items() if key != "algorithm"}
    device = store.config.get("device", "cpu")
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", device):
        raise CheckpointError(f"{store.file}: device: expected one of cpu, cuda, cuda:N, got {device!r:.80}")
    return from_json(kind, data, str(store.file))


def from_json(kind: type[C], data: Any, context: str) -> C:
    """Read a configuration, which may be nested, from the result of `dataclasses.asdict`.

    Settings that did not exist when the run was recorded have the values of `complete_settings`.

    Raises:
        CheckpointError: A field without a default is missing, or a field is unknown or of another type.
    """
    hints = get_type_hints(kind)
    if isinstance(data, Mapping):
        added = complete_settings(kind, data)
        data = {**data, **{name: added[name] for name in added.keys() - data.keys() if _is_plain(hints[name])}}
    plain = {name: dict[str, Any] if dataclasses.is_dataclass(hint) else hint for name, hint in hints.items()}
    try:
        values = check_fields(context, data, plain)
        parts = {
            name: from_json(hint, values[name], f"{context}: {name}")
            for name, hint in hints.items()
            if isinstance(hint, type) and dataclasses.is_dataclass(hint)
        }
        tuples = {name: tuple(values[name]) for name, hint in hints.items() if get_origin(hint) is tuple}
        return kind(**{**values, **tuples, **parts})
    except ConfigError as error:
        raise CheckpointError(f"{context}: {error}") from None


def _is_plain(hint: Any) -> bool:
    return not dataclasses.is_dataclass(hint)


def table_of(store: RunStore, indices: Mapping[str, Sequence[int]] | None = None) -> PayoffTable:
    """Return the payoff table with all recorded results, or the part for some policies by role."""
    counts = sizes(store)
    table, cells = (
        PayoffTable(store.game, {role: len((indices or {}).get(role, range(counts[role]))) for role in counts}),
        store.cells(),
    )
    if len(cells.matchups):
        sums = (torch.from_numpy(array) for array in (cells.count, cells.total, cells.square, cells.score))
        add_to_table(table, torch.from_numpy(cells.matchups), MatchupResults(*sums), indices)
    return table


def add_to_table(
    table: PayoffTable, matchups: Tensor, results: MatchupResults, indices: Mapping[str, Sequence[int]] | None = None
) -> None:
    """Add the results of matchups (K, S) to a table; with `indices` by role, only these policies' results."""
    if indices is not None:
        places = torch.empty_like(matchups)
        for column, seat in enumerate(table.game.seats):
            members = torch.tensor(indices[seat.role])
            positions = torch.searchsorted(members, matchups[:, column].contiguous()).clamp(max=len(members) - 1)
            places[:, column] = torch.where(members[positions] == matchups[:, column], positions, -1)
        is_member = (places >= 0).all(1)
        matchups = places[is_member]
        fields = ("count", "total", "square", "score")
        results = MatchupResults(*(getattr(results, name)[is_member] for name in fields))
    table.add(matchups, results)


def write_summary(store: RunStore, **more: Any) -> Path:
    """Write `summary.json` with the summaries of all iterations, and return its path."""
    rows = [{"iteration": number, **row} for number, row in store.iterations().items()]
    path = store.path / SUMMARY_FILE
    write_json(path, {"env_id": store.game.env_id, **store.config, **more, "iterations": rows})
    return path


def sizes(store: RunStore) -> dict[str, int]:
    """Return the number of policies of each role."""
    return {role: len(population) for role, population in store.populations.items()}
