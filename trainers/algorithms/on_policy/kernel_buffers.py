"""Packed weights, moments and gradients of an actor-critic learner, and the buffers of its updates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.runtime.rollout.packed_weights import (
    copy_places,
    pack_networks,
    pack_normalizer,
    parameter_places,
)
from trainers.algorithms.on_policy.actor_critic import ActorCritic
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.models.action_heads import GaussianHead
from trainers.models.kernel_networks import critic_mlp
from trainers.models.normalization import ObservationNormalizer
from warp_kernels.framework.acting import PolicyKind
from warp_kernels.networks.gradient import MAX_CHUNKS
from warp_kernels.networks.losses import NUM_METRICS
from warp_kernels.networks.mlp import LANES, Mlp
from warp_kernels.networks.optimizer import GPU_SLICES, NUM_SLICES


@dataclass
class PackedNetwork:
    """A network in the row of packed weights."""

    mlp: Mlp
    """Sizes of the network."""
    parameters: list[Tensor]
    """Its parameters of any shapes (...), in the order of `parameter_places`."""
    offset: int
    """Place of the network in a row of weights."""
    into: int
    """Place of its gradients in a row of gradients."""
    sums: int
    """Place of its metrics in a row of gradients."""
    places: Tensor
    """(N,) places of the parameters, from the start of the network."""


class KernelBuffers:
    """Tensors that the kernels of an update read and write; they stay in place."""

    def __init__(self, net: ActorCritic, rollout: RolloutBuffer, kind: PolicyKind, num_settings: int) -> None:
        """Allocate the tensors for networks, their rollout, the kind of the policy and the settings of the loss."""
        device = rollout.device
        actor, critic = kind.mlp, critic_mlp(net.spec)
        log_std = [net.head.log_std] if isinstance(net.head, GaussianHead) else []
        gradients = actor.num_packed + critic.num_packed
        self.num_gradients = gradients
        self.num_slices = NUM_SLICES if device.type == "cpu" else GPU_SLICES
        self.networks: tuple[PackedNetwork, PackedNetwork] = (
            PackedNetwork(actor, [*net.actor.parameters(), *log_std], 0, 0, gradients, parameter_places(actor)),
            PackedNetwork(
                critic,
                [*net.critic.parameters()],
                actor.row_size,
                actor.num_packed,
                gradients + NUM_METRICS,
                parameter_places(critic),
            ),
        )
        for network in self.networks:
            network.places = network.places.to(device)

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        length, rows, width = gradients + 2 * NUM_METRICS, rollout.valid.numel(), rollout.obs.shape[-1]
        after = rows + rollout.rows_per_step
        self.weights: Tensor = zeros(1, actor.row_size + critic.row_size)
        chunks = min(max(rows // 128, 1), MAX_CHUNKS)  # at least one for each chunk of a minibatch
        self.packed: Tensor = zeros(chunks, length)
        self.total: Tensor = zeros(1, length)
        self.sums: Tensor = zeros(1, length)
        self.moments: Tensor = zeros(1, length)
        self.squared_moments: Tensor = zeros(1, length)
        self.steps: Tensor = zeros(1)
        self.norms: Tensor = zeros(1)
        self.squares: Tensor = zeros(1, self.num_slices)
        self.settings: Tensor = zeros(num_settings)
        self.rates: Tensor = zeros(5)
        self.active: Tensor = torch.ones(1, dtype=torch.bool, device=device)
        self.index: Tensor = zeros(1, rows, dtype=torch.int64)
        self.all_rows: Tensor = torch.arange(rows, device=device)
        self.begins: Tensor = zeros(rows + 1, dtype=torch.int32)
        self.scale: Tensor = zeros(1, rows)
        self.inputs: Tensor = zeros(after, width)
        self.values: Tensor = zeros(after)
        self.final_inputs, self.final_values = zeros(rollout.capacity + 1, width), zeros(rollout.capacity + 1)
        self.advantage: Tensor = zeros(rows)
        self.returns: Tensor = zeros(rows)
        self.is_known: Tensor = zeros(rows, dtype=torch.bool)
        # for tiles: number of observations, and of final ones; no list of their rows
        self.counts: Tensor = torch.tensor([[after], [rollout.capacity + 1]], dtype=torch.int32, device=device)
        self.no_rows: Tensor = zeros(1, 0, dtype=torch.int64)
        pairs = [
            (network.offset + targets, network.offset + sources)
            for network in self.networks
            for targets, sources in [copy_places(network.mlp)]
        ]
        self.targets: Tensor
        self.sources: Tensor
        self.targets, self.sources = (torch.cat(parts).to(device, torch.int32) for parts in zip(*pairs, strict=True))
        self.segments: Tensor = torch.tensor(
            [[n.into // LANES, n.offset // LANES, n.mlp.num_packed // LANES] for n in self.networks],
            dtype=torch.int32,
            device=device,
        )

        self._packed_version: list[int] = []

    def resize_final(self, capacity: int) -> None:
        """Allocate rows for the values of `capacity` final observations, if their number has changed."""
        if len(self.final_values) != capacity + 1:
            self.final_inputs: Tensor = self.final_inputs.new_zeros(capacity + 1, self.final_inputs.shape[1])
            self.final_values: Tensor = self.final_values.new_zeros(capacity + 1)
            self.counts[1] = capacity + 1

    def metric_sums(self) -> Tensor:
        """Return the sums of metrics over gradient steps, (networks, NUM_METRICS)."""
        return self.sums[0, self.num_gradients :].view(len(self.networks), NUM_METRICS)

    @torch.no_grad()
    def pack(self, normalizer: ObservationNormalizer, adam: torch.optim.Optimizer | None, always: bool = False) -> None:
        """Copy statistics of observations; and weights and moments of Adam, if they were changed or `always`."""
        version = self._version(adam)
        if version == self._packed_version and not always:
            for network in self.networks:
                row = self.weights[0, network.offset : network.offset + network.mlp.row_size]
                pack_normalizer(row, network.mlp, normalizer.mean, normalizer.var)
            return
        self._packed_version = version
        for network in self.networks:
            row = self.weights[0, network.offset : network.offset + network.mlp.row_size]
            pack_networks(row, network.mlp, _flat(network.parameters), normalizer.mean, normalizer.var)
        if adam is None:
            return
        first = adam.state.get(self.networks[0].parameters[0])
        if not first:
            for moments in (self.steps, self.moments, self.squared_moments):
                moments.zero_()
            return
        self.steps.copy_(first["step"])
        for name, target in (("exp_avg", self.moments), ("exp_avg_sq", self.squared_moments)):
            for network in self.networks:
                values = _flat([adam.state[parameter][name] for parameter in network.parameters])
                target[0, network.into + network.places] = values

    @torch.no_grad()
    def unpack(self, adam: torch.optim.Optimizer) -> None:
        """Copy weights to the networks, and moments to an optimizer."""
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        for network in self.networks:
            into = network.into + network.places
            packed = (self.weights[0, network.offset + network.places], self.moments[0, into])
            splits = [_split(flat, network.parameters) for flat in (*packed, self.squared_moments[0, into])]
            for parameter, weight, first, second in zip(network.parameters, *splits, strict=True):
                state = adam.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), device=parameter.device)
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                targets += [parameter, state["exp_avg"], state["exp_avg_sq"], state["step"]]
                sources += [weight, first, second, self.steps[0]]
        torch._foreach_copy_(targets, sources)  # type: ignore[attr-defined]
        self._packed_version = self._version(adam)

    def _version(self, adam: torch.optim.Optimizer | None) -> list[int]:
        """Return numbers that change when weights or moments are written or replaced."""
        parameters = [tensor for network in self.networks for tensor in network.parameters]
        moments = [] if adam is None else [m for p in parameters if p in adam.state for m in adam.state[p].values()]
        return [number for tensor in (*parameters, *moments) for number in (tensor.data_ptr(), tensor._version)]

    def write_gradients(self) -> None:
        """Write the sums of gradients to the parameters' `grad`."""
        for network in self.networks:
            gradients = _split(self.total[0, network.into + network.places], network.parameters)
            for parameter, gradient in zip(network.parameters, gradients, strict=True):
                parameter.grad = gradient


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def _split(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view_as(tensor) for part, tensor in zip(parts, like, strict=True)]
