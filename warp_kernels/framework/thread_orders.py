"""Orders of the threads of phased kernels, for checks of phase isolation.

A CPU runs the threads of a launch in order. Only another order shows that a thread reads what a sibling
writes in the same phase.
"""

from dataclasses import replace
from math import gcd

from warp_kernels.rules import Rules

USUAL = "usual"  # from the first sibling to the last
REVERSED = "reversed"  # from the last sibling to the first
PERMUTATIONS = {"permutation 1": (0.618, 2), "permutation 2": (0.3, 3)}
"""Orders by name, with the factor as a share of the number of siblings, and the divisor that gives the shift."""
ORDERS = (REVERSED, *PERMUTATIONS)
"""Names of the orders. With three siblings or more, all differ from each other and from the usual order."""


def reorder(rules: Rules, order: str) -> Rules:
    """Return rules whose phased kernels run siblings in another order; isolated phases give equal results, bit for bit.

    All orders share one compilation. There are no fused kernels in another order.

    Args:
        rules: The environment's rules.
        order: An entry of ``ORDERS``, or USUAL for kernels of these rules in the usual order.

    Raises:
        ValueError: The order is unknown.
    """
    if order not in (USUAL, *ORDERS):
        raise ValueError(f"order: expected one of {', '.join((USUAL, *ORDERS))}, got {order!r}")
    return replace(rules, order=order)


def permutation(order: str, count: int) -> tuple[int, int]:
    """Return factor and shift of an order: thread ``t`` of ``count`` plays item ``(t * factor + shift) % count``."""
    if order == USUAL:
        return 1, 0
    if order == REVERSED:
        return count - 1, count - 1
    part, divisor = PERMUTATIONS[order]
    coprime = (factor for factor in range(1, count + 1) if gcd(factor, count) == 1)
    return min(coprime, key=lambda factor: abs(factor - part * count)), max(1, count // divisor)
