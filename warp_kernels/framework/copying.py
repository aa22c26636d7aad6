"""Copies of adjacent numbers within kernels."""

import warp as wp

__all__ = ["copy_numbers"]


@wp.func_native("""
    const wp::float32* __restrict__ read = (const wp::float32*)source;
    wp::float32* __restrict__ write = (wp::float32*)target;
    for (int i = 0; i < count; ++i) write[i] = read[i];
""")
def copy_numbers(source: wp.uint64, target: wp.uint64, count: int):
    """Copy adjacent float32, which loops over the columns of Warp's arrays do one by one on a CPU."""
