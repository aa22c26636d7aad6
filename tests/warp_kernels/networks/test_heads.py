"""Samples, log-probabilities and entropies of heads against the heads of the trainers, and activations."""

import numpy as np
import pytest
import torch
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from network_cases import NETWORKS, Minibatch
from scipy import stats

import warp_kernels
from warp_kernels import philox
from warp_kernels.networks.activations import activation, vector
from warp_kernels.networks.distributions import Distribution, distribution_of

SAMPLES = 20_000
NAMES = ("one action", "categorical", "masked", "gaussian", "tanh_gaussian")
KERNELS = {}


def kernel_of(network):
    """Return the kernel that evaluates and samples a head."""
    if network in KERNELS:
        return KERNELS[network]
    mlp = network.mlp
    distribution = distribution_of(network.kind, network.sizes, mlp, network.masked)
    assert isinstance(distribution, Distribution)
    prepare, log_prob_of, entropy_of = distribution.prepare, distribution.log_prob, distribution.entropy
    sample, length, Outputs = distribution.sample, mlp.head_width, vector(mlp.head_width)

    @wp.func
    def vector_of(outputs: wp.array2d(dtype=float), row: int):
        v = Outputs()
        for j in range(length):
            v[j] = outputs[row, j]
        return v

    @wp.kernel(enable_backward=False, module="unique")
    def evaluate(
        outputs: wp.array2d(dtype=float),
        mask: wp.array2d(dtype=wp.bool),
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
        log_prob: wp.array(dtype=float),
        entropy: wp.array(dtype=float),
    ):
        row = wp.tid()
        v = prepare(vector_of(outputs, row), mask, row)
        log_prob[row] = log_prob_of(v, choice, control, row)
        entropy[row] = entropy_of(v, choice, control, row)

    @wp.kernel(enable_backward=False, module="unique")
    def draw(
        outputs: wp.array2d(dtype=float),
        mask: wp.array2d(dtype=wp.bool),
        greedy: int,
        choice: wp.array2d(dtype=wp.int64),
        control: wp.array2d(dtype=float),
    ):
        row = wp.tid()
        rng = philox.Stream()
        rng.seed = wp.uint64(11)
        rng.world = wp.uint32(row)
        sample(prepare(vector_of(outputs, row), mask, row), rng, 3, greedy, choice, control, row)

    return KERNELS.setdefault(network, (evaluate, draw))


def full_outputs(minibatch):
    """Return the outputs of the first policy as kernels have them, (N, head_width)."""
    mlp, layers = minibatch.mlp, minibatch.layers(0)
    full = torch.zeros(len(minibatch.x), mlp.head_width)
    full[:, : mlp.outputs] = minibatch.outputs(layers, minibatch.x).detach().float()
    if mlp.extra:
        full[:, mlp.outputs : mlp.outputs + mlp.extra] = layers[-1].detach().float()
    return full


def drawn(minibatch, outputs, mask, greedy):
    """Return the actions of rows with the same outputs and mask."""
    network = minibatch.network
    choice = torch.zeros(SAMPLES, len(network.sizes), dtype=torch.int64)
    control = torch.zeros(SAMPLES, network.sizes[0])
    arrays = [wp.from_torch(tensor.expand(SAMPLES, -1).contiguous()) for tensor in (outputs, mask)]
    inputs = [*arrays, int(greedy), wp.from_torch(choice), wp.from_torch(control)]
    wp.launch(kernel_of(network)[1], SAMPLES, inputs=inputs, device="cpu")
    return choice if network.kind == "categorical" else control


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), num_rows=st.integers(1, 60))
def test_log_probabilities_and_entropies_equal_those_of_the_trainers(name, seed, num_rows):
    minibatch = Minibatch(NETWORKS[name], seed, num_rows)
    network, outputs = minibatch.network, full_outputs(minibatch)
    log_prob, entropy = torch.zeros(len(outputs)), torch.zeros(len(outputs))
    data = minibatch.data()
    inputs = [wp.from_torch(outputs), data.mask, data.choice, data.control]
    inputs += [wp.from_torch(log_prob), wp.from_torch(entropy)]
    wp.launch(kernel_of(network)[0], len(outputs), inputs=inputs, device="cpu")
    head = network.torch_head()
    if network.kind == "gaussian":
        head.log_std.data = outputs[0, minibatch.mlp.outputs :][: minibatch.mlp.extra]
    action = minibatch.choice if minibatch.control is None else minibatch.control
    mask = minibatch.mask if network.masked else None
    expected = head.evaluate(outputs[:, : minibatch.mlp.outputs], action, mask)
    for actual, other in zip((log_prob, entropy), expected, strict=True):
        torch.testing.assert_close(actual, other.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["categorical", "masked"])
@pytest.mark.parametrize("seed", range(3))
def test_samples_of_categoricals_have_their_probabilities(name, seed):
    minibatch = Minibatch(NETWORKS[name], seed, 1)
    network, mlp = minibatch.network, minibatch.mlp
    outputs = 3.0 * full_outputs(minibatch)[:1]
    mask = minibatch.mask[:1]
    choices = drawn(minibatch, outputs, mask, False)
    table = network.torch_head().log_probs(outputs[:, : mlp.outputs], mask if network.masked else None)[0].exp()
    for k, size in enumerate(network.sizes):
        expected = table[k, :size].detach().double().numpy() * SAMPLES
        counts = np.bincount(choices[:, k].numpy(), minlength=size)
        assert (counts[expected == 0] == 0).all()
        likely = expected > 5
        if likely.sum() > 1:
            observed = np.append(counts[likely], counts[~likely].sum())
            binned = np.append(expected[likely], expected[~likely].sum())
            keep = binned > 0
            assert (
                stats.chisquare(observed[keep], binned[keep] * observed[keep].sum() / binned[keep].sum()).pvalue > 1e-4
            )
    greedy = drawn(minibatch, outputs, mask, True)
    assert torch.equal(greedy[0], table.argmax(-1))
    assert (greedy == greedy[0]).all()


def test_categoricals_of_one_action_are_independent():
    """Each of several categoricals has its own random numbers."""
    minibatch = Minibatch(NETWORKS["masked"], 4, 1)
    mask = torch.ones(1, minibatch.mlp.outputs, dtype=torch.bool)
    choices = drawn(minibatch, torch.zeros(1, minibatch.mlp.head_width), mask, False).numpy()
    counts = np.zeros((3, 4))
    np.add.at(counts, (choices[:, 0], choices[:, 2]), 1)
    assert stats.chi2_contingency(counts).pvalue > 1e-4


@pytest.mark.parametrize("name", ["gaussian", "tanh_gaussian"])
def test_samples_of_gaussians_have_their_distribution(name):
    minibatch = Minibatch(NETWORKS[name], 6, 1)
    network, outputs, size = minibatch.network, full_outputs(minibatch)[:1], minibatch.network.sizes[0]
    mask = torch.zeros(1, 1, dtype=torch.bool)
    log_std = outputs[0, size : 2 * size]
    if name == "tanh_gaussian":
        log_std = network.torch_head().gaussian(outputs[:, : 2 * size])[1][0]
    samples = drawn(minibatch, outputs, mask, False)
    z = ((samples - outputs[0, :size]) / log_std.exp()).double().numpy()
    for k in range(size):
        assert stats.kstest(z[:, k], "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(z.T) - np.eye(size)).max() < 0.03
    torch.testing.assert_close(drawn(minibatch, outputs, mask, True)[0], outputs[0, :size])


@pytest.mark.parametrize(("name", "reference"), [("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0.0))])
def test_activations_differ_by_at_most_1e_6(name, reference):
    warp_kernels.start()
    V = vector(8)
    apply = activation(name, 8)

    @wp.kernel(enable_backward=False, module="unique")
    def activate(x: wp.array(dtype=V), y: wp.array(dtype=V)):
        y[wp.tid()] = apply(x[wp.tid()])

    values = np.concatenate([np.linspace(-12, 12, 400_001), np.geomspace(1e-30, 1e30, 100_000), [0.0, 1e38, -1e38]])
    values = np.resize(values.astype(np.float32), (len(values) // 8 + 1, 8))
    y = wp.zeros(len(values), dtype=V, device="cpu")
    wp.launch(activate, len(values), inputs=[wp.array(values, dtype=V, device="cpu"), y], device="cpu")
    expected = reference(values.astype(np.float64))
    error = np.abs(y.numpy() - expected) / np.maximum(np.abs(expected), 1.0)
    assert error.max() <= 1e-6
