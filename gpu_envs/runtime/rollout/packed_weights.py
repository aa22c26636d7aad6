"""Places of the parameters of dense networks in rows of packed weights, see ``warp_kernels.networks.mlp``."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from warp_kernels.networks.mlp import Mlp, padded

__all__ = ["copy_places", "normalizer_places", "pack_networks", "pack_normalizer", "parameter_places"]


_CPU = torch.device("cpu")


@cache
def parameter_places(mlp: Mlp, device: torch.device = _CPU) -> Tensor:
    """Return the place of every parameter, (N,) int64: weight (out, in) and bias of each layer, then extra ones."""
    places = []
    for layer in range(mlp.num_layers):
        places += [_matrix_places(mlp, layer).flatten(), mlp.bias_offsets[layer] + torch.arange(_outputs(mlp, layer))]
    return torch.cat([*places, mlp.extra_offset + torch.arange(mlp.extra)]).to(device)


@cache
def copy_places(mlp: Mlp, device: torch.device = _CPU) -> tuple[Tensor, Tensor]:
    """Return the places of the copies of matrices and of their originals, (C,) int64 each."""
    targets, sources = [], []
    for layer in range(1, mlp.num_layers):
        out, into = torch.meshgrid(torch.arange(_outputs(mlp, layer)), torch.arange(mlp.widths[layer]), indexing="ij")
        copies, originals = mlp.copy_place(layer, out, into), _matrix_places(mlp, layer)
        # in the order of the copies, so that a kernel writes them one after another
        order = copies.flatten().argsort()
        targets.append(copies.flatten()[order])
        sources.append(originals.flatten()[order])
    return torch.cat(targets).to(device), torch.cat(sources).to(device)


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
