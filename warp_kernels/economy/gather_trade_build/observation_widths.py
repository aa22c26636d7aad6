"""Widths of the observations of GatherTradeBuild-v0."""

from warp_kernels.economy.gather_trade_build.economy_types import Sizes

__all__ = ["agent_width", "global_width", "num_layers", "planner_width", "view_of"]


def num_layers(sizes: Sizes) -> int:
    """Return the number of layers of the map: stone, wood, house, water, sources of stone, sources of wood.

    Then come owners and agents. Worlds that never have water have no layer of it.
    """
    return 5 + sizes.has_water


def view_of(sizes: Sizes) -> tuple[int, int, int]:
    """Return the side of an agent's window, the numbers of its layers of the map, and of its cells."""
    if sizes.sight < 0:
        return 0, num_layers(sizes), sizes.height * sizes.width
    side = 2 * sizes.sight + 1
    return side, num_layers(sizes) + 1, side * side


def agent_width(sizes: Sizes) -> int:
    """Return the width of an agent's observation."""
    _, layers, cells = view_of(sizes)
    flat = 15 + 10 * sizes.num_prices + sizes.num_brackets + sizes.num_agents - 2 * (sizes.sight < 0)
    return (layers + 2) * cells + flat


def planner_width(sizes: Sizes, with_map: bool) -> int:
    """Return the width of the planner's observation."""
    entries = 3 if sizes.sight < 0 else 8 if with_map else 6
    flat = 9 + 6 * sizes.num_prices + sizes.num_brackets + (1 + entries) * sizes.num_agents
    return flat + (num_layers(sizes) + 2) * sizes.height * sizes.width * with_map


def global_width(sizes: Sizes) -> int:
    """Return the width of the global state."""
    return planner_width(sizes, True) + (4 + 4 * sizes.num_prices) * sizes.num_agents
