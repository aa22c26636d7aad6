"""Seeds derived from the seed of a run, and random noise from one generator or one per learner of a batched call.

A shard has the noise of a single process: each rank draws for all worlds and keeps the rows of its worlds.
The same holds for minibatches, of which a rank has some rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from trainers.base.shard import Shard


SEEDS = 2**63
"""Upper bound of seeds, exclusive: the range that torch, JSON and the kernels' 64-bit keys share."""


def derive_seed(seed: int, index: int) -> int:
    """Return the seed of stream `index` of a run's seed, in [0, SEEDS)."""
    return (seed * 1009 + index) % SEEDS


@dataclass(frozen=True)
class StreamSlice:
    """Random stream for some rows, such as the worlds of one rank."""

    generator: torch.Generator
    """Generator with the same state on all ranks."""
    total_rows: int
    """Number of rows of all ranks."""
    rows: slice | Tensor
    """Rows of this rank: a slice or indices (N,)."""
    axis: int = 0
    """Axis of the rows in noise."""


SingleStream = torch.Generator | StreamSlice | None  # None: torch's global generator


class TeamStream:
    """Noise of agents that act one after another, drawn for all of them at once.

    So the noise of the worlds of a rank is that of one process with all worlds.
    """

    def __init__(self, stream: SingleStream, num_agents: int) -> None:
        """Set the stream of the E worlds, and the number of agents n of each."""
        self._stream, self._num_agents = stream, num_agents
        self._noise: list[Tensor] = []

    def draw(self, like: Tensor, fill: Callable[[Tensor, torch.Generator | None], Tensor]) -> Tensor:
        """Return the noise of the next agent, of the shape of `like` (E, ...), from a function that fills a tensor."""
        if not self._noise:
            noise = like.new_empty((len(like), self._num_agents, *like.shape[1:]))
            _fill(noise, self._stream, fill)
            self._noise = list(noise.unbind(1))
        return self._noise.pop(0)


Stream = SingleStream | TeamStream | Sequence[SingleStream]
"""One stream, that of a team, or one per entry of the first axis in a sequence, each used as if it were alone."""


def stream_of_shard(generator: torch.Generator, shard: Shard | None) -> SingleStream:
    """Return the stream for the worlds of a shard; the generator itself without other ranks."""
    if shard is None or shard.ranks == 1:
        return generator
    return StreamSlice(generator, shard.num_envs_total, slice(shard.offset, shard.offset + shard.num_envs))


def stream_of_rows(generator: torch.Generator, count: int, rows: Tensor | None, axis: int = 0) -> SingleStream:
    """Return the stream for `rows` (N,) of `count` on an axis, or the generator itself if `rows` is None."""
    return generator if rows is None else StreamSlice(generator, count, rows, axis)


def exponential(like: Tensor, stream: Stream) -> Tensor:
    """Return exponential noise of rate 1 and of the shape of `like`; a `StreamSlice` needs its rows on its axis."""
    return _noise_like(like, stream, lambda noise, generator: noise.exponential_(generator=generator))


def normal(like: Tensor, stream: Stream) -> Tensor:
    """Return standard normal noise of the shape of `like`; arguments as in `exponential`."""
    return _noise_like(like, stream, lambda noise, generator: noise.normal_(generator=generator))


def uniform(like: Tensor, stream: Stream) -> Tensor:
    """Return uniform noise in [0, 1) of the shape of `like`; arguments as in `exponential`."""
    return _noise_like(like, stream, lambda noise, generator: noise.uniform_(generator=generator))


def _noise_like(like: Tensor, stream: Stream, fill: Callable[[Tensor, torch.Generator | None], Tensor]) -> Tensor:
    if isinstance(stream, TeamStream):
        return stream.draw(like, fill)
    noise = torch.empty_like(like)
    if stream is None or isinstance(stream, torch.Generator | StreamSlice):
        _fill(noise, stream, fill)
    else:
        for share, member in zip(noise, stream, strict=True):
            _fill(share, member, fill)
    return noise


def _fill(noise: Tensor, stream: SingleStream, fill: Callable[[Tensor, torch.Generator | None], Tensor]) -> None:
    if isinstance(stream, StreamSlice):
        shape = list(noise.shape)
        shape[stream.axis] = stream.total_rows
        full = fill(noise.new_empty(shape), stream.generator)
        noise.movedim(stream.axis, 0).copy_(full.movedim(stream.axis, 0)[stream.rows])
    else:
        fill(noise, stream)
