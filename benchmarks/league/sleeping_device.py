"""What simulated devices do. A worker that sleeps needs no torch, and has none."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np


def asleep(pools: Any, seconds: float, cells: int) -> dict[str, Any]:
    """Sleeps, and gives what a payoff call of so many cells gives, and which process did it."""
    time.sleep(seconds)
    sums = {name: np.full((cells, 2), 0.25) for name in ("total", "square", "score")}
    return {"count": np.full(cells, 100), **sums, "process": os.getpid(), "torch": "torch" in sys.modules}
