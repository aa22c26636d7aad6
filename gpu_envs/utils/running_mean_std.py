"""Running mean and variance of masked rows, on the device."""

from collections.abc import Callable

import torch

Statistics = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # mean, variance and count


def _local(values: torch.Tensor) -> torch.Tensor:
    """Return the sum over the one process there is."""
    return values


@torch.no_grad()
def merge_rows(
    statistics: Statistics,
    values: torch.Tensor,
    valid: torch.Tensor | None = None,
    all_reduce: Callable[[torch.Tensor], torch.Tensor] = _local,
) -> Statistics:
    """Merge statistics with a batch's, by the parallel update of Chan, Golub and LeVeque (1979).

    No host synchronization. An empty batch changes nothing.

    Args:
        statistics: Mean (D...), variance (D...) and count, a float64 scalar.
        values: (N, D...), in the dtype of the arithmetic.
        valid: (N,) bool, the rows to count; None counts all. Other rows may hold anything.
        all_reduce: Sum over all processes whose batches belong together.
    """
    mean, var, count = statistics
    columns = (-1, *(1 for _ in values.shape[1:]))
    weight = values.new_ones((len(values), *columns[1:])) if valid is None else valid.reshape(columns).to(values.dtype)
    values = values if valid is None else values.masked_fill(~valid.reshape(columns), 0.0)
    batch_count = all_reduce(weight.sum(dtype=torch.float64))
    size = batch_count.clamp(min=1.0).to(values.dtype)
    batch_mean = all_reduce(values.sum(0)) / size
    batch_var = all_reduce((weight * (values - batch_mean).square()).sum(0)) / size
    merged = (count + batch_count).clamp(min=1.0)
    share = (batch_count / merged).to(values.dtype)  # of the batch in the merged statistics
    prior = (count / merged).to(values.dtype)
    shift = batch_mean - mean
    merged_var = prior * var + share * batch_var + prior * share * shift.square()
    merged_var = torch.where(batch_count == 0, var, merged_var)
    return mean + share * shift, merged_var, count + batch_count


class RunningMeanStd:
    """Running mean, variance and count of all rows seen so far.

    Args:
        shape: Shape of one row.
        device: Device of the tensors.
    """

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self.mean = torch.zeros(shape, dtype=torch.float64, device=device)
        self.var = torch.ones(shape, dtype=torch.float64, device=device)
        self.count = torch.full((), 1e-4, dtype=torch.float64, device=device)  # the weight of these two

    def update(self, values: torch.Tensor, valid: torch.Tensor) -> None:
        """Count the valid rows of a batch.

        Args:
            values: (N, D...).
            valid: (N,) bool; may be all False.
        """
        statistics = self.mean, self.var, self.count
        self.mean: torch.Tensor
        self.var: torch.Tensor
        self.count: torch.Tensor
        self.mean, self.var, self.count = merge_rows(statistics, values.double(), valid)
