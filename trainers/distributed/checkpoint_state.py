"""Convert between the state of all ranks and each rank's share of it, when checkpoints are saved and loaded.

Checkpoints equal a single process's. Only rank 0 reads and writes files. No other rank needs memory for more than
its own worlds: per-world tensors, above all the replay, are sent in pieces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, distributed

from gpu_envs.errors import CheckpointError
from gpu_envs.runtime.core import Core
from trainers.base.shard import Shard, transport_device
from trainers.base.state import State
from trainers.buffers.replay_buffer import PRIORITY

NOT_OF_WORLDS = ("core.io.num_choices", "core.io.low", "core.io.high")
"""Entries of a core's state that are equal in all worlds: bounds of actions."""
PIECE = 2**26
"""Size of the pieces [bytes] in which the replay of all ranks is sent."""


def gather_state(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """Return, on rank 0, the state that a single process would save; on other ranks their own state.

    Args:
        shard: Shard of this rank.
        state: State of a collector.
        core: Core of the collector.
        axes: Axis of worlds in entries of the state that are not the core's, by prefix of their names.
    """
    if shard.ranks == 1:
        return state
    tensors = _of_worlds(state, core, axes)
    return state | {name: _gathered(shard, value, axis) for name, (value, axis) in tensors.items()}


def scatter_state(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """Return this rank's share of the state that `gather_state` returned on rank 0.

    Arguments are as in `gather_state`. On other ranks only the shapes of `state` are read.

    Raises:
        CheckpointError: The state has another number of worlds.
    """
    if shard.ranks == 1:
        return state
    tensors = _of_all_worlds(shard, state, core, axes)
    common = shard.broadcast_from_rank0(lambda: {name: value for name, value in state.items() if name not in tensors})
    return common | {name: _dealt(shard, value, axis) for name, (value, axis) in tensors.items()}


def select_state(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> State:
    """Return this rank's share of the state of a single process that every rank holds; ranks exchange nothing.

    Arguments are as in `gather_state`.

    Raises:
        CheckpointError: The state has another number of worlds.
    """
    if shard.ranks == 1:
        return state
    tensors = _of_all_worlds(shard, state, core, axes)
    share = {
        name: value.narrow(axis, shard.offset, shard.num_envs).clone() if value.shape[axis] else value
        for name, (value, axis) in tensors.items()
    }
    return state | share


def axis_of_worlds(name: str, core: Core, axes: Mapping[str, int]) -> int | None:
    """Return the axis of worlds of a state's entry; None: the entry is equal for all worlds."""
    if name.startswith("core."):  # parameters are one row for all worlds, unless they are randomized per world
        shared = name in NOT_OF_WORLDS or (name == "core.params" and not core.domain_randomization)
        return None if shared else 0
    if name.endswith(f".replay.{PRIORITY}"):  # every rank stores the priorities of all worlds
        return None
    return next((axis for begin, axis in axes.items() if name.startswith(begin)), None)


def _of_all_worlds(shard: Shard, state: State, core: Core, axes: Mapping[str, int]) -> dict[str, tuple[Tensor, int]]:
    """Return the per-world entries of the state of all ranks; raise CheckpointError if it has other worlds."""
    tensors = _of_worlds(state, core, axes)
    for name, (value, axis) in tensors.items():
        if value.numel() and value.shape[axis] != shard.num_envs_total:
            raise CheckpointError(f"{name}: expected {shard.num_envs_total} worlds, got {value.shape[axis]}")
    return tensors


def _of_worlds(state: State, core: Core, axes: Mapping[str, int]) -> dict[str, tuple[Tensor, int]]:
    """Return the per-world entries of a state, with their axis of worlds."""
    axis_of = {name: axis_of_worlds(name, core, axes) for name in state}
    return {
        name: (value, axis)
        for name, value in state.items()
        if isinstance(value, Tensor) and (axis := axis_of[name]) is not None
    }


def _gathered(shard: Shard, part: Tensor, axis: int) -> Tensor:
    """Return, on rank 0's host, the parts (E, ...) or (L, E, ...) of all ranks, in the order of worlds."""
    if axis == 0:
        return _gathered_rows(shard, part)
    if not shard.is_rank0:
        for piece in _pieces(shard, part):
            _gathered_rows(shard, piece.transpose(0, 1))
        return part
    full = torch.empty((len(part), shard.num_envs_total, *part.shape[2:]), dtype=part.dtype)
    for rows, piece in zip(_pieces(shard, full), _pieces(shard, part), strict=True):
        rows.copy_(_gathered_rows(shard, piece.transpose(0, 1)).transpose(0, 1))
    return full


def _dealt(shard: Shard, full: Tensor, axis: int) -> Tensor:
    """Return, on the host, this rank's part of the tensor that `_gathered` returned on rank 0."""
    if axis == 0:
        return _dealt_rows(shard, full)
    share = torch.empty((len(full), shard.num_envs, *full.shape[2:]), dtype=full.dtype)
    for rows, piece in zip(_pieces(shard, share), _pieces(shard, full), strict=True):
        rows.copy_(_dealt_rows(shard, piece.transpose(0, 1)).transpose(0, 1))
    return share


def _pieces(shard: Shard, replay: Tensor) -> tuple[Tensor, ...]:
    """Split a replay (L, E, ...) into pieces (l, E, ...), so that it need not fit into memory twice."""
    step = math.prod(replay.shape[2:]) * replay.dtype.itemsize * max(shard.sizes()) * shard.ranks
    return replay.split(max(PIECE // max(step, 1), 1))


def _gathered_rows(shard: Shard, part: Tensor) -> Tensor:
    """Return, on rank 0's host, the rows (E, ...) of all ranks, in order."""
    if not part.numel():  # such as the masks of an environment without masks
        return part.new_empty((shard.num_envs_total if len(part) else 0, *part.shape[1:]))
    sizes = shard.sizes()
    flat = _flat(part, max(sizes), transport_device(shard.device))
    parts = [torch.empty_like(flat) for _ in sizes] if shard.is_rank0 else None
    distributed.gather(flat, parts, dst=0)
    if parts is None:
        return part
    pieces = (piece.cpu().view(part.dtype).view(max(sizes), *part.shape[1:]) for piece in parts)
    return torch.cat([rows[:size] for rows, size in zip(pieces, sizes, strict=True)])


def _dealt_rows(shard: Shard, full: Tensor) -> Tensor:
    """Return, on the host, this rank's rows of the rows (E, ...) of rank 0."""
    if not full.numel():
        return torch.empty((shard.num_envs if len(full) else 0, *full.shape[1:]), dtype=full.dtype)
    sizes, device = shard.sizes(), transport_device(shard.device)
    share = torch.empty((max(sizes), *full.shape[1:]), dtype=full.dtype, device=device)
    parts = [_flat(part, max(sizes), device) for part in full.split(sizes)] if shard.is_rank0 else None
    distributed.scatter(share.view(-1).view(torch.uint8), parts, src=0)
    return share[: shard.num_envs].cpu()


def _flat(rows: Tensor, count: int, device: torch.device) -> Tensor:
    """Return rows (E, ...) of any dtype as bytes, padded with zeros to `count` rows."""
    padded = torch.zeros((count, *rows.shape[1:]), dtype=rows.dtype, device=device)
    padded[: len(rows)] = rows
    return padded.view(-1).view(torch.uint8)
