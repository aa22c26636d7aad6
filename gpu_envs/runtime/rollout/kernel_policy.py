"""Policies that act inside kernels: dense networks on plain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from gpu_envs.errors import ConfigError, describe_tensor
from gpu_envs.runtime.rollout.packed_weights import pack_networks
from gpu_envs.utils.summaries import Summarized, Summary
from gpu_envs.utils.tensor_checks import plain
from warp_kernels.framework.policies import PolicyKind
from warp_kernels.networks.mlp import Mlp


@dataclass(frozen=True, repr=False)
class KernelPolicy(Summarized):
    """A policy of :meth:`gpu_envs.runtime.core.Core.rollout`; build one with :meth:`from_tensors`."""

    kind: PolicyKind
    """Sizes of the network, and the distribution over actions."""
    weights: Tensor
    """(W,) float32, packed weights, which kernels read in place."""
    seed: int
    """Key of the random stream of its actions, in [0, 2^63)."""

    def __post_init__(self) -> None:
        """Raise ConfigError for a seed that is out of range, or weights that kernels cannot read."""
        size, weights = self.kind.mlp.row_size, self.weights
        if (
            not plain(weights)
            or weights.dtype != torch.float32
            or weights.shape != (size,)
            or not weights.is_contiguous()
        ):
            raise ConfigError(
                f"KernelPolicy: weights: expected contiguous torch.float32 ({size},), got {describe_tensor(weights)}; "
                "pack them by KernelPolicy.from_tensors"
            )
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"KernelPolicy: seed: expected an int in [0, 2^63), got {self.seed}")

    def _summary(self) -> Summary:
        mlp = self.kind.mlp
        facts = {"head": self.kind.head, "network": mlp.key, "parameters": len(self.weights)}
        return Summary("", {**facts, "device": self.weights.device, "seed": self.seed})

    @classmethod
    def from_tensors(
        cls,
        layers: Sequence[tuple[Tensor, Tensor]],
        action_space: spaces.Space[Any],
        *,
        activation: str = "tanh",
        log_std: Tensor | None = None,
        mean: Tensor | None = None,
        var: Tensor | None = None,
        seed: int = 0,
    ) -> KernelPolicy:
        """Pack the tensors of a policy; later changes of them have no effect.

        The last layer has a logit for every choice of a Discrete or MultiDiscrete space, or a mean for every dimension
        of a Box. A Box without ``log_std`` needs twice the outputs: means and raw log standard deviations of a
        Gaussian that a tanh squashes, see ``trainers.models.action_heads.TanhGaussianHead``.

        Args:
            layers: Weight (out, in) and bias (out,) of every layer, float32; one to three hidden layers up to 128 wide.
            action_space: Action space of one agent.
            activation: "tanh" or "relu", between layers.
            log_std: (K,) log standard deviations of a Gaussian that is clipped to the Box.
            mean: (D,) mean of every observation entry; None: 0. Normalized observations are clipped to [-10, 10].
            var: (D,) variance of every observation entry; None: 1.
            seed: Key of the random stream of its actions.

        Raises:
            ConfigError: A tensor has a wrong shape or dtype, kernels do not support these sizes, or they do not fit the
                action space.
        """
        widths = _widths(layers)
        head, sizes, bounded = _head(action_space, log_std)
        extra = 0 if log_std is None else sizes[0]
        outputs = sizes[0] * (2 if head == "tanh_gaussian" else 1) if head != "categorical" else sum(sizes)
        if widths[-1] != outputs:
            raise ConfigError(f"KernelPolicy: expected {outputs} outputs for {action_space}, got {widths[-1]}")
        try:
            mlp = Mlp(widths[0], tuple(widths[1:-1]), widths[-1], activation, extra)
        except ValueError as error:
            raise ConfigError(f"KernelPolicy: {error}") from None
        device = layers[0][0].device
        for name, value, length in (("log_std", log_std, extra), ("mean", mean, widths[0]), ("var", var, widths[0])):
            if value is not None:
                _check(name, value, (length,), device)
        row = torch.zeros(mlp.row_size, device=device)
        parts = [part.detach().flatten() for layer in layers for part in layer]
        parts += [] if log_std is None else [log_std.detach()]
        mean = torch.zeros(mlp.inputs, device=device) if mean is None else mean
        var = torch.ones(mlp.inputs, device=device) if var is None else var
        pack_networks(row, mlp, torch.cat(parts), mean, var)
        return cls(PolicyKind(mlp, head, sizes, bounded), row, seed)


def _widths(layers: Sequence[tuple[Tensor, Tensor]]) -> list[int]:
    """Return the widths from the inputs to the outputs; raise ConfigError for the first tensor that does not fit."""
    if not layers:
        raise ConfigError("KernelPolicy: layers: expected the weights and biases of two to four, got none")
    widths: list[int] = []
    for number, (weight, bias) in enumerate(layers):
        if not plain(weight) or weight.dim() != 2:
            actual = describe_tensor(weight)
            raise ConfigError(f"KernelPolicy: weight of layer {number}: expected a tensor (out, in), got {actual}")
        out, into = weight.shape
        widths, device = widths or [into], layers[0][0].device
        _check(f"weight of layer {number}", weight, (out, widths[-1]), device)
        _check(f"bias of layer {number}", bias, (out,), device)
        widths.append(out)
    return widths


def _check(name: str, value: Tensor, shape: tuple[int, ...], device: torch.device) -> None:
    """Raise ConfigError if a tensor is not float32 of a shape, on the device of the first layer."""
    if not plain(value) or (tuple(value.shape), value.dtype, value.device) != (shape, torch.float32, device):
        expected = f"torch.float32 {shape} on {device}"
        raise ConfigError(f"KernelPolicy: {name}: expected {expected}, got {describe_tensor(value)}")


def _head(space: spaces.Space[Any], log_std: Tensor | None) -> tuple[str, tuple[int, ...], bool]:
    """Return the distribution for an action space, its sizes, and whether the space is a bounded box."""
    if log_std is not None and not isinstance(space, spaces.Box):
        raise ConfigError(f"KernelPolicy: log_std: expected None for {space}, got {describe_tensor(log_std)}")
    if isinstance(space, spaces.Discrete):
        return "categorical", (int(space.n),), False
    if isinstance(space, spaces.MultiDiscrete):
        return "categorical", tuple(int(n) for n in space.nvec), False
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return "tanh_gaussian" if log_std is None else "gaussian", space.shape, space.is_bounded()
    raise ConfigError(f"KernelPolicy: expected Discrete, MultiDiscrete or a one-dimensional Box, got {space}")
