"""Rows of some agents in a joint tensor of all agents."""

from collections.abc import Sequence

import torch

__all__ = ["rows_index", "scatter_actions"]


def rows_index(rows: Sequence[int], device: torch.device) -> slice | torch.Tensor:
    """Return an index of rows: a slice (no copy) for consecutive rows, else (rows,) int64."""
    if list(rows) == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return torch.tensor(rows, device=device)


def scatter_actions(full: torch.Tensor, rows: slice | torch.Tensor, actions: torch.Tensor) -> None:
    """Write the actions of some agents into the joint action, in place.

    Args:
        full: Joint action, (E, A) or (E, A, K).
        rows: Index of the agents' n rows, see :func:`rows_index`.
        actions: (E, n) or (E, n, k) with k <= K; entries beyond k are padding and stay unchanged.
    """
    if full.ndim == 2:
        full[:, rows] = actions
    else:
        full[:, rows, : actions.shape[2]] = actions
