"""Vectors in observations."""

import warp as wp

from warp_kernels.episode import IO


@wp.func(inline=True)
def write_vector(io: IO, env: int, agent: int, column: int, vector: wp.vec2) -> int:
    """Write a vector into two columns of an observation; return the column after it."""
    io.obs[env, agent, column] = vector[0]
    io.obs[env, agent, column + 1] = vector[1]
    return column + 2


@wp.func(inline=True)
def write_vectors(io: IO, env: int, agent: int, column: int, vector: wp.vec2, other: wp.vec2) -> int:
    """Write two vectors into four columns of an observation; return the column after them."""
    return write_vector(io, env, agent, write_vector(io, env, agent, column, vector), other)
