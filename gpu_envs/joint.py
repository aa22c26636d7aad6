"""Joint actions: those of some agents laid into those of all."""

from typing import Any

import torch


def put(full: torch.Tensor, rows: Any, actions: torch.Tensor) -> None:
    """Lay some agents' actions into those of all, in place.

    Args:
        full: (E, A) or (E, A, K), the joint action.
        rows: The agents' rows: a slice, a list or an index tensor of n rows.
        actions: (E, n) or (E, n, k) with k <= K; what lies beyond k is padding and stays as it is.
    """
    if full.ndim == 2:
        full[:, rows] = actions
    else:
        full[:, rows, : actions.shape[2]] = actions
