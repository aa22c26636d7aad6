"""Draw margin of asymmetric games: the difference of returns that counts as a draw."""

from __future__ import annotations

import torch
from torch import Tensor

from league.rollout.matchups import MatchupResults

__all__ = ["balanced_draw_margin", "measured_draw_margin"]


def balanced_draw_margin(difference: Tensor) -> float:
    """Compute the draw margin for which both seats win equally often.

    The mean is unsuitable if some episodes have large differences, and the median if many episodes have the same one.

    Args:
        difference: (N,) return of the first seat minus that of the second, for each episode.
    """
    values = difference.double().sort().values
    seen = values.unique()
    lines = torch.cat([seen, (seen[1:] + seen[:-1]) / 2])
    lost, won = torch.searchsorted(values, lines), len(values) - torch.searchsorted(values, lines, right=True)
    return float(lines[(won - lost).abs().argmin()])


def measured_draw_margin(results: MatchupResults) -> float:
    """Compute the draw margin from the results of single episodes."""
    first, second = results.total.T
    return balanced_draw_margin(first - second)
