"""Widths of the observations of GatherTradeBuild-v0."""

from warp_kernels.economy.gather_trade_build.economy_types import Sizes

__all__ = ["NUM_LAYERS", "agent_width", "global_width", "planner_width", "view_of"]

NUM_LAYERS = 6
"""Layers of the map: stone, wood, house, water, sources of stone, sources of wood. Then come owners and agents."""


def view_of(sizes: Sizes) -> tuple[int, int, int]:
    """Return the side of an agent's window, the numbers of its layers of the map, and of its cells."""
    if sizes.sight < 0:
        return 0, NUM_LAYERS, sizes.height * sizes.width
    side = 2 * sizes.sight + 1
    return side, NUM_LAYERS + 1, side * side


def agent_width(sizes: Sizes) -> int:
    """Return the width of an agent's observation."""
    _, layers, cells = view_of(sizes)
    flat = 15 + 10 * sizes.num_prices + sizes.num_brackets + sizes.num_agents - 2 * (sizes.sight < 0)
    return (layers + 2) * cells + flat


def planner_width(sizes: Sizes, with_map: bool) -> int:
    """Return the width of the planner's observation."""
    entries = 3 if sizes.sight < 0 else 8 if with_map else 6
    flat = 9 + 6 * sizes.num_prices + sizes.num_brackets + (1 + entries) * sizes.num_agents
    return flat + (NUM_LAYERS + 2) * sizes.height * sizes.width * with_map


def global_width(sizes: Sizes) -> int:
    """Return the width of the global state."""
    return planner_width(sizes, True) + (4 + 4 * sizes.num_prices) * sizes.num_agents
