"""Gradient steps of all learners, and the values that ranks agree on."""

import pytest
import torch
from torch import nn
from toy_core import Identity

from trainers.algorithms.on_policy.ppo import PPO, PPOConfig
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import LearnerSpec
from trainers.base.optimizers import make_adam
from trainers.base.transition import Transition
from trainers.models.normalization import ObservationNormalizer


def line():
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    return net, torch.optim.SGD(net.parameters(), lr=1.0)


def loss_of(net):
    return (net(torch.eye(3)) - 5.0).square().mean()


def test_step_equals_the_optimizers_step():
    (net, optimizer), (other, plain) = line(), line()
    norm = LOCAL_REDUCER.step(optimizer, loss_of(net))
    loss_of(other).backward()
    plain.step()
    assert torch.equal(net.weight, other.weight)
    assert torch.equal(net.bias, other.bias)
    torch.testing.assert_close(norm, torch.cat([other.weight.grad.flatten(), other.bias.grad]).norm())


def test_gradients_are_clipped_to_max_norm_and_norm_before_is_returned():
    net, optimizer = line()
    previous = net.weight.detach().clone(), net.bias.detach().clone()
    norm = LOCAL_REDUCER.step(optimizer, loss_of(net), max_norm=0.5)
    moved = torch.cat([(net.weight - previous[0]).flatten(), net.bias - previous[1]]).norm()
    assert norm > 0.5
    assert moved.item() == pytest.approx(0.5, rel=1e-4)


def test_gradients_of_an_earlier_loss_are_cleared():
    (net, optimizer), (other, plain) = line(), line()
    loss_of(net).backward()
    LOCAL_REDUCER.step(optimizer, loss_of(net))
    LOCAL_REDUCER.step(plain, loss_of(other))
    assert torch.equal(net.weight, other.weight)


def test_gradients_are_averaged_before_they_are_clipped():
    class Ten(GradientReducer):
        def _all_reduce(self, gradients):
            for gradient in gradients:
                gradient *= 10

    (net, optimizer), (other, plain) = line(), line()
    norm, single = (
        Ten().step(optimizer, loss_of(net), max_norm=0.5),
        LOCAL_REDUCER.step(plain, loss_of(other), max_norm=0.5),
    )
    torch.testing.assert_close(norm, 10 * single)
    torch.testing.assert_close(net.weight, other.weight)


def test_normalizers_of_two_ranks_hold_the_statistics_of_all_rows():
    rows = torch.randn((12, 2), generator=torch.Generator().manual_seed(0)) * 3 + 1
    mine, remote = rows[:4], rows[4:]
    mean = rows.mean(0)
    # contribution of the other rank
    answers = iter((torch.tensor(8.0), remote.sum(0), (remote - mean).square().sum(0)))
    normalizer, reference = ObservationNormalizer(2), ObservationNormalizer(2)
    normalizer.update(mine, total=lambda values: values + next(answers))
    reference.update(rows)
    assert normalizer.count == 12
    torch.testing.assert_close(normalizer.mean, reference.mean)
    torch.testing.assert_close(normalizer.var, reference.var)


class Among(GradientReducer):
    """One rank of several; the results of the others are simulated."""

    def __init__(self, rows=10**6, kl=None):
        self.rows, self.kl = rows, kl

    def all_reduce_min(self, count):
        return min(count, self.rows)

    def mean(self, values):
        return values if self.kl is None else torch.full_like(values, self.kl)


def ppo_after(reducer, **changes):
    """Return the metrics of a PPO update on a full rollout, and whether weights moved."""
    torch.manual_seed(0)
    core = Identity(4)
    config = PPOConfig(
        rollout_length=4, num_epochs=3, num_minibatches=4, hidden_sizes=(8,), truncation_capacity=4.0, **changes
    )
    learner = PPO(config, LearnerSpec(core.obs_width, core.action_spaces["even_0"], 4, 3, 100))
    learner.reducer = reducer
    previous = [parameter.clone() for parameter in learner.net.parameters()]
    core.reset()
    for _ in range(4):
        core.step(learner.act(core.obs))
        learner.observe(Transition(core.reward, core.terminated, core.truncated, core.valid, core.obs, core.final_obs))
    metrics = learner.update()
    pairs = zip(previous, learner.net.parameters(), strict=True)
    return metrics, any(not torch.equal(old, new) for old, new in pairs)


@pytest.mark.parametrize(("rows", "steps"), [(10**6, 12), (3, 9), (1, 3)])
def test_ppo_takes_as_many_steps_as_the_rank_with_fewest_rows(rows, steps):
    assert ppo_after(Among(rows))[0]["gradient_steps"] == steps


def test_ppo_skips_a_rollout_without_rows_on_another_rank():
    metrics, moved = ppo_after(Among(rows=0))
    assert metrics == {}
    assert not moved


@pytest.mark.parametrize(("kl", "steps"), [(1.0, 4), (0.0, 12)])
def test_ppo_stops_early_by_the_mean_kl_of_ranks(kl, steps):
    target = 0.02 if kl else 1e-12  # without the other ranks it would do the opposite
    assert ppo_after(Among(kl=kl), target_kl=target)[0]["gradient_steps"] == steps


def test_mean_of_advantages_is_subtracted_with_their_ratios():
    """Two actions of equal value, sampled with 0.9 and 0.1 and valued under 0.5 each, have no advantage."""
    ratio = torch.tensor([0.5 / 0.9] * 9 + [0.5 / 0.1])
    assert LOCAL_REDUCER.normalize(ratio * 3.0, ratio=ratio).abs().max() < 1e-3
    assert LOCAL_REDUCER.normalize(ratio * 3.0).abs().max() > 0.3
    ones, values = torch.ones(6), torch.randn(6, generator=torch.Generator().manual_seed(0))
    valid = torch.tensor([True, True, False, True, True, False])
    torch.testing.assert_close(
        LOCAL_REDUCER.normalize(values, valid, ones), LOCAL_REDUCER.normalize(values, valid), rtol=1e-5, atol=1e-6
    )


def test_adam_accepts_parameters_where_pytorch_does_not_wrap_their_addition(monkeypatch):
    """Versions of PyTorch differ in whether they wrap it."""
    add = torch.optim.Optimizer.add_param_group
    plain = getattr(add, "__wrapped__", add)
    assert not hasattr(plain, "__wrapped__")
    parameter = nn.Parameter(torch.ones(2))
    for function in (add, plain):
        monkeypatch.setattr(torch.optim.Optimizer, "add_param_group", function)
        assert make_adam([parameter], 0.1, captured=False).param_groups[0]["params"] == [parameter]
