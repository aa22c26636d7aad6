"""Heads against torch.distributions, masks and bounds, action codes, and gradients of samples."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import (
    Categorical,
    Independent,
    Normal,
    TanhTransform,
    TransformedDistribution,
)
from torch.distributions import kl_divergence as torch_kl_divergence

from gpu_envs.errors import ConfigError
from trainers.models.action_heads import (
    LOG_STD,
    CategoricalHead,
    GaussianHead,
    TanhGaussianHead,
    TanhHead,
    action_spec,
    kl_divergence,
    make_head,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def squashed(params: torch.Tensor) -> TransformedDistribution:
    mean, raw = params.chunk(2, -1)
    log_std = LOG_STD[0] + (LOG_STD[1] - LOG_STD[0]) * (raw.tanh() + 1) / 2
    return TransformedDistribution(Independent(Normal(mean, log_std.exp()), 1), TanhTransform())


def test_tanh_gaussian_equals_torch_distributions():
    head = TanhGaussianHead([-1.0, -1.0], [1.0, 1.0])
    params = torch.randn(500, 4, generator=generator(), dtype=torch.float64)
    action, log_prob = head.sample(params, generator(1), None)
    action = action.clamp(-4, 4)  # torch's inverse of tanh is inexact beyond
    mask = (action.abs() < 4).all(-1)
    torch.testing.assert_close(log_prob[mask], squashed(params).log_prob(action.tanh())[mask])
    torch.testing.assert_close(head.evaluate(params, action, None)[0], squashed(params).log_prob(action.tanh()))
    torch.testing.assert_close(head.mode(params, None).tanh(), params[:, :2].tanh())


def test_tanh_gaussian_is_finite_where_tanh_rounds_to_one():
    head = TanhGaussianHead([-1.0], [1.0])
    params = torch.tensor([[30.0, -9.0]], requires_grad=True)
    code, log_prob = head.relaxed(params, generator())
    assert code.item() == 1.0
    log_prob.sum().backward()
    assert bool(log_prob.isfinite().all())
    assert params.grad is not None
    assert bool(params.grad.isfinite().all())


def test_tanh_gaussian_entropy_and_its_gradient_are_unbiased():
    """Compare with the integral over the box, and with finite differences in mean and deviation."""
    head = TanhGaussianHead([-1.0], [1.0])
    at = torch.tensor([0.3, 0.4], requires_grad=True)
    params = at.expand(200_000, 2)
    action, _ = head.sample(params.detach(), generator(), None)
    estimate = head.evaluate(params, action, None)[1].mean()
    (slope,) = torch.autograd.grad(estimate, at)

    def exact(values: torch.Tensor) -> float:
        grid = torch.linspace(-0.99999, 0.99999, 200_001, dtype=torch.float64).unsqueeze(-1)
        density = squashed(values.detach().double().unsqueeze(0)).log_prob(grid)
        return float(-(density.exp() * density).sum() * (grid[1] - grid[0]))

    assert estimate.item() == pytest.approx(exact(at), abs=0.01)
    for i, step in enumerate(0.01 * torch.eye(2)):
        assert slope[i].item() == pytest.approx((exact(at + step) - exact(at - step)) / 0.02, abs=0.02)


@pytest.mark.parametrize("kind", [TanhGaussianHead, TanhHead])
def test_codes_of_continuous_actions_are_positions_in_the_box(kind):
    head = kind([0.0, -3.0], [1.0, 5.0])
    actions = torch.tensor([[0.0, 5.0], [0.5, 1.0], [0.25, -3.0]])
    codes = torch.tensor([[-1.0, 1.0], [0.0, 0.0], [-0.5, -1.0]])
    torch.testing.assert_close(head.encode(actions), codes)
    torch.testing.assert_close(head.decode(codes), actions)
    far = head.to_env(torch.full((1, 2), 50.0))
    assert bool(((far <= head.high) & (far >= head.low)).all())
    code = head.random(torch.zeros(10_000, head.num_params), generator())
    assert code.shape == (10_000, 2)
    torch.testing.assert_close(code.mean(0), torch.zeros(2), atol=0.03, rtol=0)
    torch.testing.assert_close(code.std(0), torch.full((2,), 3**-0.5), atol=0.02, rtol=0)


@pytest.mark.parametrize(("sizes", "multi"), [([4], False), ([2, 4, 3], True), ([3, 3], True)])
def test_codes_of_discrete_actions_are_one_hot(sizes, multi):
    head = CategoricalHead(sizes, multi)
    action, _ = head.sample(torch.zeros(50, sum(sizes)), generator(), None)
    code = head.encode(action)
    index = action if multi else action.unsqueeze(-1)
    parts = [torch.nn.functional.one_hot(index[:, k], size) for k, size in enumerate(sizes)]
    assert torch.equal(code, torch.cat(parts, -1).float())
    assert torch.equal(head.decode(code), action)


def test_gumbel_samples_follow_the_policy_and_its_masks():
    head = CategoricalHead([3], multi=False)
    logits = torch.tensor([0.0, 1.0, 5.0]).expand(40_000, 3)
    mask = torch.tensor([True, True, False]).expand(40_000, 3)
    code, log_prob = head.relaxed(logits, generator(), mask)
    torch.testing.assert_close(code.mean(0), torch.tensor([0.2689, 0.7311, 0.0]), atol=0.01, rtol=0)
    torch.testing.assert_close(log_prob, head.evaluate(logits, head.decode(code), mask)[0])
    uniform = head.random(logits, generator(), mask)
    torch.testing.assert_close(uniform.mean(0), torch.tensor([0.5, 0.5, 0.0]), atol=0.01, rtol=0)


def test_gumbel_samples_have_straight_through_gradients():
    """The sample is one-hot; its gradient equals the gradient of softmax(log pi + g) with the same noise g."""
    head = CategoricalHead([3], multi=False)
    logits = torch.tensor([[0.3, -0.2, 0.5]], requires_grad=True)
    values = torch.tensor([1.0, 2.0, 4.0])
    code, _ = head.relaxed(logits, generator(7))
    assert sorted(code[0].tolist()) == pytest.approx([0, 0, 1])
    (code * values).sum().backward()
    noise = torch.empty(1, 1, 3).exponential_(generator=generator(7)).log_()[0]
    soft = (logits.detach().log_softmax(-1) - noise).softmax(-1)
    expected = soft * (values - (soft * values).sum())
    torch.testing.assert_close(logits.grad, expected)


def test_squashed_heads_need_bounded_boxes():
    box = spaces.Box(-2.0, 2.0, (3,), np.float32)
    gaussian, certain = make_head(action_spec(box, box="tanh_gaussian")), make_head(action_spec(box, box="tanh"))
    assert isinstance(gaussian, TanhGaussianHead)
    assert isinstance(certain, TanhHead)
    assert (gaussian.num_params, certain.num_params) == (6, 3)
    for kind in ("tanh", "tanh_gaussian"):
        with pytest.raises(ConfigError, match=r"expected bounds for a tanh\w* policy"):
            action_spec(spaces.Box(-np.inf, np.inf, (3,), np.float32), box=kind)


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


@pytest.mark.parametrize("masked", [False, True])
def test_divergence_of_categoricals_equals_torch_distributions(masked):
    head, other = CategoricalHead([3, 4], True), CategoricalHead([3, 4], True)
    logits, other_logits = torch.randn(2, 50, 7, generator=generator(), dtype=torch.float64)
    mask = torch.rand(50, 7, generator=generator(1)) < 0.7 if masked else None
    if mask is not None:
        mask[:, [0, 3]] = True
    expected = torch.zeros(50, dtype=torch.float64)
    for part in (slice(0, 3), slice(3, 7)):
        choices = [
            x[:, part] if mask is None else x[:, part].masked_fill(~mask[:, part], -1e9) for x in (logits, other_logits)
        ]
        expected += torch_kl_divergence(*(Categorical(logits=x) for x in choices))
    torch.testing.assert_close(kl_divergence(head, logits, other, other_logits, mask), expected)
    assert float(kl_divergence(head, logits, other, logits, mask).abs().max()) == 0.0


def test_divergence_of_gaussians_equals_torch_distributions():
    head, other = GaussianHead([-1.0] * 2, [1.0] * 2, 0.3), GaussianHead([-1.0] * 2, [1.0] * 2, -0.4)
    mean, other_mean = torch.randn(2, 50, 2, generator=generator())
    expected = torch_kl_divergence(
        Independent(Normal(mean, head.log_std.exp()), 1), Independent(Normal(other_mean, other.log_std.exp()), 1)
    )
    torch.testing.assert_close(kl_divergence(head, mean, other, other_mean, None), expected)
    params, other_params = torch.randn(2, 50, 4, generator=generator(1), dtype=torch.float64)
    bases = [squashed(x).base_dist for x in (params, other_params)]
    tanh = TanhGaussianHead([-1.0] * 2, [1.0] * 2)
    torch.testing.assert_close(kl_divergence(tanh, params, tanh, other_params, None), torch_kl_divergence(*bases))


def test_divergence_of_deterministic_heads_is_refused():
    head = TanhHead([-1.0], [1.0])
    with pytest.raises(TypeError, match="expected two stochastic heads of one kind, got TanhHead, TanhHead"):
        kl_divergence(head, torch.zeros(1, 1), head, torch.zeros(1, 1), None)
