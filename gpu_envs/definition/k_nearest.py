"""Choice of the search for the K nearest agents."""

from typing import TypeVar

__all__ = ["choose_search"]

T = TypeVar("T")


def choose_search(num_agents: int, num_nearest: int) -> str:
    """Return the search for the K nearest: "brute" force for few agents, else a "grid" of cells.

    On a CPU both took equal time at about 40 + 10 K agents, measured with a slower brute-force search than the present.
    """
    return "grid" if num_nearest > 0 and num_agents > 40 + 10 * num_nearest else "brute"
