"""What simulated devices do. Nothing is imported here: a worker that sleeps needs no torch."""

from __future__ import annotations

import os
import time
from typing import Any


def asleep(pools: Any, seconds: float, cells: int) -> dict[str, Any]:
    """Sleeps, and gives what a payoff call of so many cells gives, and which process did it."""
    time.sleep(seconds)
    rows = [[0.25, -0.25]] * cells
    return {"count": [100] * cells, "total": rows, "square": rows, "score": rows, "process": os.getpid()}
