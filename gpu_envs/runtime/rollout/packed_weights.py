"""Dense networks in kernels: rows of packed weights, see ``warp_kernels.networks.mlp``, and tiles of a device."""

from __future__ import annotations

from functools import cache

import torch
import warp as wp
from torch import Tensor

import warp_kernels
from gpu_envs.errors import ConfigError
from warp_kernels.networks.mlp import Mlp, padded
from warp_kernels.networks.tile_memory import fits

MAX_THREAD_WIDTH = 32
"""Widest hidden layer with which a GPU thread acts without spilled registers; blocks act with wider ones in tiles."""


@cache
def parameter_places(mlp: Mlp) -> Tensor:
    """Return the place of every parameter, (N,) int64: weight (out, in) and bias of each layer, then extra ones."""
    places = []
    for layer in range(mlp.num_layers):
        places += [_matrix_places(mlp, layer).flatten(), mlp.bias_offsets[layer] + torch.arange(_outputs(mlp, layer))]
    return torch.cat([*places, mlp.extra_offset + torch.arange(mlp.extra)])


@cache
def copy_places(mlp: Mlp) -> tuple[Tensor, Tensor]:
    """Return the places of the copies of matrices and of their originals, (C,) int64 each."""
    targets, sources = [], []
    for layer in range(1, mlp.num_layers):
        out, into = torch.meshgrid(torch.arange(_outputs(mlp, layer)), torch.arange(mlp.widths[layer]), indexing="ij")
        copies, originals = mlp.copy_place(layer, out, into), _matrix_places(mlp, layer)
        # in the order of the copies, so that a kernel writes them one after another
        order = copies.flatten().argsort()
        targets.append(copies.flatten()[order])
        sources.append(originals.flatten()[order])
    return torch.cat(targets), torch.cat(sources)


def normalizer_places(mlp: Mlp) -> tuple[slice, slice]:
    """Return the places of the means of inputs and of their reciprocal standard deviations."""
    first = mlp.normalizer_offset
    second = first + padded(mlp.inputs)
    return slice(first, first + mlp.inputs), slice(second, second + mlp.inputs)


def pack_networks(row: Tensor, mlp: Mlp, parameters: Tensor, mean: Tensor, var: Tensor) -> None:
    """Write a network into a row of packed weights.

    Args:
        row: (..., W) float32, whose numbers after the network's are kept.
        mlp: Sizes of the network.
        parameters: (..., N) in the order of :func:`parameter_places`.
        mean: (..., D) mean of every input.
        var: (..., D) variance of every input.
    """
    numbers = torch.cat([parameters, mean, _deviations(var), parameters.new_zeros((*parameters.shape[:-1], 1))], -1)
    row[..., : mlp.row_size] = numbers[..., _sources(mlp, row.device)]


def pack_normalizer(row: Tensor, mlp: Mlp, mean: Tensor, var: Tensor) -> None:
    """Write the statistics of inputs into a row (..., W) of packed weights; arguments as in :func:`pack_networks`."""
    means, deviations = normalizer_places(mlp)
    row[..., means] = mean
    row[..., deviations] = _deviations(var)


def _deviations(var: Tensor) -> Tensor:
    """Return reciprocal standard deviations."""
    return torch.rsqrt(var + 1e-8)


@cache
def _sources(mlp: Mlp, device: torch.device) -> Tensor:
    """Return the number of every place of a row (W,): parameters, means and deviations; the last one is padding."""
    parameters, (targets, originals) = parameter_places(mlp), copy_places(mlp)
    count = len(parameters)
    sources = torch.full((mlp.row_size,), count + 2 * mlp.inputs)
    sources[parameters] = torch.arange(count)
    sources[targets] = sources[originals]
    for number, places in enumerate(normalizer_places(mlp)):
        sources[places] = count + number * mlp.inputs + torch.arange(mlp.inputs)
    return sources.to(device)


def _outputs(mlp: Mlp, layer: int) -> int:
    return mlp.widths[layer + 1]


def _matrix_places(mlp: Mlp, layer: int) -> Tensor:
    """Return the places of a matrix, (out, in) int64."""
    out, into = torch.meshgrid(torch.arange(_outputs(mlp, layer)), torch.arange(mlp.widths[layer]), indexing="ij")
    return mlp.weight_place(layer, out, into)


def fits_threads(mlp: Mlp, device: torch.device) -> bool:
    """Return whether a thread of a device computes the outputs of a row."""
    return device.type != "cuda" or max(mlp.hidden) <= MAX_THREAD_WIDTH


def fits_device(mlp: Mlp, device: torch.device) -> bool:
    """Return whether policies with a network act inside the kernels of a device."""
    return fits_threads(mlp, device) or _rows_that_fit(mlp, device) is not None


def tile_rows(mlp: Mlp, device: torch.device) -> int | None:
    """Return the number of rows of a tile of the kernels on a GPU; None on a CPU, whose threads compute rows.

    Raises:
        ConfigError: The network does not fit the shared memory of the GPU.
    """
    if device.type == "cpu":
        return None
    rows = _rows_that_fit(mlp, device)
    if rows is None:
        raise ConfigError(
            f"network {mlp.key}: expected one that fits the shared memory of {device}; use engine='torch'"
        )
    return rows


def acting_tile_rows(mlp: Mlp, device: torch.device) -> int:
    """Return the number of rows of a tile in which agents act on a device; 0 where a thread computes a row.

    Raises:
        ConfigError: The network fits neither a thread nor the shared memory of the GPU.
    """
    return 0 if fits_threads(mlp, device) else tile_rows(mlp, device) or 0


def _rows_that_fit(mlp: Mlp, device: torch.device) -> int | None:
    warp_kernels.start()
    return fits(mlp, wp.device_from_torch(device).arch)
