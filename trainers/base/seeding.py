"""Seeds derived from the seed of a run."""

from __future__ import annotations

__all__ = ["SEEDS", "derive_seed"]

SEEDS = 2**63
"""Upper bound of seeds, exclusive: the range that torch, JSON and the kernels' 64-bit keys share."""


def derive_seed(seed: int, index: int) -> int:
    """Return the seed of stream `index` of a run's seed, in [0, SEEDS)."""
    return (seed * 1009 + index) % SEEDS
