"""Minibatches for the gradients of dense networks in kernels, and the same gradients by PyTorch in float64."""

from dataclasses import dataclass
from functools import cached_property

import torch
import warp as wp
from hypothesis import strategies as st

import warp_kernels
from gpu_envs.runtime.rollout.packed_weights import pack_networks, parameter_places
from trainers.algorithms.on_policy import objective
from trainers.algorithms.on_policy.a2c import A2C
from trainers.algorithms.on_policy.objective import Objective
from trainers.algorithms.on_policy.ppo import PPO
from trainers.models.action_heads import CategoricalHead, GaussianHead, TanhGaussianHead
from warp_kernels.networks.distributions import distribution_of
from warp_kernels.networks.gradient import MAX_CHUNKS, Minibatches, build_gradient
from warp_kernels.networks.losses import NUM_METRICS, RowData, policy_head, value_head
from warp_kernels.networks.mlp import MAX_INPUTS, MAX_WIDTH, Mlp
from warp_kernels.networks.tiles import build_tile_gradient

SETTINGS = {"clip_range": 0.2, "entropy_coef": 0.03, "value_coef": 0.7, "kl_coef": 0.4}


@dataclass(frozen=True)
class Network:
    """A network with its head and loss, which decide about a kernel."""

    inputs: int
    hidden: tuple[int, ...]
    activation: str
    kind: str  # of the distribution, or "value"
    sizes: tuple[int, ...] = ()
    masked: bool = False
    objective: Objective = PPO.objective

    @cached_property
    def mlp(self) -> Mlp:
        outputs = {"categorical": sum(self.sizes), "gaussian": sum(self.sizes), "tanh_gaussian": 2 * sum(self.sizes)}
        extra = self.sizes[0] if self.kind == "gaussian" else 0
        return Mlp(self.inputs, self.hidden, outputs.get(self.kind, 1), self.activation, extra)

    @cached_property
    def head(self):
        if self.kind == "value":
            return value_head(self.objective.kernel_head, self.objective.settings, self.mlp.head_width)
        distribution = distribution_of(self.kind, self.sizes, self.mlp, self.masked)
        return policy_head(distribution, self.objective.kernel_head, self.objective.settings, self.mlp.head_width)

    @property
    def metrics(self):
        head = self.objective.kernel_head
        return head.value_metrics if self.kind == "value" else head.policy_metrics

    @cached_property
    def key(self) -> str:
        return f"{type(self.objective).__qualname__} {self.kind} {self.sizes} {self.masked}"

    def torch_head(self):
        if self.kind == "categorical":
            return CategoricalHead(self.sizes, True)
        box = [-1.0] * self.sizes[0], [1.0] * self.sizes[0]
        return GaussianHead(*box, 0.0) if self.kind == "gaussian" else TanhGaussianHead(*box)


class Minibatch:
    """Random weights and rows, and the gradients by both forms of kernels and by PyTorch."""

    def __init__(self, network, seed, num_rows, policies=1, valid=1.0, clip_range_vf=None):
        warp_kernels.start()
        self.network, self.mlp = network, network.mlp
        mlp, g = self.mlp, torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=g)  # noqa: E731
        stored = num_rows + 3
        count = len(parameter_places(mlp))
        # Policies differ little, so that the log-probabilities of one suit the others.
        self.parameters = (draw(1, count) + 0.1 * draw(policies, count)) * 1.5 / max(mlp.widths) ** 0.5
        # Small outputs: with tiny standard deviations, log-probabilities are too large for float32.
        last = (mlp.widths[-2] + 1) * mlp.outputs + mlp.extra
        self.parameters[:, -last:] *= 0.1 if network.kind == "tanh_gaussian" else 0.3
        # The network follows others in a row of weights.
        self.offset, self.into = 16, 8
        self.weights = torch.full((policies, self.offset + mlp.row_size), torch.nan)
        row = self.weights[:, self.offset :]
        row.zero_()
        self.mean, self.var = draw(policies, mlp.inputs), torch.rand(policies, mlp.inputs, generator=g) + 0.5
        pack_networks(row, mlp, self.parameters, self.mean, self.var)
        self.x = draw(stored, mlp.inputs)
        self.index = torch.stack([torch.randperm(stored, generator=g) for _ in range(policies)])
        self.valid = torch.rand(stored, generator=g) < valid
        self.scale = torch.rand(policies, generator=g) / max(num_rows, 1) + 1.0 / max(num_rows, 1)
        self.first, self.num_rows = 2, num_rows
        self.advantage, self.returns, self.value = draw(stored), draw(stored), draw(stored)
        self.settings = SETTINGS | {"clip_range_vf": clip_range_vf}
        self._actions(network, stored, draw, g)

    def _actions(self, network, stored, draw, g):
        self.mask = self.choice = self.control = None
        if network.kind == "value":
            self.log_prob = torch.zeros(stored)
            return
        if network.kind == "categorical":
            parts = [torch.rand(stored, n, generator=g) < 0.6 for n in network.sizes]
            picks = [torch.randint(0, n, (stored, 1), generator=g) for n in network.sizes]
            self.choice = torch.cat(picks, -1)
            self.mask = torch.cat([part.scatter(1, pick, True) for part, pick in zip(parts, picks, strict=True)], -1)
        else:
            head, outputs = network.torch_head(), self.outputs(self.layers(0), self.x).detach()
            if network.kind == "gaussian":
                mean, log_std = outputs, self.layers(0)[-1].detach()
            else:
                mean, log_std = head.gaussian(outputs)
            self.control = (mean + log_std.exp() * draw(stored, *network.sizes)).float()
        # Near the log-probability of a policy, so that ratios are inside and outside of the clip range.
        log_prob = self._evaluate(self.layers(0), torch.arange(stored))[0].detach()
        self.log_prob = log_prob.float() + 0.15 * draw(stored)

    # ---------------------------------------------------------------- kernels

    def rows(self):
        """Return gradients and metrics of every policy by the form of rows, (P, G) and (P, NUM_METRICS)."""
        kernel = build_gradient(self.mlp, self.network.head, self.network.key)
        return self._sums(lambda inputs: wp.launch(kernel, (1, 1), inputs=inputs, device="cpu"))

    def tiles(self, tile_rows, block_dim=128):
        """Return the same by the form of tiles."""
        kernel = build_tile_gradient(self.mlp, self.network.head, self.network.key, tile_rows, block_dim)
        return self._sums(
            lambda inputs: wp.launch_tiled(kernel, dim=[1], inputs=inputs, block_dim=block_dim, device="cpu")
        )

    def _sums(self, launch):
        mlp, array, policies = self.mlp, wp.from_torch, len(self.weights)
        sums = self.into + mlp.num_packed
        packed = torch.full((policies * MAX_CHUNKS, sums + NUM_METRICS), 7.0)
        begins = torch.tensor([0, self.first, self.first + self.num_rows], dtype=torch.int32)
        scale = torch.stack([torch.full_like(self.scale, torch.nan), self.scale], 1)
        batch = Minibatches()
        batch.weights, batch.packed, batch.index = array(self.weights), array(packed), array(self.index)
        batch.begins, batch.scale, batch.valid = array(begins), array(scale), array(self.valid)
        batch.x, batch.rows = array(self.x), self.data()
        numbers = [self.settings[name] for name in self.network.objective.settings]
        batch.settings = array(torch.tensor([-1.0 if number is None else number for number in numbers]))
        launch([0, policies * MAX_CHUNKS, 1, 1, self.offset, self.into, sums, batch])
        assert (packed[:, : self.into] == 7.0).all()
        by_chunk = packed.view(policies, MAX_CHUNKS, -1)
        chunks = max(min(self.num_rows // 128, 8), min(self.num_rows // 256, MAX_CHUNKS), 1)
        assert (by_chunk[:, chunks:] == 7.0).all()
        total = by_chunk[:, :chunks].double().sum(1)
        padding = torch.ones(mlp.num_packed, dtype=torch.bool)
        padding[parameter_places(mlp)] = False
        assert (total[:, self.into : sums][:, padding] == 0).all()
        return total[:, self.into + parameter_places(mlp)], total[:, sums : sums + len(self.network.metrics)]

    def data(self):
        """Return what heads read."""
        data = RowData()
        if self.choice is not None:
            data.choice = wp.from_torch(self.choice)
        if self.control is not None:
            data.control = wp.from_torch(self.control)
        if self.network.masked:
            data.mask = wp.from_torch(self.mask)
        for name in ("log_prob", "advantage", "value", "returns"):
            setattr(data, name, wp.from_torch(getattr(self, name)))
        return data

    # ---------------------------------------------------------------- PyTorch

    def torch(self):
        """Return the same by PyTorch in float64."""
        gradients, metrics = zip(*(self._torch(policy) for policy in range(len(self.weights))), strict=True)
        return torch.stack(gradients), torch.stack(metrics)

    def layers(self, policy):
        """Return weights and biases of a policy in float64, then log standard deviations."""
        mlp = self.mlp
        shapes = [
            shape for k in range(mlp.num_layers) for shape in ((mlp.widths[k + 1], mlp.widths[k]), mlp.widths[k + 1])
        ]
        shapes += [mlp.extra] if mlp.extra else []
        sizes = [torch.Size([shape] if isinstance(shape, int) else shape) for shape in shapes]
        parts = self.parameters[policy].double().split([size.numel() for size in sizes])
        return [part.view(size).requires_grad_() for part, size in zip(parts, sizes, strict=True)]

    def outputs(self, layers, x):
        """Return the outputs (N, K) of inputs (N, D) in float64."""
        h = x.double()
        function = getattr(torch, self.mlp.activation)
        for k in range(self.mlp.num_layers):
            h = h @ layers[2 * k].T + layers[2 * k + 1]
            h = function(h) if k < self.mlp.num_layers - 1 else h
        return h

    def _evaluate(self, layers, rows):
        network, outputs = self.network, self.outputs(layers, self.x[rows])
        head = network.torch_head()
        if network.kind == "gaussian":
            del head.log_std
            head.log_std = layers[-1]
        action = self.choice[rows] if self.control is None else self.control[rows].double()
        return head.evaluate(outputs, action, self.mask[rows] if network.masked else None)

    def _torch(self, policy):
        layers = self.layers(policy)
        rows = self.index[policy, self.first : self.first + self.num_rows]
        rows = rows[self.valid[rows]]
        zeros = torch.zeros(len(rows), dtype=torch.float64)
        log_prob, entropy, params, value = zeros, zeros, zeros, zeros
        if self.network.kind == "value":
            value = self.outputs(layers, self.x[rows])[:, 0]
        else:
            log_prob, entropy = self._evaluate(layers, rows)
        stored = [x[rows].double() for x in (self.log_prob, self.value, self.advantage, self.returns)]
        divisor = 1.0 / self.scale[policy].double()
        inputs = objective.Minibatch(log_prob, entropy, params, value, *stored, self.settings, divisor=divisor)
        loss, metrics = self.network.objective.loss(inputs)
        parts = torch.autograd.grad(loss, layers, allow_unused=True, materialize_grads=True) if len(rows) else layers
        gradients = torch.cat([gradient.detach().flatten() for gradient in parts])
        return gradients * bool(len(rows)), torch.stack([metrics[name].detach() for name in self.network.metrics])


def assert_close(actual, expected, tolerance=1e-5):
    """Compare gradients and metrics of every policy, relative to the largest gradient and to the largest metric."""
    for ours, theirs in zip(actual, expected, strict=True):
        for left, right in zip(ours, theirs, strict=True):
            limit = tolerance * float(right.abs().max()) + 1e-7
            assert float((left - right).abs().max()) <= limit


NETWORKS = {
    "one action": Network(3, (1,), "tanh", "categorical", (1,)),
    "categorical": Network(18, (64, 64), "tanh", "categorical", (5,)),
    "masked": Network(7, (24,), "relu", "categorical", (3, 2, 4), True, A2C.objective),
    "gaussian": Network(5, (16, 9, 8), "tanh", "gaussian", (2,)),
    "tanh_gaussian": Network(70, (33, 20), "tanh", "tanh_gaussian", (3,), objective=A2C.objective),
    "value": Network(12, (40,), "tanh", "value"),
}
"""Few networks, as each takes seconds to compile."""

SEEDS = st.integers(0, 2**31)
BATCHES = st.fixed_dictionaries(
    {
        "seed": SEEDS,
        "num_rows": st.one_of(st.integers(1, 70), st.integers(1, 400)),
        "policies": st.integers(1, 3),
        "valid": st.sampled_from([1.0, 0.7, 0.0]),
    }
)


@st.composite
def networks(draw):
    """Draw a network with any supported head."""
    kind = draw(st.sampled_from(["categorical", "gaussian", "tanh_gaussian", "value"]))
    sizes = (
        st.lists(st.integers(1, 6), min_size=1, max_size=4) if kind == "categorical" else st.tuples(st.integers(1, 4))
    )
    return Network(
        draw(st.one_of(st.integers(1, 40), st.integers(1, MAX_INPUTS))),
        tuple(draw(st.lists(st.one_of(st.integers(1, 40), st.integers(1, MAX_WIDTH)), min_size=1, max_size=3))),
        draw(st.sampled_from(["tanh", "relu"])),
        kind,
        tuple(draw(sizes)),
        kind == "categorical" and draw(st.booleans()),
        draw(st.sampled_from([PPO.objective, A2C.objective])),
    )
