"""What each rank holds of a checkpoint, which is that of one process: gathered to be saved, dealt out to go on.

Only the first rank reads and writes files, and no other needs memory for more than its own worlds: what is of worlds,
the replay above all, is sent in pieces, to each rank its part.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed

from gpu_envs.errors import CheckpointError
from trainers.replay import PRIORITY
from trainers.sharding import Shard, wire

if TYPE_CHECKING:
    from gpu_envs.core import Core
    from trainers.checkpoint import Checkpoint
    from trainers.learner import State

NOT_OF_WORLDS = ("core.io.num_choices", "core.io.low", "core.io.high")
"""Of a core's state: bounds of actions, which are the same in all worlds."""
PIECE = 2**26
"""Bytes of all ranks' replay that are sent at a time."""


def load_on_first(shard: Shard, load: Callable[[], Checkpoint | None]) -> Checkpoint | None:
    """What the first rank loads. On the others its tensors are mere shapes (device "meta"): enough for `own_state`.

    Args:
        shard: Of this rank.
        load: Called on the first rank, such as `lambda: checkpoint.load(path)`; None where there is nothing yet.

    Raises:
        GpuEnvsError: What `load` raised, on all ranks.
    """
    saved: list[Checkpoint | None] = []

    def outline() -> Checkpoint | None:
        saved.append(load())
        return saved[0] and dataclasses.replace(saved[0], state={k: _shape_of(v) for k, v in saved[0].state.items()})

    told = load() if shard.ranks == 1 else shard.from_first(outline)
    return saved[0] if saved else told


def whole_state(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """What one process would save, on the first rank; on the others their own.

    Args:
        shard: Of this rank.
        state: Of a collector.
        core: Its core.
        axes: The axis of worlds in what else of it begins with these names.
    """
    if shard.ranks == 1:
        return state
    found = _of_worlds(state, core, axes)
    return state | {name: _gathered(shard, value, axis) for name, (value, axis) in found.items()}


def own_state(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """This rank's part of what `whole_state` gave the first rank; of the others' state only the shapes are read.

    Raises:
        CheckpointError: It is of another number of worlds.
    """
    if shard.ranks == 1:
        return state
    found = _of_worlds(state, core, axes)
    for name, (value, axis) in found.items():
        if value.numel() and value.shape[axis] != shard.num_envs_total:
            raise CheckpointError(f"{name}: expected {shard.num_envs_total} worlds, got {value.shape[axis]}")
    common = shard.from_first(lambda: {name: value for name, value in state.items() if name not in found})
    return common | {name: _dealt(shard, value, axis) for name, (value, axis) in found.items()}


def axis_of_worlds(name: str, core: Core, axes: Mapping[str, int]) -> int | None:
    """Of what a state holds by a name; None: it is the same for all worlds."""
    if name.startswith("core."):  # constants are one row for all, unless every world draws its own
        shared = name in NOT_OF_WORLDS or (name == "core.params" and not core.randomise)
        return None if shared else 0
    if name.endswith(f".replay.{PRIORITY}"):  # every rank knows that of all worlds
        return None
    return next((axis for begin, axis in axes.items() if name.startswith(begin)), None)


def _of_worlds(state: State, core: Core, axes: Mapping[str, int]) -> dict[str, tuple[Tensor, int]]:
    """What of a state is of worlds, with their axis."""
    found = {name: axis_of_worlds(name, core, axes) for name in state}
    return {
        name: (value, axis)
        for name, value in state.items()
        if isinstance(value, Tensor) and (axis := found[name]) is not None
    }


def _shape_of(value: Tensor | float | str) -> Tensor | float | str:
    return value.to("meta") if isinstance(value, Tensor) else value


def _gathered(shard: Shard, part: Tensor, axis: int) -> Tensor:
    """Parts (E, ...), or (L, E, ...) of a replay, of all ranks, worlds one after the other, on the first's host."""
    if axis == 0:
        return _gathered_rows(shard, part)
    if not shard.first:
        for piece in _pieces(shard, part):
            _gathered_rows(shard, piece.transpose(0, 1))
        return part
    whole = torch.empty((len(part), shard.num_envs_total, *part.shape[2:]), dtype=part.dtype)
    for rows, piece in zip(_pieces(shard, whole), _pieces(shard, part), strict=True):
        rows.copy_(_gathered_rows(shard, piece.transpose(0, 1)).transpose(0, 1))
    return whole


def _dealt(shard: Shard, whole: Tensor, axis: int) -> Tensor:
    """This rank's part of what `_gathered` gave the first rank, on the host."""
    if axis == 0:
        return _dealt_rows(shard, whole)
    own = torch.empty((len(whole), shard.num_envs, *whole.shape[2:]), dtype=whole.dtype)
    for rows, piece in zip(_pieces(shard, own), _pieces(shard, whole), strict=True):
        rows.copy_(_dealt_rows(shard, piece.transpose(0, 1)).transpose(0, 1))
    return own


def _pieces(shard: Shard, replay: Tensor) -> tuple[Tensor, ...]:
    """Steps (l, E, ...) of a replay (L, E, ...) that are sent at a time: it need not fit a second time into memory."""
    step = math.prod(replay.shape[2:]) * replay.dtype.itemsize * max(shard.sizes()) * shard.ranks
    return replay.split(max(PIECE // max(step, 1), 1))


def _gathered_rows(shard: Shard, part: Tensor) -> Tensor:
    """Parts (E, ...) of all ranks, one after the other, on the first rank's host."""
    if not part.numel():  # such as the masks of games that have none
        return part.new_empty((shard.num_envs_total if len(part) else 0, *part.shape[1:]))
    sizes = shard.sizes()
    flat = _flat(part, max(sizes), wire(shard.device))
    parts = [torch.empty_like(flat) for _ in sizes] if shard.first else None
    distributed.gather(flat, parts, dst=0)
    if parts is None:
        return part
    wholes = (each.cpu().view(part.dtype).view(max(sizes), *part.shape[1:]) for each in parts)
    return torch.cat([whole[:size] for whole, size in zip(wholes, sizes, strict=True)])


def _dealt_rows(shard: Shard, whole: Tensor) -> Tensor:
    """This rank's part of rows (E, ...) that the first rank has, on the host."""
    if not whole.numel():
        return torch.empty((shard.num_envs if len(whole) else 0, *whole.shape[1:]), dtype=whole.dtype)
    sizes, device = shard.sizes(), wire(shard.device)
    own = torch.empty((max(sizes), *whole.shape[1:]), dtype=whole.dtype, device=device)
    parts = [_flat(part, max(sizes), device) for part in whole.split(sizes)] if shard.first else None
    distributed.scatter(own.view(-1).view(torch.uint8), parts, src=0)
    return own[: shard.num_envs].cpu()


def _flat(rows: Tensor, most: int, device: torch.device) -> Tensor:
    """Rows (E, ...) of whatever type, and zeros up to the number of the rank that has most, as bytes."""
    padded = torch.zeros((most, *rows.shape[1:]), dtype=rows.dtype, device=device)
    padded[: len(rows)] = rows
    return padded.view(-1).view(torch.uint8)
