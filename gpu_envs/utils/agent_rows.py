"""Some agents among all: which rows of a joint tensor are theirs, and their actions laid into those of everyone."""

from collections.abc import Sequence

import torch


def rows_index(rows: Sequence[int], device: torch.device) -> slice | torch.Tensor:
    """What picks these rows of a tensor: a slice (a view, no copy) where they lie together, else (rows,) int64."""
    if list(rows) == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return torch.tensor(rows, device=device)


def put(full: torch.Tensor, rows: slice | torch.Tensor, actions: torch.Tensor) -> None:
    """Lay some agents' actions into those of all, in place.

    Args:
        full: (E, A) or (E, A, K), the joint action.
        rows: The agents' n rows, see :func:`rows_index`.
        actions: (E, n) or (E, n, k) with k <= K; what lies beyond k is padding and stays as it is.
    """
    if full.ndim == 2:
        full[:, rows] = actions
    else:
        full[:, rows, : actions.shape[2]] = actions
