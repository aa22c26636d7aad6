"""Where noise comes from: one random stream, or one for each of several learners that draw at once.

Of a shard's worlds it is the noise that they get in one process: drawn for all worlds, of which it takes its own. So
it is with a minibatch, of which a rank has some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from trainers.sharding import Shard


@dataclass(frozen=True)
class Part:
    """The stream of some rows of many, such as worlds."""

    generator: torch.Generator
    """The same in all ranks."""
    many: int
    """Rows of all ranks."""
    own: slice | Tensor
    """Which of them are meant, a slice or their indices (N,)."""


One = torch.Generator | Part | None  # None: torch's own
Stream = One | Sequence[One]
"""Several draw for one entry each of the first axis: what each would draw if it were alone."""


def of_shard(generator: torch.Generator, shard: Shard | None) -> One:
    """A generator's stream for the worlds of a shard; None: for all worlds."""
    if shard is None or shard.ranks == 1:
        return generator
    return Part(generator, shard.num_envs_total, slice(shard.offset, shard.offset + shard.num_envs))


def of_rows(generator: torch.Generator, many: int, own: Tensor | None) -> One:
    """A generator's stream for some of many rows that all ranks draw for, by their indices (N,); None: for all."""
    return generator if own is None else Part(generator, many, own)


def exponential(like: Tensor, stream: Stream) -> Tensor:
    """Noise of rate 1, of the shape of a tensor, which is led by the rows of a `Part`."""
    return _drawn(like, stream, lambda noise, generator: noise.exponential_(generator=generator))


def normal(like: Tensor, stream: Stream) -> Tensor:
    """Standard normal noise, of the shape of a tensor, as `exponential`."""
    return _drawn(like, stream, lambda noise, generator: noise.normal_(generator=generator))


def uniform(like: Tensor, stream: Stream) -> Tensor:
    """Noise in [0, 1), of the shape of a tensor, as `exponential`."""
    return _drawn(like, stream, lambda noise, generator: noise.uniform_(generator=generator))


def _drawn(like: Tensor, stream: Stream, fill: Callable[[Tensor, torch.Generator | None], Tensor]) -> Tensor:
    noise = torch.empty_like(like)
    if stream is None or isinstance(stream, torch.Generator | Part):
        _draw(noise, stream, fill)
    else:
        for share, one in zip(noise, stream, strict=True):
            _draw(share, one, fill)
    return noise


def _draw(noise: Tensor, stream: One, fill: Callable[[Tensor, torch.Generator | None], Tensor]) -> None:
    if isinstance(stream, Part):
        everyone = noise.new_empty((stream.many, *noise.shape[1:]))
        noise.copy_(fill(everyone, stream.generator)[stream.own])
    else:
        fill(noise, stream)
