"""The normalizer against one-pass statistics, and initial weights of networks."""

import torch

from trainers.models.networks import mlp
from trainers.models.normalization import ObservationNormalizer


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_mlp_is_orthogonal_and_seeded():
    net = mlp([8, 16, 4], "relu", 0.01, generator(3))
    first, last = net[0].weight, net[2].weight
    torch.testing.assert_close(first.T @ first, 2.0 * torch.eye(8))  # gain sqrt(2)
    torch.testing.assert_close(last @ last.T, 1e-4 * torch.eye(4))
    assert torch.equal(first, mlp([8, 16, 4], "relu", 0.01, generator(3))[0].weight)


def test_normalizer_merges_batches_exactly_and_ignores_invalid_rows():
    data = torch.randn(60, 3, generator=generator()) * torch.tensor([1.0, 20.0, 0.1]) + torch.tensor([5.0, -3.0, 0.0])
    valid = torch.rand(60, generator=generator(1)) < 0.7
    poisoned = data.masked_fill(~valid.unsqueeze(1), torch.nan)
    normalizer = ObservationNormalizer(3)
    empty = torch.full((4, 3), torch.nan), torch.zeros(4, dtype=torch.bool)
    normalizer.update(*empty)
    assert torch.equal(normalizer.var, torch.ones(3))
    for part, mask in zip(poisoned.split([1, 25, 34]), valid.split([1, 25, 34]), strict=True):
        normalizer.update(part, mask)
    normalizer.update(*empty)
    rows = data[valid]
    assert int(normalizer.count) == len(rows)
    torch.testing.assert_close(normalizer.mean, rows.mean(0))
    torch.testing.assert_close(normalizer.var, rows.var(0, correction=0), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(normalizer(rows).mean(0), torch.zeros(3), atol=1e-5, rtol=0)


def test_normalizer_without_mask_equals_full_mask():
    data = torch.randn(4, 5, 2, generator=generator())
    first, second = ObservationNormalizer(2), ObservationNormalizer(2)
    first.update(data)
    second.update(data, torch.ones(4, 5, dtype=torch.bool))
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.var, second.var)


def test_normalized_observations_are_at_most_ten_deviations_from_the_mean():
    """As many as in kernels, whose networks must see the same."""
    normalizer = ObservationNormalizer(1)
    normalizer.update(torch.tensor([[1.0], [3.0]]))
    torch.testing.assert_close(
        normalizer(torch.tensor([[-90.0], [11.0], [90.0]])), torch.tensor([[-10.0], [9.0], [10.0]])
    )
