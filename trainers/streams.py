"""Where noise comes from: one random stream, or one for each of several learners that draw at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

Stream = torch.Generator | Sequence[torch.Generator] | None
"""Several generators draw for one entry each of the first axis: what each would draw if it were alone."""


def exponential(like: Tensor, stream: Stream) -> Tensor:
    """Noise of rate 1, of the shape of a tensor."""
    noise = torch.empty_like(like)
    for share, generator in _shares(noise, stream):
        share.exponential_(generator=generator)
    return noise


def normal(like: Tensor, stream: Stream) -> Tensor:
    """Standard normal noise, of the shape of a tensor."""
    noise = torch.empty_like(like)
    for share, generator in _shares(noise, stream):
        share.normal_(generator=generator)
    return noise


def _shares(noise: Tensor, stream: Stream) -> Iterable[tuple[Tensor, torch.Generator | None]]:
    """What each generator is to fill."""
    if stream is None or isinstance(stream, torch.Generator):
        return [(noise, stream)]
    return zip(noise, stream, strict=True)
