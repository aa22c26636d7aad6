"""Sizes of OvercookedV2 that its kernels capture."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """Sizes of a kitchen, and what agents observe of it."""

    width: int
    """Number of columns of the kitchen."""
    height: int
    """Number of rows."""
    num_agents: int
    """Number of agents A."""
    num_pots: int
    """Number of pots."""
    num_counters: int
    """Number of counters."""
    num_buttons: int
    """Number of button indicators."""
    num_ingredients: int
    """Number of ingredients N."""
    view_size: int | None
    """Number of cells that an agent sees in each direction; None: the whole kitchen."""
    permutes: bool
    """Agents see ingredients in an order of their episode."""
    indicates_delivery: bool
    """One layer more says that the last step had a correct delivery."""
    channels_first: bool
    """Observe (layers, rows, columns) instead of (rows, columns, layers)."""

    @property
    def num_cells(self) -> int:
        """Number of cells C."""
        return self.width * self.height

    @property
    def num_surfaces(self) -> int:
        """Number of pots and counters S."""
        return self.num_pots + self.num_counters

    @property
    def num_timers(self) -> int:
        """Number of pots and buttons T."""
        return self.num_pots + self.num_buttons
