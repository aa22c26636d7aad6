"""Observations of the games in this folder: rows of zeros with a few ones."""

import warp as wp

from warp_kernels.episode import IO


@wp.func
def clear(io: IO, env: int, agent: int, width: int):
    """Set an agent's observation to zeros."""
    column = int(0)
    while column < width:
        io.obs[env, agent, column] = 0.0
        column += 1


@wp.func(inline=True)
def mark(io: IO, env: int, agent: int, column: int):
    """Set an entry of an agent's observation to 1."""
    io.obs[env, agent, column] = 1.0
