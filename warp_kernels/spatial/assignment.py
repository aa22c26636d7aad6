"""Assignment of rows to columns at the least total cost, one problem per thread.

The algorithm is the Hungarian one with shortest augmenting paths (Kuhn 1955; Jonker and Volgenant 1987): it adds a row
at a time and takes O(N^3) steps. It computes in float64, because totals may differ by less than the precision of
float32. Of several best assignments it returns one of them, and their total costs are equal.
"""

from functools import cache
from typing import Any

import warp as wp


@cache
def assignment_type(count: int) -> Any:
    """Return the type of an assignment of N rows: entry 1 + column is 1 + row, and entry 0 is unused."""
    return wp.types.vector(length=count + 1, dtype=wp.int32)


def least_cost_assignment(State: type, count: int, cost_of: Any) -> Any:
    """Build ``match(state, env)``, an assignment of ``count`` rows to ``count`` columns (``assignment_type``).

    A row whose costs are not finite may stay without a column; the search ends for all costs.

    Args:
        State: State of the environment.
        count: Number of rows and of columns N.
        cost_of: ``f(state, env, row, column) -> float64``.
    """
    Rows = assignment_type(count)
    Costs = wp.types.vector(length=count + 1, dtype=wp.float64)

    @wp.func
    def match(state: State, env: int):
        row_price = Costs()
        column_price = Costs()
        row_of = Rows()  # 1 + row of every column; 0: the column is free
        for new in range(1, count + 1):
            least = Costs()  # lowest reduced cost of a path from the new row to every column
            came_from = Rows()
            visited = Rows()
            for column in range(1, count + 1):
                least[column] = wp.float64(wp.inf)
            row_of[0] = new  # the path starts at an imaginary column
            last = int(0)
            searching = bool(True)
            while searching:
                visited[last] = 1
                row = row_of[last]
                step = wp.float64(wp.inf)
                best = int(0)
                for column in range(1, count + 1):
                    if visited[column] == 0:
                        reduced = cost_of(state, env, row - 1, column - 1) - row_price[row] - column_price[column]
                        if reduced < least[column]:
                            least[column] = reduced
                            came_from[column] = last
                        if least[column] < step:
                            step = least[column]
                            best = column
                if best > 0:
                    for column in range(count + 1):
                        if visited[column] == 1:
                            owner = row_of[column]
                            row_price[owner] = row_price[owner] + step
                            column_price[column] = column_price[column] - step
                        else:
                            least[column] = least[column] - step
                last = best
                searching = best > 0 and row_of[best] > 0
            while last > 0:  # every column of the path passes its row on
                previous = came_from[last]
                row_of[last] = row_of[previous]
                last = previous
        return row_of

    return match
