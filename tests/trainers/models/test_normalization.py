"""Heads against torch.distributions, masks and bounds, and the normalizer against one-pass statistics."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import Categorical, Normal

from gpu_envs.errors import ConfigError
from trainers.models.action_heads import action_spec, make_head
from trainers.models.continuous_heads import GaussianHead
from trainers.models.discrete_heads import CategoricalHead
from trainers.models.networks import mlp
from trainers.models.normalization import ObservationNormalizer


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("sizes", [[5], [3, 3], [2, 4, 3]])
def test_categorical_equals_torch_distributions(sizes):
    head = CategoricalHead(sizes, multi=True)
    logits = torch.randn(7, sum(sizes), generator=generator())
    action = torch.stack([torch.randint(n, (7,), generator=generator()) for n in sizes], -1)
    log_prob, entropy = head.evaluate(logits, action, None)
    parts = [Categorical(logits=part) for part in logits.split(sizes, -1)]
    torch.testing.assert_close(log_prob, sum(d.log_prob(action[:, k]) for k, d in enumerate(parts)))
    torch.testing.assert_close(entropy, sum(d.entropy() for d in parts))
    assert torch.equal(head.mode(logits, None), torch.stack([part.argmax(-1) for part in logits.split(sizes, -1)], -1))


def test_categorical_samples_have_the_right_frequencies_and_log_probabilities():
    head = CategoricalHead([3, 2], multi=True)
    logits = torch.tensor([0.0, 1.0, -1.0, 0.5, 0.0]).expand(40_000, 5)
    action, log_prob = head.sample(logits, generator(), None)
    torch.testing.assert_close(log_prob, head.evaluate(logits, action, None)[0])
    for k, part in enumerate(logits[0].split([3, 2])):
        frequency = torch.bincount(action[:, k], minlength=len(part)) / len(action)
        # standard error below 0.0025, so 4 of them are 0.01
        torch.testing.assert_close(frequency, part.softmax(-1), atol=0.01, rtol=0)


def test_illegal_actions_are_never_sampled_and_add_no_entropy():
    head = CategoricalHead([4], multi=False)
    logits = torch.tensor([10.0, 0.0, 0.0, 20.0]).expand(5_000, 4).clone().requires_grad_()
    mask = torch.tensor([False, True, True, False]).expand(5_000, 4)
    action, _ = head.sample(logits, generator(), mask)
    assert set(action.tolist()) == {1, 2}
    log_prob, entropy = head.evaluate(logits, action, mask)
    torch.testing.assert_close(entropy, torch.full((5_000,), np.log(2.0), dtype=torch.float32))
    (log_prob.sum() + entropy.sum()).backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())
    assert float(logits.grad[:, [0, 3]].abs().max()) == 0.0


def test_gaussian_equals_torch_distributions():
    head = GaussianHead([-1.0, -1.0], [1.0, 1.0], init_log_std=-0.3)
    mean, action = torch.randn(6, 2, generator=generator()), torch.randn(6, 2, generator=generator(1))
    log_prob, entropy = head.evaluate(mean, action, None)
    normal = Normal(mean, torch.exp(torch.tensor(-0.3)))
    torch.testing.assert_close(log_prob, normal.log_prob(action).sum(-1))
    torch.testing.assert_close(entropy, normal.entropy().sum(-1))


def test_gaussian_actions_stay_in_the_box():
    head = GaussianHead([0.0, -0.1], [1.0, 0.3], init_log_std=2.0)
    corners = head.to_env(torch.tensor([[-1.0, 1.0], [0.0, 0.0]]))
    torch.testing.assert_close(corners, torch.tensor([[0.0, 0.3], [0.5, 0.1]]))
    action, _ = head.sample(torch.zeros(10_000, 2), generator(), None)
    sent = head.to_env(action)
    assert bool(((sent >= head.low) & (sent <= head.high)).all())
    unbounded = GaussianHead([-np.inf], [np.inf], 0.0)
    assert torch.equal(unbounded.to_env(torch.tensor([[37.0]])), torch.tensor([[37.0]]))


def test_heads_of_unsupported_spaces_are_refused():
    for space, shape in [
        (spaces.Discrete(4), ()),
        (spaces.MultiDiscrete([3, 2]), (2,)),
        (spaces.Box(-1.0, 1.0, (3,), np.float32), (3,)),
    ]:
        assert make_head(action_spec(space)).action_shape == shape
    with pytest.raises(ConfigError, match="expected Discrete, MultiDiscrete or a one-dimensional Box"):
        action_spec(spaces.MultiBinary(3))


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
