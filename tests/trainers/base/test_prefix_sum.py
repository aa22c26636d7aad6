"""Cumulative sums with a fixed order of additions, where `cumsum` of a GPU has none."""

from fractions import Fraction

import pytest
import torch
from torch.overrides import TorchFunctionMode

from league.policies.mixture import MixturePolicy
from league.policies.random import RandomPolicy
from league.solvers.replicator import _project
from trainers.base import prefix_sum
from trainers.base.prefix_sum import cumulative_weights
from trainers.buffers.replay_buffer import PRIORITY, ReplayBuffer


class GpuTensor(torch.Tensor):
    """A tensor that claims to be on a GPU and refuses what a GPU refuses if deterministic algorithms are required."""

    is_cuda = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        strict = torch.are_deterministic_algorithms_enabled()
        if strict and func.__name__ == "cumsum" and args[0].is_floating_point():
            raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation")
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.fixture
def strict():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def on_gpu(tensor):
    return tensor.as_subclass(GpuTensor)


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000])
def test_sums_on_a_gpu_have_a_fixed_order(size):
    values = torch.rand(size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    with pytest.raises(RuntimeError, match="deterministic"):
        on_gpu(values).cumsum(0)
    exact, total = [], Fraction(0)
    for value in values.tolist():
        total += Fraction(value)
        exact.append(float(total))
    for function in (prefix_sum.prefix_sum, cumulative_weights):
        sums = function(on_gpu(values)).as_subclass(torch.Tensor)
        torch.testing.assert_close(sums, torch.tensor(exact, dtype=torch.float64), rtol=1e-14, atol=0)


@pytest.mark.parametrize("strict_too", [False, True])
def test_sums_on_a_cpu_are_those_of_cumsum(strict_too, request):
    if strict_too:
        request.getfixturevalue("strict")
    values = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    for function in (prefix_sum.prefix_sum, cumulative_weights):
        assert torch.equal(function(values), values.cumsum(0))


@pytest.mark.usefixtures("strict")
def test_weights_of_zero_do_not_raise_the_sum():
    """Sums by doubling are rounded differently at each place, so a place of weight 0 could be drawn."""
    weights = torch.rand(4096, generator=torch.Generator().manual_seed(1)) * 10.0 ** torch.arange(4096).remainder(7)
    weights[torch.rand(4096, generator=torch.Generator().manual_seed(2)) < 0.5] = 0
    raw = prefix_sum.prefix_sum(on_gpu(weights)).as_subclass(torch.Tensor)
    assert (raw.diff()[weights[1:] == 0] != 0).any()  # the case occurs
    assert (raw.diff() < 0).any()
    steps = cumulative_weights(on_gpu(weights)).as_subclass(torch.Tensor).diff()
    assert (steps >= 0).all()
    assert (steps[weights[1:] == 0] == 0).all()


class NoFloatCumsum(TorchFunctionMode):
    """Refuses sums whose order a GPU does not fix."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ == "cumsum" and args[0].is_floating_point():
            raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation")
        return func(*args, **(kwargs or {}))


def prioritized():
    buffer = ReplayBuffer.__new__(ReplayBuffer)
    buffer.device, buffer.length, buffer.num_envs_total = torch.device("cpu"), 50, 4
    buffer.oldest, buffer.num_steps = torch.tensor(0), torch.tensor(30)
    priority = torch.rand(50, 4, generator=torch.Generator().manual_seed(3))
    priority[::3] = 0
    buffer.buffers = {PRIORITY: priority}
    return buffer.draw_prioritized(64, torch.Generator().manual_seed(4), torch.tensor(0.5))


def mixed():
    members = [RandomPolicy({"kind": "discrete", "sizes": [5]}, seed=seed) for seed in range(3)]
    mixture = MixturePolicy(members, torch.tensor([0.2, 0.5, 0.3]), seed=7)
    hidden_state = mixture.initial_hidden_state(100, 1)
    return mixture.act(torch.zeros(100, 1, 2), hidden_state=hidden_state), hidden_state


def projected():
    return (_project(torch.tensor([0.9, 0.4, -0.3], dtype=torch.float64), 1e-3),)


@pytest.mark.parametrize("play", [prioritized, mixed, projected])
def test_draws_need_no_sum_in_a_varying_order(play, monkeypatch):
    """The draws of prioritized replay and mixtures, and replicator dynamics, in the deterministic mode of a GPU."""
    expected = play()
    with pytest.raises(RuntimeError, match="deterministic"), NoFloatCumsum():
        play()
    monkeypatch.setattr(prefix_sum, "_needs_fixed_order", lambda values: True)
    with NoFloatCumsum():
        actions = play()
    for left, right in zip(actions, expected, strict=True):
        torch.testing.assert_close(left, right)
