"""Division of a batch of worlds among threads and processes."""

from itertools import pairwise

__all__ = ["split_worlds"]


def split_worlds(num_envs: int, parts: int) -> list[tuple[int, int]]:
    """Return the first world and the end of each part; the parts are consecutive.

    Args:
        num_envs: Number of worlds E.
        parts: Number of parts. Their sizes differ by at most 1, and larger parts come first.
    """
    size, larger = divmod(num_envs, parts)
    edges = [part * size + min(part, larger) for part in range(parts + 1)]
    return list(pairwise(edges))
