"""Tasks of simulated devices. A sleeping worker does not import torch."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np


def asleep(pools: Any, seconds: float, cells: int) -> dict[str, Any]:
    """Sleep, then return the result of a payoff task and the process ID."""
    time.sleep(seconds)
    sums = {name: np.full((cells, 2), 0.25) for name in ("total", "square", "score")}
    return {"count": np.full(cells, 100), **sums, "process": os.getpid(), "torch": "torch" in sys.modules}
