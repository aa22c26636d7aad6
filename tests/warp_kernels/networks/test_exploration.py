"""Action values and exploration against the heads of the trainers, and the probabilities of random actions."""

import numpy as np
import pytest
import torch
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import warp_kernels
from trainers.models.action_heads import CategoricalHead, GreedyHead
from warp_kernels import philox
from warp_kernels.networks.activations import vector
from warp_kernels.networks.distributions import distribution_of
from warp_kernels.networks.mlp import Mlp

SAMPLES = 20_000
KERNELS = {}
EPSILON = 0.3


def kernel_of(kind, sizes, outputs, extra):
    """Return the kernel that samples an exploring policy, and the length of its vectors of outputs."""
    if (kind, sizes, outputs) not in KERNELS:
        warp_kernels.start()
        mlp = Mlp(3, (4,), outputs, extra=extra)
        distribution = distribution_of(kind, sizes, mlp, kind in ("values", "categorical"), explores=True)
        prepare, sample, length, V = distribution.prepare, distribution.sample, mlp.head_width, vector(mlp.head_width)

        @wp.kernel(enable_backward=False, module="unique")
        def draw(
            outputs: wp.array2d(dtype=float),
            mask: wp.array2d(dtype=wp.bool),
            greedy: int,
            choice: wp.array2d(dtype=wp.int64),
            control: wp.array2d(dtype=float),
        ):
            row = wp.tid()
            v = V()
            for j in range(length):
                v[j] = outputs[row, j]
            rng = philox.Stream()
            rng.seed = wp.uint64(11)
            rng.world = wp.uint32(row)
            sample(prepare(v, mask, row), rng, 3, greedy, choice, control, row)

        KERNELS[kind, sizes, outputs] = draw, length
    return KERNELS[kind, sizes, outputs]


def drawn(kind, sizes, outputs, exploration, mask=None, greedy=False):
    """Return the actions for outputs (N, outputs) with the parameters of the exploration."""
    draw, length = kernel_of(kind, sizes, outputs.shape[1], len(exploration))
    rows = torch.zeros(len(outputs), length)
    rows[:, : outputs.shape[1]] = outputs
    rows[:, outputs.shape[1] : outputs.shape[1] + len(exploration)] = torch.tensor(exploration)
    mask = torch.ones(len(outputs), sum(sizes), dtype=torch.bool) if mask is None else mask
    choice, control = torch.zeros(len(outputs), len(sizes), dtype=torch.int64), torch.zeros(len(outputs), sizes[0])
    arrays = [wp.from_torch(tensor) for tensor in (rows, mask.contiguous())]
    inputs = [*arrays, int(greedy), wp.from_torch(choice), wp.from_torch(control)]
    wp.launch(draw, len(outputs), inputs=inputs, device="cpu")
    return choice if kind in ("values", "categorical") else control


def legal_mask(rows, choices, generator):
    """Return random masks with at least one legal choice."""
    mask = torch.rand(rows, choices, generator=generator) < 0.6
    mask[torch.arange(rows), torch.randint(choices, (rows,), generator=generator)] = True
    return mask


@pytest.mark.parametrize("dueling", [False, True])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), rows=st.integers(1, 200), epsilon=st.sampled_from([0.0, 1.0]))
def test_best_actions_equal_those_of_the_trainers(dueling, seed, rows, epsilon):
    """With epsilon 0; and with any epsilon, if actions are greedy."""
    generator = torch.Generator().manual_seed(seed)
    head, outputs = GreedyHead(5, dueling), torch.randn(rows, 5 + dueling, generator=generator)
    mask = legal_mask(rows, 5, generator)
    best = drawn("values", (5,), outputs, [epsilon], mask, greedy=epsilon > 0.0)
    assert torch.equal(best[:, 0], head.mode(outputs, mask))


def chi_square(counts, probabilities):
    """Return the p-value of counts; choices without probability must not occur."""
    possible = probabilities > 0
    assert (counts[~possible] == 0).all()
    return stats.chisquare(counts[possible], probabilities[possible] * counts.sum()).pvalue


@pytest.mark.parametrize("epsilon", [EPSILON, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_random_actions_are_uniform_among_legal_ones(seed, epsilon):
    generator = torch.Generator().manual_seed(seed)
    outputs, mask = torch.randn(1, 5, generator=generator), legal_mask(1, 5, generator)
    actions = drawn("values", (5,), outputs.expand(SAMPLES, -1), [epsilon], mask.expand(SAMPLES, -1))
    probabilities = epsilon * mask[0].double().numpy() / int(mask.sum())
    probabilities[int(GreedyHead(5, False).mode(outputs, mask))] += 1.0 - epsilon
    assert chi_square(np.bincount(actions[:, 0], minlength=5), probabilities) > 1e-4


def test_exploring_categoricals_mix_their_probabilities_with_uniform_ones():
    """Components are random together: all or none."""
    sizes, generator = (3, 2), torch.Generator().manual_seed(0)
    outputs = torch.randn(1, 5, generator=generator)
    actions = drawn("categorical", sizes, outputs.expand(SAMPLES, -1), [EPSILON])
    table = CategoricalHead(sizes, True).log_probs(outputs, None)[0].exp().double().numpy()
    joint = (1.0 - EPSILON) * np.outer(table[0], table[1, :2]) + EPSILON / 6.0
    counts = np.bincount(actions[:, 0] * 2 + actions[:, 1], minlength=6)
    assert chi_square(counts, joint.flatten() / joint.sum()) > 1e-4


@pytest.mark.parametrize(("kind", "noise"), [("tanh_gaussian", []), ("tanh", [0.2])])
def test_random_actions_are_uniform_in_the_box(kind, noise):
    outputs = torch.full((SAMPLES, 4 if kind == "tanh_gaussian" else 2), 0.4)
    actions = drawn(kind, (2,), outputs, [1.0, *noise]).double().numpy()
    for k in range(2):
        assert stats.kstest(actions[:, k], "uniform", (-1.0, 2.0)).pvalue > 1e-4
    assert abs(np.corrcoef(actions.T)[0, 1]) < 0.03
    greedy_actions = drawn(kind, (2,), outputs, [EPSILON, *noise], greedy=True)
    torch.testing.assert_close(greedy_actions, torch.full_like(greedy_actions, 0.4).tanh())


def test_noise_is_normal_and_clipped_to_the_box():
    outputs = torch.tensor([[0.1, 1.2]]).expand(SAMPLES, -1)
    actions = drawn("tanh", (2,), outputs, [0.0, 0.2]).double().numpy()
    center = np.tanh([0.1, 1.2])
    assert stats.kstest((actions[:, 0] - center[0]) / 0.2, "norm").pvalue > 1e-4
    clipped = (actions[:, 1] == 1.0).mean()
    assert clipped == pytest.approx(stats.norm.sf((1.0 - center[1]) / 0.2), abs=0.012)
    assert np.abs(actions).max() <= 1.0
