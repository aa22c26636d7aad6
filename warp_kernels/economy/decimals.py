"""Environment parameters as numbers with six decimals."""

import warp as wp

__all__ = ["decimal"]


@wp.func(inline=True)
def decimal(number: float) -> wp.float64:
    """Return a parameter rounded to six decimals in double precision: as float32, 0.21 is 6e-9 too small."""
    million = wp.float64(1000000.0)
    return wp.rint(wp.float64(number) * million) / million
