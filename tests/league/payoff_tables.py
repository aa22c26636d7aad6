"""Payoffs that the tests of solvers share."""

import numpy as np
import torch


def zero_sum(table):
    table = torch.as_tensor(table, dtype=torch.float64)
    return torch.stack((table, -table))


def drawn(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def close(tensor, expected, atol=1e-6):
    np.testing.assert_allclose(tensor.numpy(), expected, atol=atol, rtol=0)


RPS = zero_sum([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


BIASED = zero_sum([[0, -1, 2], [1, 0, -1], [-2, 1, 0]])  # rock's win over scissors counts double
